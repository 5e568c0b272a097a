"""Basic authentication against bcrypt hashes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from typing import TYPE_CHECKING, Final

import bcrypt

if TYPE_CHECKING:
    from collections.abc import Mapping

_REMEMBERED: Final = 64
_BCRYPT_BYTES: Final = 72
"""bcrypt reads no more of a password; htpasswd and Prometheus cut it there too."""


class BasicAuthentication:
    """Checks the ``Authorization`` header against ``users``, names with bcrypt hashes.

    A hash costs tens of milliseconds by design, so successes are remembered, as keyed digests that
    are of no use outside this process. Failures are not remembered and wait for each other: whoever
    guesses occupies one core and does not delay those who are known. Safe for concurrent use.
    """

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, None] = {}
        self._one_at_a_time = threading.Lock()
        # Checked for a user who does not exist, so that the time does not tell who does.
        costs = [int(stored.split(b"$")[2]) for stored in users.values()]
        self._nobody = bcrypt.hashpw(secrets.token_hex(16).encode(), bcrypt.gensalt(min(costs)))

    def accepts(self, header: str) -> bool:
        """Whether ``header``, the value of ``Authorization``, names a user and the password."""
        credentials = _decoded(header)
        if credentials is None:
            return False
        name, password = credentials
        digest = hmac.digest(self._key, name.encode() + b"\0" + password, hashlib.sha256)
        if digest in self._known:
            return True
        stored = self._users.get(name)
        with self._one_at_a_time:
            matches = bcrypt.checkpw(password[:_BCRYPT_BYTES], stored or self._nobody)
            if not matches or stored is None:
                return False
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[digest] = None
        return True


def _decoded(header: str) -> tuple[str, bytes] | None:
    """Name and password of a ``Basic`` header; None when it is none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        text = name.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    if not colon or b"\0" in password or "\0" in text:
        return None
    return text, password
