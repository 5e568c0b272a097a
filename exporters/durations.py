"""Durations of a job, summed over its ranks on the node, as one histogram that never falls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .layout import BUCKET_BOUNDS

if TYPE_CHECKING:
    from .rankdirectory import Rank


class Durations:
    """Adds up the ranks' histograms of the series ``name``.

    A sum over ranks falls when one of them disappears or starts anew, and Prometheus would take
    that for a reset and count everything else twice. What a rank had contributed is therefore kept
    for as long as its job is shown.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._slots = tuple(f"{name}/{bound}" for bound in (*BUCKET_BOUNDS, "sum"))
        self._latest: dict[str, dict[str, tuple[float, ...]]] = {}
        self._retired: dict[str, tuple[float, ...]] = {}

    def update(self, ranks: list[Rank]) -> dict[str, tuple[float, ...]]:
        """By job: the counts per bucket (not cumulative) and, last, the sum in seconds."""
        now: dict[str, dict[str, tuple[float, ...]]] = {}
        for rank in ranks:
            numbers = tuple(rank.snapshot.values.get(slot, 0.0) for slot in self._slots)
            now.setdefault(rank.job_id, {})[rank.number] = numbers
        self._retired = {job: kept for job, kept in self._retired.items() if job in now}
        for job, latest in self._latest.items():
            for rank_number, before in latest.items():
                after = now.get(job, {}).get(rank_number)
                gone = after is None or sum(after[:-1]) < sum(before[:-1])
                if gone and job in now:
                    self._retired[job] = _plus(self._retired.get(job), before)
        self._latest = now
        totals = {}
        for job, by_rank in now.items():
            total = self._retired.get(job)
            for numbers in by_rank.values():
                total = _plus(total, numbers)
            if total is not None and sum(total[:-1]) > 0:
                totals[job] = total
        return totals


def _plus(total: tuple[float, ...] | None, more: tuple[float, ...]) -> tuple[float, ...]:
    if total is None:
        return more
    return tuple(a + b for a, b in zip(total, more, strict=True))
