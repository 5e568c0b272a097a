"""Integration of recorded series over a timeline, by the server, one sum an hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_actuary.errors import PrometheusError

from .timeline import HOUR_MS, Timeline, Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_actuary.prometheus import PrometheusClient

MAX_POINTS = 10_000
"""Points of one range query; Prometheus refuses more than 11,000."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The recorded series of one cluster and source, over one timeline."""

    client: PrometheusClient
    cluster: str
    source: str
    timeline: Timeline

    def selector(self, name: str, **matchers: str) -> str:
        """The series ``name`` of this cluster and source."""
        return selector(name, cluster=self.cluster, source=self.source, **matchers)

    def integrate(self, name: str, by: Sequence[str]) -> dict[Key, float]:
        """Σ sample × the seconds that it stands for, by the values of the labels ``by``.

        The unit is that of the series times seconds. Series that differ in other labels only
        (replicas) count once: the largest.
        """
        totals: dict[Key, float] = {}
        for window, key, value in self._sums(name, by):
            totals[key] = totals.get(key, 0.0) + value * window.seconds_per_sample
        return totals

    def mean(self, name: str, by: Sequence[str]) -> dict[Key, float]:
        """Mean of the samples in the period, by the values of the labels ``by``."""
        return self._over_all("avg_over_time", name, by)

    def last(self, name: str, by: Sequence[str]) -> dict[Key, float]:
        """Last sample in the period, by the values of the labels ``by``."""
        return self._over_all("last_over_time", name, by)

    def at_end(self, promql: str, by: Sequence[str]) -> dict[Key, float]:
        """``promql`` at the last sample of the ledger, by the values of the labels ``by``."""
        end = self.timeline.windows[-1].end / 1000
        return {
            tuple(sample.labels.get(label, "") for label in by): sample.value
            for sample in self.client.query(promql, at=end)
        }

    def _over_all(self, function: str, name: str, by: Sequence[str]) -> dict[Key, float]:
        windows = self.timeline.windows
        width = windows[-1].end - windows[0].start
        return self.at_end(
            f"max by ({', '.join(by)}) ({function}({self.selector(name)}[{width}ms]))", by
        )

    def _sums(self, name: str, by: Sequence[str]) -> Iterator[tuple[Window, Key, float]]:
        for run in runs(self.timeline.windows):
            width = self.timeline.range_of(run[0])
            promql = f"max by ({', '.join(by)}) (sum_over_time({self.selector(name)}[{width}ms]))"
            by_end = {window.end: window for window in run}
            series = self.client.query_range(
                promql,
                start=run[0].end / 1000,
                end=run[-1].end / 1000,
                step=max(1.0, (run[0].end - run[0].start) / 1000),
            )
            for one in series:
                key = tuple(one.labels.get(label, "") for label in by)
                for time, value in one.points:
                    window = by_end.get(round(time * 1000))
                    if window is None:
                        raise PrometheusError(
                            f"{self.client.url} evaluated at other times than asked for: turn off "
                            "the alignment of range queries in the query frontend"
                        )
                    yield window, key, value


def runs(windows: Sequence[Window]) -> Iterator[Sequence[Window]]:
    """Windows that one range query can cover: hours in a row, or one window of another width."""
    begin = 0
    for index in range(1, len(windows) + 1):
        hourly = all(
            window.end - window.start == HOUR_MS and window.end % HOUR_MS == 0
            for window in windows[index - 1 : index + 1]
        )
        if index == len(windows) or not hourly or index - begin == MAX_POINTS:
            yield windows[begin:index]
            begin = index


def selector(name: str, **matchers: str) -> str:
    """A PromQL selector; an empty value matches series without the label."""
    return name + "{" + ", ".join(f"{k}={quote(v)}" for k, v in matchers.items()) + "}"


def quote(text: str) -> str:
    """``text`` as a string literal of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
