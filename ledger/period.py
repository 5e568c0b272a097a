"""The period of a statement: how people write it, and when it begins and ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from gpu_actuary.errors import UsageError
from gpu_actuary.options import UNIT_SECONDS, duration_seconds

_UNIX_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Period:
    """From ``since`` to ``until``, both in Unix seconds to the millisecond."""

    since: float
    until: float

    @property
    def seconds(self) -> float:
        """Length of the period."""
        return self.until - self.since


def _parse_time(text: str) -> float | None:
    try:
        return float(text) if _UNIX_SECONDS.fullmatch(text) else _parse_iso(text)
    except (ValueError, OverflowError):
        return None


def _parse_iso(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def parse_period(since: str, until: str | None, *, now: float) -> Period:
    """The period that ``--since`` and ``--until`` name.

    ``since`` is a duration before the end, or a time; ``until`` a time, a duration before ``now``,
    or None for ``now``. A time without a zone is UTC. Raises :class:`UsageError` for anything else,
    for an empty period, and for one that ends in the future.
    """
    end = _moment("--until", until, before=now) if until is not None else now
    begin = _moment("--since", since, before=end)
    if end > now:
        raise UsageError(f"--until {until} lies in the future")
    if begin >= end:
        raise UsageError(f"the period is empty: --since {since} is not before its end")
    if begin < 0:
        raise UsageError(f"--since {since} lies before 1970")
    return Period(round(begin, 3), round(end, 3))


def _moment(option: str, text: str, *, before: float) -> float:
    seconds = duration_seconds(text)
    if seconds is not None:
        return before - seconds
    moment = _parse_time(text)
    if moment is None:
        raise UsageError(
            f"{option} {text!r} is neither a duration such as 24h, 7d or 1h30m "
            "nor a time such as 2026-01-31T08:00:00Z"
        )
    return moment


def iso(seconds: float) -> str:
    """Unix seconds as UTC in ISO 8601, with as many decimals as they have."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="auto").replace("+00:00", "Z")


def duration(seconds: float) -> str:
    """A length of time in its two largest units, such as ``1h12m``."""
    rest = round(seconds)
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, int(UNIT_SECONDS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
