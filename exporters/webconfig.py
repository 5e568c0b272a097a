"""The web configuration: TLS and basic authentication, in the file format that Prometheus uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from gpu_actuary.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CLIENT_AUTH_TYPES: Final = (
    "NoClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
)
_UNVERIFIED_CLIENT_AUTH_TYPES: Final = ("RequestClientCert", "RequireAnyClientCert")
TLS_VERSIONS: Final = ("TLS12", "TLS13")
_OLD_TLS_VERSIONS: Final = ("TLS10", "TLS11")
_TLS_KEYS: Final = ("cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version")
_BCRYPT_HASH: Final = re.compile(r"\$2[abxy]?\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The section ``tls_server_config``; paths are absolute or relative to the working folder."""

    cert_file: Path
    key_file: Path
    client_auth_type: str
    client_ca_file: Path | None
    min_version: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The files whose content matters."""
        return (self.cert_file, self.key_file, *filter(None, (self.client_ca_file,)))


@dataclass(frozen=True, slots=True)
class WebConfig:
    """A web configuration. ``users`` maps names to bcrypt hashes; empty: no authentication."""

    tls: TlsSettings | None
    users: Mapping[str, bytes]


def read_web_config(path: Path) -> WebConfig:
    """Read and check ``path``; raises :class:`UsageError` with file, line, key and expectation.

    A message never repeats a value of ``basic_auth_users``: it may be somebody's password.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot read the web configuration: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: expected YAML in UTF-8") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{path}:{line}: no YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: no YAML: {error}") from error
    sections = _Section(path, "", root).entries(("tls_server_config", "basic_auth_users"))
    if not sections:
        raise UsageError(
            f"{path}: says nothing; expected tls_server_config, basic_auth_users, or both"
        )
    tls = sections.get("tls_server_config")
    users = sections.get("basic_auth_users")
    return WebConfig(_tls(tls) if tls else None, _users(users) if users else {})


@dataclass(frozen=True, slots=True)
class _Section:
    """A place in the file: its path of keys and the YAML there."""

    file: Path
    key: str
    node: yaml.Node | None

    def error(self, message: str) -> UsageError:
        line = self.node.start_mark.line + 1 if self.node else 1
        return UsageError(f"{self.file}:{line}: {self.key + ': ' if self.key else ''}{message}")

    def entries(self, known: tuple[str, ...] = ()) -> dict[str, _Section]:
        """What a mapping holds by key; with ``known`` nothing else is allowed."""
        if self.node is None or _is_null(self.node):
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error("expected a mapping")
        found: dict[str, _Section] = {}
        for key_node, node in self.node.value:
            name = _Section(self.file, self.key, key_node).text()
            path = f"{self.key}.{name}" if self.key else name
            here = _Section(self.file, path, node)
            if name in found:
                raise _Section(self.file, path, key_node).error("stands twice")
            if known and name not in known:
                raise _Section(self.file, path, key_node).error(
                    f"this key is not supported here; expected {', '.join(known)}"
                )
            found[name] = here
        return found

    def text(self) -> str:
        """A text that is not empty. What YAML would take for a number or a truth value is none."""
        if isinstance(self.node, yaml.ScalarNode) and self.node.value:
            if self.node.tag == "tag:yaml.org,2002:str":
                return str(self.node.value)
            raise self.error("expected a text; put it in quotes")
        raise self.error("expected a text that is not empty")

    def one_of(self, allowed: tuple[str, ...]) -> str:
        text = self.text()
        if text not in allowed:
            raise self.error(f"expected one of {', '.join(allowed)}, not {text!r}")
        return text


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _tls(section: _Section) -> TlsSettings:
    entries = section.entries(_TLS_KEYS)
    for name in ("cert_file", "key_file"):
        if name not in entries:
            raise section.error(f"{name} is missing; expected cert_file and key_file")
    # As Prometheus does: relative to the file, so that the set of files can be moved together.
    files = {
        name: section.file.parent / entries[name].text()
        for name in ("cert_file", "key_file", "client_ca_file")
        if name in entries
    }
    policy = "NoClientCert"
    if "client_auth_type" in entries:
        chosen = entries["client_auth_type"]
        if chosen.text() in _UNVERIFIED_CLIENT_AUTH_TYPES:
            raise chosen.error(
                f"{chosen.text()} asks for a certificate and does not verify it;"
                f" expected one of {', '.join(CLIENT_AUTH_TYPES)}"
            )
        policy = chosen.one_of(CLIENT_AUTH_TYPES)
    if (policy != "NoClientCert") != ("client_ca_file" in files):
        raise section.error(
            "client_ca_file and a client_auth_type that verifies"
            f" ({', '.join(CLIENT_AUTH_TYPES[1:])}) belong together; expected both or neither"
        )
    min_version = "TLS12"
    if "min_version" in entries:
        chosen = entries["min_version"]
        if chosen.text() in _OLD_TLS_VERSIONS:
            raise chosen.error(f"{chosen.text()} is broken; expected one of TLS12, TLS13")
        min_version = chosen.one_of(TLS_VERSIONS)
    return TlsSettings(
        files["cert_file"], files["key_file"], policy, files.get("client_ca_file"), min_version
    )


def _users(section: _Section) -> dict[str, bytes]:
    users: dict[str, bytes] = {}
    for name, entry in section.entries().items():
        if ":" in name:
            raise entry.error("a user's name holds no colon: basic authentication splits there")
        value = entry.text()
        if not _BCRYPT_HASH.fullmatch(value):
            raise entry.error(
                "expected a bcrypt hash of 59 or 60 characters that begins with $2y$, $2b$ or $2a$,"
                " for example from: htpasswd -nBC 10 USER"
            )
        users[name] = value.encode("ascii")
    if not users:
        raise section.error("expected at least one user: NAME: BCRYPT-HASH")
    return users
