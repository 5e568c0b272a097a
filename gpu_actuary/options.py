"""Values of command-line options that every component reads alike: durations and addresses."""

from __future__ import annotations

import re
from typing import Final

from gpu_actuary.errors import UsageError

UNIT_SECONDS: Final = {
    "y": 365 * 86400.0,
    "w": 7 * 86400.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 0.001,
}
"""Prometheus's units of time, the largest first, as a duration must write them."""

_DURATION: Final = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in UNIT_SECONDS))
_PORT: Final = re.compile(r"[0-9]{1,5}")


def duration_seconds(text: str) -> float | None:
    """Seconds of a Prometheus duration such as ``90m`` or ``1d12h``; None for anything else."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        return None
    *parts, milliseconds = zip(match.groups(), UNIT_SECONDS.values(), strict=True)
    whole = sum(int(number) * unit for number, unit in parts if number)
    # Divided rather than multiplied, so that 250ms is exactly 0.25.
    return whole + int(milliseconds[0] or 0) / 1000


def parse_duration(text: str, option: str, *, at_least: float = 0.001) -> float:
    """The duration of ``option`` in seconds; raises :class:`UsageError` below ``at_least``."""
    seconds = duration_seconds(text)
    if seconds is None:
        raise UsageError(f"{option} {text!r}: expected a duration such as 30s, 5m or 1h30m")
    if seconds < at_least:
        raise UsageError(f"{option} {text}: expected at least {at_least:g}s")
    return seconds


def parse_listen(text: str) -> tuple[str, int]:
    """``127.0.0.1:9410``, ``[::1]:9410`` or ``:9410`` (every address) as host and port.

    Raises :class:`UsageError`.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) > 65535:
        raise UsageError(f"--listen {text!r}: expected HOST:PORT, for example 127.0.0.1:9410")
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise UsageError(f"--listen {text!r}: write an IPv6 host in brackets: [{host}]:{port}")
    return (host[1:-1] if bracketed else host), int(port)


def join_address(host: str, port: int) -> str:
    """``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
