"""A sidecar behind TLS and basic authentication, with real clients and a real Prometheus."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import bcrypt
import httpx
import pytest

from gpu_actuary.errors import UsageError
from gpu_actuary.exporters.basicauth import BasicAuthentication

from ..servers import prometheus, wait_for
from .certificates import Authority
from .running import HASH, PASSWORD, USERS, samples, sidecar

if TYPE_CHECKING:
    from pathlib import Path

IN_FORCE = "actuary_exporter_web_config_in_force"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def _web_config(folder: Path, authority: Authority, *, users: str = USERS, more: str = "") -> Path:
    certificate, key = authority.issue(folder, "server")
    file = folder / "web.yaml"
    file.write_text(
        f"tls_server_config:\n  cert_file: {certificate.name}\n  key_file: {key.name}\n{more}{users}"
    )
    return file


def _client(url: str, authority: Authority, **settings: object) -> httpx.Client:
    context = ssl.create_default_context(cafile=str(authority.file))
    return httpx.Client(base_url=url, verify=context, trust_env=False, **settings)  # type: ignore[arg-type]


def _serial(address: str) -> str:
    """The certificate that a server shows, as PEM."""
    host, _, port = address.removeprefix("https://").partition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_prometheus_scrapes_over_tls_with_its_password(
    tmp_path: Path, authority: Authority
) -> None:
    web_config = _web_config(tmp_path, authority)
    with sidecar(tmp_path / "ranks", web_config=web_config) as server:
        address = server.url.removeprefix("https://")
        secured = {
            "scheme": "https",
            "tls_config": {"ca_file": str(authority.file)},
            "static_configs": [{"targets": [address]}],
        }
        password = {"username": "alice", "password": PASSWORD}
        jobs = [
            {"job_name": "right", **secured, "basic_auth": password},
            {"job_name": "wrong", **secured, "basic_auth": {**password, "password": "guess"}},
            {"job_name": "plain", "static_configs": [{"targets": [address]}]},
        ]
        with prometheus(tmp_path / "prometheus", scrape=jobs) as client:

            def up() -> dict[str, float]:
                return {each.labels["job"]: each.value for each in client.query("up")}

            wait_for(lambda: len(up()) == 3 and up()["right"] == 1, seconds=30, what="the scrape")
            assert up() == {"right": 1, "wrong": 0, "plain": 0}
            (in_force,) = client.query(IN_FORCE)
            assert in_force.value == 1


def test_every_path_asks_for_the_password(tmp_path: Path, authority: Authority) -> None:
    with (
        sidecar(tmp_path, web_config=_web_config(tmp_path, authority)) as server,
        _client(server.url, authority) as client,
    ):
        for path in ("/", "/metrics", "/-/healthy", "/-/ready", "/elsewhere"):
            refused = client.get(path)
            assert refused.status_code == 401, path
            assert refused.headers["WWW-Authenticate"].startswith("Basic"), path
            status = client.get(path, auth=("alice", PASSWORD)).status_code
            assert status == (404 if path == "/elsewhere" else 200), path
        for name, password in (("alice", "x"), ("bob", PASSWORD), ("", ""), ("alice", "")):
            assert client.get("/metrics", auth=(name, password)).status_code == 401
        for header in (
            "Basic",
            "Basic !",
            "Basic YWxpY2U=",
            "Bearer x",
            "Basic /w==",
            "Basic AAA6",
        ):
            answer = client.get("/metrics", headers={"Authorization": header})
            assert answer.status_code == 401, header


def test_passwords_without_tls_work_as_they_do_in_prometheus(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(USERS)
    with sidecar(tmp_path, web_config=tmp_path / "web.yaml") as server:
        assert server.url.startswith("http://")
        with httpx.Client(base_url=server.url, trust_env=False) as client:
            assert client.get("/metrics").status_code == 401
            client.auth = ("alice", PASSWORD)
            assert samples(client)[IN_FORCE] == {(): 1}


def test_a_client_certificate_is_demanded_where_the_file_says_so(
    tmp_path: Path, authority: Authority
) -> None:
    more = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
    web_config = _web_config(tmp_path, authority, users="", more=more)
    stranger_folder = tmp_path / "stranger"
    stranger_folder.mkdir()
    stranger = Authority(stranger_folder).issue(stranger_folder, "client")
    with sidecar(tmp_path, web_config=web_config) as server:
        for certificate, welcome in (
            (None, False),
            (stranger, False),
            (authority.issue(tmp_path, "client"), True),
        ):
            context = ssl.create_default_context(cafile=str(authority.file))
            if certificate:
                context.load_cert_chain(*certificate)
            with httpx.Client(verify=context, trust_env=False) as client:
                if welcome:
                    assert client.get(server.url).status_code == 200
                else:
                    with pytest.raises(httpx.TransportError):
                        client.get(server.url)


def test_an_older_tls_than_the_file_asks_for_is_refused(
    tmp_path: Path, authority: Authority
) -> None:
    web_config = _web_config(tmp_path, authority, users="", more="  min_version: TLS13\n")
    with sidecar(tmp_path, web_config=web_config) as server:
        context = ssl.create_default_context(cafile=str(authority.file))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            httpx.Client(verify=context, trust_env=False) as client,
            pytest.raises(httpx.ConnectError),
        ):
            client.get(server.url)


def test_a_client_that_says_nothing_or_speaks_no_tls_holds_up_nobody(
    tmp_path: Path, authority: Authority, capfd: pytest.CaptureFixture[str]
) -> None:
    with sidecar(tmp_path, web_config=_web_config(tmp_path, authority)) as server:
        host, _, port = server.url.removeprefix("https://").partition(":")
        with socket.create_connection((host, int(port))):  # says nothing
            with socket.create_connection((host, int(port)), timeout=10) as plain:
                plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    assert b"200" not in plain.recv(1000)
            with _client(server.url, authority, auth=("alice", PASSWORD)) as client:
                assert client.get("/-/healthy").status_code == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_renewed_certificate_and_changed_users_are_taken_without_a_restart(
    tmp_path: Path, authority: Authority
) -> None:
    web_config = _web_config(tmp_path, authority)
    with (
        sidecar(tmp_path, web_config=web_config) as server,
        _client(server.url, authority) as client,
    ):
        assert client.get("/metrics", auth=("alice", PASSWORD)).status_code == 200
        before = _serial(server.url)
        certificate, _ = authority.issue(tmp_path, "server")
        assert _serial(server.url) == certificate.read_text() != before
        other = bcrypt.hashpw(b"new", bcrypt.gensalt(4)).decode()
        web_config.write_text(web_config.read_text().replace(HASH, other))
        assert client.get("/metrics", auth=("alice", PASSWORD)).status_code == 401
        assert client.get("/metrics", auth=("alice", "new")).status_code == 200


@pytest.mark.parametrize("change", ["nothing", "junk", "no users", "no tls", "gone", "bad key"])
def test_a_change_that_does_not_load_leaves_in_force_what_was_and_says_so_once(
    tmp_path: Path, authority: Authority, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    web_config = _web_config(tmp_path, authority)
    good, good_key = web_config.read_text(), (tmp_path / "server.key").read_text()
    with (
        sidecar(tmp_path, web_config=web_config) as server,
        _client(server.url, authority, auth=("alice", PASSWORD)) as client,
    ):
        if change == "gone":
            web_config.unlink()
        elif change == "bad key":
            (tmp_path / "server.key").write_text("half a k")
        else:
            text = {"no users": good.replace(USERS, ""), "no tls": USERS}
            web_config.write_text({"nothing": "", "junk": "{", **text}[change])
        assert client.get("/metrics", auth=("alice", "wrong")).status_code == 401
        assert samples(client)[IN_FORCE] == {(): 0}
        assert caplog.text.count("The web configuration of before stays in force") == 1
        web_config.write_text(good)
        (tmp_path / "server.key").write_text(good_key)
        assert samples(client)[IN_FORCE] == {(): 1}


def test_hashes_of_other_tools_and_long_passwords_work() -> None:
    long = "p" * 100
    hashed = bcrypt.hashpw(long.encode()[:72], bcrypt.gensalt(4))
    authentication = BasicAuthentication({"long": hashed.replace(b"$2b$", b"$2y$", 1)})
    for _ in range(2):  # the second time from memory
        assert authentication.accepts(httpx.BasicAuth("long", long)._auth_header)
        assert not authentication.accepts(httpx.BasicAuth("long", "p" * 71)._auth_header)


def test_the_command_reports_a_bad_file_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("basic_auth_users: {bob: secret}")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "gpu_actuary", "exporter", "--listen", "127.0.0.1:0"),
            *("--directory", str(tmp_path), "--web-config", str(tmp_path / "web.yaml")),
        ],
        text=True,
        capture_output=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        f"actuary: {tmp_path}/web.yaml:1: basic_auth_users.bob: expected"
    )
    assert ended.stderr.count("\n") == 1


def test_a_sidecar_with_a_bad_web_config_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="cannot read the web configuration"),
        sidecar(tmp_path, web_config=tmp_path / "missing.yaml"),
    ):
        pass
