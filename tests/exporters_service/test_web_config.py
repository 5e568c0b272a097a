"""The web configuration: what is read, and what is refused with which words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_actuary.errors import UsageError
from gpu_actuary.exporters.webconfig import read_web_config
from gpu_actuary.exporters.websecurity import WebSecurity

from .certificates import Authority, pem_key
from .running import HASH

if TYPE_CHECKING:
    from pathlib import Path

TLS = "tls_server_config: {cert_file: a.pem, key_file: b.key"


def _read(folder: Path, text: str) -> str:
    """The message with which ``text`` is refused, without the file's folder."""
    file = folder / "web.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as refusal:
        read_web_config(file)
    return str(refusal.value).replace(f"{folder}/", "")


def test_a_complete_file_is_read_with_paths_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        f"{TLS}, client_ca_file: /etc/ca.pem, client_auth_type: RequireAndVerifyClientCert,"
        f" min_version: TLS13}}\nbasic_auth_users:\n  alice: '{HASH}'\n  \"7\": {HASH}\n"
    )
    config = read_web_config(file)
    assert config.users == {"alice": HASH.encode(), "7": HASH.encode()}
    assert config.tls is not None
    assert config.tls.cert_file == tmp_path / "a.pem"
    assert str(config.tls.client_ca_file) == "/etc/ca.pem"
    assert config.tls.min_version == "TLS13"


def test_without_further_keys_tls_is_1_2_or_later_and_asks_for_no_certificate(
    tmp_path: Path,
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(TLS + "}")
    config = read_web_config(file)
    assert config.tls is not None
    assert (config.tls.min_version, config.tls.client_auth_type) == ("TLS12", "NoClientCert")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "web.yaml: says nothing; expected tls_server_config, basic_auth_users, or both"),
        ("- a", "web.yaml:1: expected a mapping"),
        ("a: [", "web.yaml:1: no YAML: "),
        ("tls:\n  x: y", "web.yaml:1: tls: this key is not supported here; expected tls_server_c"),
        ("tls_server_config: {}", "web.yaml:1: tls_server_config: cert_file is missing; expected"),
        (TLS + ", cipher_suites: []}", "cipher_suites: this key is not supported here; expected"),
        (TLS + ", min_version: TLS11}", "min_version: TLS11 is broken; expected one of TLS12, TLS"),
        (TLS + ", min_version: 1.2}", "tls_server_config.min_version: expected a text; put it in"),
        (TLS + ", min_version: TLS9}", "expected one of TLS12, TLS13, not 'TLS9'"),
        (TLS + ", cert_file: c}", "web.yaml:1: tls_server_config.cert_file: stands twice"),
        (TLS + ", client_ca_file: c}", "belong together; expected both or neither"),
        (TLS + ", client_auth_type: VerifyClientCertIfGiven}", "belong together; expected both"),
        (TLS + ", client_auth_type: RequestClientCert}", "a certificate and does not verify it"),
        ("tls_server_config: {cert_file: [a], key_file: b}", "expected a text that is not empty"),
        ("basic_auth_users:", "web.yaml:1: basic_auth_users: expected at least one user"),
        ("basic_auth_users:\n  no: x", "web.yaml:2: basic_auth_users: expected a text; put it in"),
        (f"basic_auth_users:\n  'a:b': {HASH}", "a user's name holds no colon"),
        ("basic_auth_users:\n  bob: secret", "web.yaml:2: basic_auth_users.bob: expected a bcrypt"),
        (f"basic_auth_users:\n  bob: {HASH}x", "expected a bcrypt hash of 59 or 60 characters"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_was_expected(
    tmp_path: Path, text: str, message: str
) -> None:
    assert message in _read(tmp_path, text)


def test_a_password_in_the_place_of_its_hash_is_not_repeated(tmp_path: Path) -> None:
    assert "secret" not in _read(tmp_path, "basic_auth_users: {bob: secret}")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.one_of(st.binary(max_size=60), st.text("{}[]:,&*!|>-'\"\n ab\t%@`#?~0", max_size=40)))
def test_nothing_in_the_file_causes_more_than_a_message(
    tmp_path: Path, content: bytes | str
) -> None:
    file = tmp_path / "web.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError, match=r"web\.yaml"):
        read_web_config(file)


def test_files_that_do_not_serve_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue(tmp_path, "one")
    _, other_key = authority.issue(tmp_path, "two")
    locked = tmp_path / "locked.key"
    locked.write_bytes(pem_key(ec.generate_private_key(ec.SECP256R1()), b"passphrase"))
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")

    def refusal(cert: Path, key: Path, more: str = "") -> str:
        file = tmp_path / "web.yaml"
        file.write_text(f"tls_server_config: {{cert_file: {cert}, key_file: {key}{more}}}")
        with pytest.raises(UsageError) as error:
            WebSecurity(file)
        return str(error.value)

    missing = tmp_path / "missing"
    assert f"cert_file: cannot read {missing}: No such file" in refusal(missing, key)
    assert f"key_file: cannot read {missing}: No such file" in refusal(certificate, missing)
    assert f"{other_key} is not the key of {certificate}" in refusal(certificate, other_key)
    assert "without passphrase" in refusal(certificate, locked)
    assert f"expected a PEM certificate in {junk}" in refusal(junk, key)
    more = f", client_ca_file: {junk}, client_auth_type: RequireAndVerifyClientCert"
    assert "client_ca_file: expected PEM certificates in" in refusal(certificate, key, more)
