"""The web configuration in force; follows changes of its file and of the certificates."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_actuary.errors import UsageError

from .basicauth import BasicAuthentication
from .tlscontext import tls_context
from .webconfig import read_web_config

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from .webconfig import WebConfig

log = logging.getLogger("gpu_actuary")

Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Security:
    """What a connection must satisfy; ``tls`` and ``users`` are None where nothing is asked."""

    tls: ssl.SSLContext | None
    users: BasicAuthentication | None


class WebSecurity:
    """The security that the file at ``path`` asks for.

    :meth:`current` looks at the files' times and sizes and loads them anew after a change. A change
    that does not load, or would switch TLS or authentication off, is logged once and leaves in force
    what was: nobody's rotation or half-written file opens the sidecar. :attr:`up_to_date` says
    whether the files are in force. Safe for concurrent use.
    """

    def __init__(self, path: Path) -> None:
        """Load ``path``; raises :class:`UsageError`."""
        self._path = path
        self._lock = threading.Lock()
        self.up_to_date = True
        self._config = read_web_config(path)
        self._signature = self._sign(self._config)
        self._security = _security(self._config)

    def current(self) -> Security:
        """The security in force, after a look for changes."""
        with self._lock:
            # Taken before reading: what changes in between is then noticed at the next look.
            signature = self._sign(self._config)
            if signature != self._signature:
                self._signature = signature
                try:
                    self._reload()
                    self.up_to_date = True
                    log.info("Loaded %s anew.", self._path)
                except UsageError as error:
                    self.up_to_date = False
                    log.warning("%s. The web configuration of before stays in force.", error)
            return self._security

    def _reload(self) -> None:
        config = read_web_config(self._path)
        for name, before, after in (
            ("tls_server_config", self._config.tls, config.tls),
            ("basic_auth_users", self._config.users, config.users),
        ):
            if before and not after:
                raise UsageError(f"{self._path}: {name} is gone; to switch it off, restart")
        if config.tls and not self._config.tls:
            raise UsageError(f"{self._path}: tls_server_config is new; to switch it on, restart")
        files = self._sign(config)
        self._security = _security(config)
        self._config = config
        self._signature = (self._signature[0], *files[1:])

    def _sign(self, config: WebConfig) -> Signature:
        files = config.tls.files if config.tls is not None else ()
        return tuple(_signature(path) for path in (self._path, *files))


def _security(config: WebConfig) -> Security:
    return Security(
        tls_context(config.tls) if config.tls else None,
        BasicAuthentication(config.users) if config.users else None,
    )


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def guarded(application: WSGIApplication, security: WebSecurity) -> WSGIApplication:
    """``application`` for those whom ``security`` accepts; everybody else is told 401."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        users = security.current().users
        if users is None or users.accepts(environ.get("HTTP_AUTHORIZATION", "")):
            return application(environ, start_response)
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("WWW-Authenticate", "Basic")]
        start_response("401 Unauthorized", headers)
        return [b"Unauthorized\n"]

    return answer
