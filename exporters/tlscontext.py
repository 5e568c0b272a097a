"""From the TLS section of a web configuration to the context that connections are wrapped with."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from gpu_actuary.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from .webconfig import TlsSettings

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_POLICIES: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """A server's context; raises :class:`UsageError` that names the file which does not serve."""
    for key, path in (
        ("cert_file", settings.cert_file),
        ("key_file", settings.key_file),
        ("client_ca_file", settings.client_ca_file),
    ):
        if path is not None:
            _require_readable(key, path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    try:
        # Without a function for the passphrase, OpenSSL would ask for it on the terminal.
        context.load_cert_chain(settings.cert_file, settings.key_file, password=_no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(
                f"tls_server_config.key_file: {settings.key_file} is not the key of"
                f" {settings.cert_file}"
            ) from error
        raise UsageError(
            f"tls_server_config: expected a PEM certificate in {settings.cert_file} and its PEM key"
            f" without passphrase in {settings.key_file} ({error.reason or error})"
        ) from error
    if settings.client_ca_file is not None:
        try:
            context.load_verify_locations(settings.client_ca_file)
        except ssl.SSLError as error:
            raise UsageError(
                f"tls_server_config.client_ca_file: expected PEM certificates in"
                f" {settings.client_ca_file} ({error.reason or error})"
            ) from error
    context.verify_mode = _POLICIES[settings.client_auth_type]
    return context


def _require_readable(key: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise UsageError(
            f"tls_server_config.{key}: cannot read {path}: {error.strerror}"
        ) from error


def _no_passphrase() -> str:
    return ""
