"""When the ledger was recorded in a period, and how many seconds each of its samples stands for.

A sample at time t with the interval i stands for the seconds from t − i to t, which is what the
rules looked at. It counts in a period when all of these seconds lie in it. Time that no sample
stands for is a gap: it lowers the coverage and is never filled in.
"""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_actuary.prometheus import PrometheusClient

    from .period import Period

HOUR_MS = 3_600_000
RAW_CHUNK_SECONDS = 86_400.0
MIN_REPETITIONS = 3


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of the period, in Unix milliseconds: after ``start``, up to and with ``end``.

    Every sample in it stands for ``seconds_per_sample``.
    """

    start: int
    end: int
    seconds_per_sample: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """The recorded times of one ledger in a period."""

    windows: tuple[Window, ...]
    samples: int
    covered_seconds: float
    interval_seconds: float
    on_edge: bool
    """Whether a sample stands exactly on the edge between two windows."""

    def range_of(self, window: Window) -> int:
        """Milliseconds of the PromQL range that holds exactly the samples of ``window``.

        Up to Prometheus 2 a range contains its left end, from 3 on it does not. Where samples stand
        on the edges, one millisecond less keeps them from counting twice.
        """
        return window.end - window.start - (1 if self.on_edge else 0)


def read_times(client: PrometheusClient, selector: str, period: Period) -> list[int]:
    """Unix milliseconds of the samples of ``selector`` in the period.

    Replicas of a Prometheus record the same ledger twice: the one with the most samples is taken.
    """
    times: dict[tuple[tuple[str, str], ...], set[int]] = {}
    start = period.since
    while start < period.until:
        end = min(start + RAW_CHUNK_SECONDS, period.until)
        for series in client.stored(selector, start=start, end=end):
            key = tuple(sorted(series.labels.items()))
            times.setdefault(key, set()).update(round(t * 1000) for t, _ in series.points)
        start = end
    return sorted(max(times.values(), key=len, default=()))


def interval_of(client: PrometheusClient, record: str) -> float | None:
    """Evaluation interval in seconds of the rule that records ``record``, as the server tells."""
    for group in client.rule_groups():
        if any(rule.get("name") == record for rule in group.get("rules", ())):
            return float(group["interval"])
    return None


def proven_interval(times: Sequence[int]) -> float | None:
    """The most frequent distance of ``times`` in seconds, to the second; gaps do not move it.

    None unless it occurs often enough to be more than two samples around a gap.
    """
    distances = Counter(max(1, round((b - a) / 1000)) for a, b in pairwise(times))
    most = max(distances.values(), default=0)
    if most < MIN_REPETITIONS:
        return None
    return float(min(distance for distance, count in distances.items() if count == most))


def build_timeline(times: Sequence[int], period: Period, interval: float) -> Timeline:
    """Cut the period into windows at full hours, with the weight of the samples in each.

    ``times`` are sorted Unix milliseconds. ``interval`` in seconds holds where the samples of a
    window do not prove another one, as after a change of the settings.
    """
    since = round(period.since * 1000)
    inside = [t for t in times if t - round(interval * 1000) >= since]
    if not inside:
        return Timeline((), 0, 0.0, interval, on_edge=False)
    edges = [inside[0] - 2]  # clear of the left end of a range, however it is meant
    hour = (inside[0] // HOUR_MS + 1) * HOUR_MS
    while hour < inside[-1]:
        edges.append(hour)
        hour += HOUR_MS
    edges.append(inside[-1])
    windows = []
    covered = 0.0
    for start, end in pairwise(edges):
        first, last = bisect.bisect_right(inside, start), bisect.bisect_right(inside, end)
        weight = proven_interval(inside[first:last]) or interval
        windows.append(Window(start, end, weight))
        covered += (last - first) * weight
    return Timeline(
        tuple(windows),
        len(inside),
        covered,
        interval,
        on_edge=any(t % HOUR_MS == 0 for t in inside),
    )
