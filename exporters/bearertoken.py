"""A bearer token in a file, as Kubernetes and others mount secrets."""

from __future__ import annotations

import hmac
import logging
import threading
from typing import TYPE_CHECKING, Final

from gpu_actuary.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("gpu_actuary")

_SHORTEST: Final = 16


class BearerToken:
    """The token in ``path``; a changed file is read anew, and one that does not serve is logged
    while the token of before stays in force. Safe for concurrent use.
    """

    def __init__(self, path: Path) -> None:
        """Read the token; raises :class:`UsageError`."""
        self._path = path
        self._lock = threading.Lock()
        self._changed = self._modified()
        self._token = self._read()

    def accepts(self, header: str) -> bool:
        """Whether ``header``, the value of ``Authorization``, carries the token."""
        scheme, _, presented = header.partition(" ")
        token = self._current()
        return scheme.lower() == "bearer" and hmac.compare_digest(
            presented.strip().encode("utf-8", "surrogatepass"), token
        )

    def _current(self) -> bytes:
        with self._lock:
            changed = self._modified()
            if changed != self._changed:
                self._changed = changed
                try:
                    self._token = self._read()
                except UsageError as error:
                    log.warning("%s. The token of before stays in force.", error)
            return self._token

    def _modified(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_ino)

    def _read(self) -> bytes:
        try:
            token = self._path.read_bytes().strip()
        except OSError as error:
            raise UsageError(f"{self._path}: cannot read the token: {error.strerror}") from error
        if len(token) < _SHORTEST or len(token.split()) != 1:
            raise UsageError(
                f"{self._path}: expected one token of at least {_SHORTEST} characters,"
                " for example from: openssl rand -hex 32"
            )
        return token
