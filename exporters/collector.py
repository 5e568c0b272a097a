"""From rank files to metric families; run for every scrape."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gpu_actuary import __version__
from gpu_actuary.catalogue import get
from gpu_actuary.catalogue.exported import EXPORTED
from gpu_actuary.catalogue.model import EXPORTER_RANK

from .durations import Durations
from .evaluationstore import RANK as SERVICE_RANK
from .families import family as _family
from .layout import (
    BUCKET_BOUNDS,
    EVALUATION_SCORE,
    FETCH_DURATION,
    SLOT,
    SLOT_NAMES,
    STAGE_SECONDS,
    STEP_DURATION,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .evaluationstore import EvaluationStore
    from .nvml.monitor import NvmlMonitor
    from .rankdirectory import Rank, RankDirectory

_SERIES_OF_SLOTS: Final = {name.partition("/")[0] for name in SLOT_NAMES}
_JOB_FIELDS: Final = get("actuary_job_info").labels[2:]
_RANK_FIELDS: Final = get("actuary_rank_info").labels[3:]


class NodeCollector(Collector):
    """Shows every rank of a node, and the sidecar's own health.

    Gauges vanish with a rank's heartbeat, counters stay; what is absent in a file is not shown.
    Safe for concurrent scrapes.
    """

    def __init__(
        self,
        directory: RankDirectory,
        node: str,
        nvml: NvmlMonitor | None = None,
        evaluations: EvaluationStore | None = None,
    ) -> None:
        self._directory = directory
        self._node = node
        self._nvml = nvml
        self._evaluations = evaluations
        self._histograms = (Durations(STEP_DURATION), Durations(FETCH_DURATION))
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """All metric families, read from the files now."""
        began = time.perf_counter()
        with self._lock:
            ranks = self._directory.scan()
            histograms = [(each.name, each.update(ranks)) for each in self._histograms]
            rejected = dict(self._directory.rejected)
        families = [
            *self._of_slots(ranks),
            *(self._durations(name, totals) for name, totals in histograms),
            self._stages(ranks),
            *self._of_life(ranks),
            *self._infos(ranks),
            self._devices(ranks),
            *_health(rejected),
        ]
        scrape = _family("actuary_exporter_scrape_seconds")
        scrape.add_metric((), time.perf_counter() - began)
        yield from (family for family in (*families, scrape) if family.samples)

    def _labels(self, rank: Rank) -> tuple[str, str, str]:
        return (self._node, rank.job_id, rank.number)

    def _of_slots(self, ranks: list[Rank]) -> list[CounterMetricFamily | GaugeMetricFamily]:
        families = {
            series.name: (_family(series.name), series.type == "gauge")
            for series in EXPORTED
            if series.per == "rank" and series.name in _SERIES_OF_SLOTS
        }
        for rank in ranks:
            labels = self._labels(rank)
            for slot, value in rank.snapshot.values.items():
                name, _, extra = slot.partition("/")
                if slot not in SLOT or name not in families:
                    continue  # not a series, or one of another version that means nothing here
                family, is_gauge = families[name]
                if is_gauge and not rank.fresh:
                    continue
                if name == EVALUATION_SCORE:
                    extra = rank.snapshot.score_names[int(extra)]
                    if not extra:
                        continue
                family.add_metric((*labels, extra) if extra else labels, value)
        for name, job_id, metric, value in self._evaluations.samples() if self._evaluations else ():
            labels = (self._node, job_id, SERVICE_RANK)
            families[name][0].add_metric((*labels, metric) if metric else labels, value)
        return [family for family, _ in families.values()]

    def _stages(self, ranks: list[Rank]) -> CounterMetricFamily | GaugeMetricFamily:
        family = _family(STAGE_SECONDS)
        for rank in ranks:
            for stage, seconds in rank.stages.items():
                family.add_metric((*self._labels(rank), stage), seconds)
        return family

    def _durations(
        self, name: str, durations: dict[str, tuple[float, ...]]
    ) -> HistogramMetricFamily:
        series = get(name)
        family = HistogramMetricFamily(series.name, series.help, labels=series.labels)
        for job, numbers in durations.items():
            cumulative, buckets = 0.0, []
            for bound, count in zip(BUCKET_BOUNDS, numbers[:-1], strict=True):
                cumulative += count
                buckets.append((bound, cumulative))
            family.add_metric((self._node, job), buckets, sum_value=numbers[-1])
        return family

    def _of_life(self, ranks: list[Rank]) -> list[GaugeMetricFamily | CounterMetricFamily]:
        up = _family("actuary_rank_up")
        heartbeat = _family("actuary_rank_heartbeat_timestamp_seconds")
        for rank in ranks:
            if not rank.snapshot.closed:
                up.add_metric(self._labels(rank), float(rank.fresh))
                heartbeat.add_metric(self._labels(rank), rank.snapshot.heartbeat_wall)
        return [up, heartbeat]

    def _infos(self, ranks: list[Rank]) -> list[InfoMetricFamily]:
        job_info, rank_info = _info("actuary_job_info"), _info("actuary_rank_info")
        described: dict[str, Rank] = {}
        for rank in ranks:
            fields = {**rank.snapshot.fields, "gpu_uuid": self._device_id(rank)}
            rank_info.add_metric(self._labels(rank), {name: fields[name] for name in _RANK_FIELDS})
            other = described.get(rank.job_id)
            if other is None or rank.snapshot.heartbeat_wall > other.snapshot.heartbeat_wall:
                described[rank.job_id] = rank
        # During a restart the ranks of a job differ in `attempt`: the newest speaks for the job.
        for job_id, rank in described.items():
            fields = dict(rank.snapshot.fields)
            job_info.add_metric((self._node, job_id), {name: fields[name] for name in _JOB_FIELDS})
        return [job_info, rank_info]

    def _device_id(self, rank: Rank) -> str:
        fields = rank.snapshot.fields
        if fields["device"] == "cpu":
            return f"CPU-{self._node}-{fields['local_rank']}"
        if self._nvml is not None:
            return self._nvml.physical(fields["gpu_uuid"])
        return fields["gpu_uuid"]

    def _devices(self, ranks: list[Rank]) -> GaugeMetricFamily | CounterMetricFamily:
        """A CPU is present while its rank is shown at all, a GPU while its rank is alive.

        Of the GPUs that NVML knows, NVML says it.
        """
        devices = {
            (self._device_id(rank), rank.snapshot.fields["device"]): True
            for rank in ranks
            if rank.fresh or rank.snapshot.fields["device"] == "cpu"
        }
        if self._nvml is not None:
            known = self._nvml.presence().items()
            devices.update({(uuid, "cuda"): present for uuid, present in known})
        family = _family("actuary_gpu_present")
        for (device_id, kind), present in sorted(devices.items()):
            if device_id:
                family.add_metric((self._node, device_id, kind), float(present))
        return family


def _health(rejected: dict[str, int]) -> list[Metric]:
    build = _info("actuary_exporter_build_info")
    build.add_metric((), {"version": __version__})
    rejections = _family("actuary_rank_files_rejected_total")
    for reason, count in rejected.items():
        rejections.add_metric((reason,), float(count))
    return [build, rejections]


def _info(name: str) -> InfoMetricFamily:
    series = get(name)
    identifying = [label for label in series.labels if label in (*EXPORTER_RANK,)]
    return InfoMetricFamily(name.removesuffix("_info"), series.help, labels=identifying)
