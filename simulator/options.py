"""Values of the command's options; each error names the option and what was expected."""

from __future__ import annotations

import re
from typing import Final

from gpu_actuary.errors import UsageError

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(?:\d{1,9}(?:ms|s|m|h|d))+", re.ASCII)
_PART: Final = re.compile(r"(\d+)(ms|[smhd])", re.ASCII)


def parse_duration(text: str, option: str, *, at_least: float = 0.0) -> float:
    """``60s``, ``5m`` or ``1h30m`` in seconds; raises :class:`UsageError`."""
    if _DURATION.fullmatch(text):
        seconds = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
        if seconds >= at_least:
            return seconds
        raise UsageError(f"{option} {text}: expected at least {at_least:g}s")
    raise UsageError(f"{option} {text!r}: expected a duration such as 60s, 5m or 1h30m")


def parse_listen(text: str) -> tuple[str, int]:
    """``127.0.0.1:9430`` or ``[::1]:9430`` as host and port; raises :class:`UsageError`."""
    host, colon, port = text.rpartition(":")
    if colon and host and re.fullmatch(r"\d{1,5}", port, re.ASCII) and int(port) <= 65535:
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if bare and (":" not in bare or bare != host):
            return bare, int(port)
    raise UsageError(f"--listen {text!r}: expected host:port such as 127.0.0.1:9430, or [::1]:9430")
