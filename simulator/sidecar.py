"""The series that the node sidecar would serve for the ranks of a simulated node."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gpu_actuary.catalogue import ALL, get
from gpu_actuary.catalogue.exported import STEP_BUCKETS
from gpu_actuary.catalogue.vocabulary import PHASES

from . import learning
from .cycle import MICRO
from .noise import gpu_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .fleet import Job, Node
    from .history import History

_STEPS_FOR_A_SLOPE: Final = 5
_SECONDS_PER_HOUR: Final = 3600

Labels = tuple[str, ...]


class NodeSamples:
    """Collects the samples of one scrape by series; labels are in the catalogue's order."""

    def __init__(self, node: Node, seed: int, started: float) -> None:
        self._node = node
        self._seed = seed
        self._started = started
        self._samples: defaultdict[str, list[tuple[Labels, float]]] = defaultdict(list)
        self._histograms: list[tuple[Labels, History, int]] = []

    def add_job(self, job: Job, history: History, steps_per_second: float) -> None:
        """All ranks of the job that run on this node."""
        ranks = [r for r, place in enumerate(job.places) if place.node == self._node.name]
        if not ranks:
            return
        attempt = history.current.number + 1
        self._add(
            "actuary_job_info",
            (
                self._node.name,
                job.job_id,
                job.team,
                job.project,
                job.model,
                "pytorch",
                job.precision,
                job.flops_convention,
                str(len(job.places)),
                str(attempt),
            ),
            1,
        )
        self._histograms.append(((self._node.name, job.job_id), history, len(ranks)))
        for local_rank, rank in enumerate(ranks):
            self._add_rank(job, history, rank, local_rank)
            self._add_counters(job, history, rank)
            if history.fresh:
                self._add_gauges(job, history, rank, steps_per_second)
            if history.fresh and rank == 0:
                self._add_results(job, history)

    def families(self) -> Iterator[Metric]:
        """What was collected, as metric families of the types that the catalogue names."""
        for series in ALL:
            if series.name in self._samples:
                yield _family(series.name, self._samples[series.name])
        yield self._step_durations()
        info = InfoMetricFamily("actuary_simulator", get("actuary_simulator_info").help)
        info.add_metric((), {"seed": str(self._seed)})
        yield info

    def _add(self, name: str, labels: Labels, value: float) -> None:
        self._samples[name].append((labels, value))

    def _at(self, job: Job, moment: int) -> float:
        """Unix seconds of a moment on the job's clock."""
        return self._started - job.began_before_seconds + moment / MICRO

    def _add_rank(self, job: Job, history: History, rank: int, local_rank: int) -> None:
        place, key = job.places[rank], self._key(job, rank)
        pods = self._node.gpus[place.gpu].pods
        uuid = gpu_uuid(place.node, place.gpu)
        name, namespace = (pods[0].name, pods[0].namespace) if pods else ("", "")
        info = (str(local_rank), str(place.gpu), uuid, name, namespace, "cuda")
        self._add("actuary_rank_info", (*key, *info), 1)
        self._add("actuary_rank_up", key, float(history.fresh))
        heartbeat = self._at(job, history.heartbeat)
        self._add("actuary_rank_heartbeat_timestamp_seconds", key, heartbeat)
        if history.fresh:
            self._add("actuary_gpu_present", (place.node, uuid, "cuda"), 1)

    def _key(self, job: Job, rank: int) -> Labels:
        return (self._node.name, job.job_id, str(rank))

    def _add_counters(self, job: Job, history: History, rank: int) -> None:
        key, steps = self._key(job, rank), history.steps
        samples = steps * job.samples_per_step
        for phase, time in zip(PHASES, history.phase_times(rank), strict=True):
            self._add("actuary_step_seconds_total", (*key, phase), time / MICRO)
        self._add("actuary_steps_total", key, steps)
        self._add("actuary_redone_steps_total", key, history.redone_steps)
        self._add("actuary_samples_total", key, samples)
        if job.tokens_per_sample:
            self._add("actuary_tokens_total", key, samples * job.tokens_per_sample)
        self._add("actuary_model_flops_total", key, steps * job.flops_per_step)
        self._add("actuary_pipeline_batches_total", key, steps)
        self._add("actuary_pipeline_samples_total", key, samples)
        self._add("actuary_nonfinite_steps_total", (*key, "loss"), 0)

    def _add_gauges(self, job: Job, history: History, rank: int, steps_per_second: float) -> None:
        key, position = self._key(job, rank), history.position
        self._add("actuary_gpu_peak_flops", key, job.peak_flops)
        self._add("actuary_pipeline_workers", key, job.workers)
        if not history.steps_of_current:
            return
        self._add("actuary_pipeline_first_batch_seconds", key, job.first_batch_seconds)
        self._add("actuary_learning_rate", key, learning.learning_rate(job, position))
        self._add("actuary_loss", key, learning.training_loss(job, self._seed, rank, position))
        if history.steps_of_current >= _STEPS_FOR_A_SLOPE:
            slope = learning.log_slope_per_step(job.curve, position) * steps_per_second
            self._add("actuary_loss_slope_per_hour", key, slope * _SECONDS_PER_HOUR)

    def _add_results(self, job: Job, history: History) -> None:
        """Checkpoints and evaluations are the business of rank 0."""
        key = self._key(job, 0)
        checkpoint, evaluation = history.last_checkpoint(), history.last_evaluation()
        if checkpoint is not None:
            name = "actuary_checkpoint_last_success_timestamp_seconds"
            self._add(name, key, self._at(job, checkpoint))
            self._add("actuary_checkpoint_bytes", key, job.checkpoint_bytes)
        if evaluation is None:
            return
        moment, step = evaluation
        accuracy = learning.accuracy(job, self._seed, step)
        first = learning.evaluation_loss(job, self._seed, job.steps_per_checkpoint)
        self._add("actuary_evaluation_score", (*key, "accuracy"), accuracy)
        self._add("actuary_evaluation_loss", key, learning.evaluation_loss(job, self._seed, step))
        self._add("actuary_evaluation_initial_loss", key, first)
        self._add("actuary_evaluation_timestamp_seconds", key, self._at(job, moment))
        if job.rates_itself:
            self._add("actuary_quality_score", key, accuracy)

    def _step_durations(self) -> HistogramMetricFamily:
        series = get("actuary_step_duration_seconds")
        family = HistogramMetricFamily(series.name, series.help, labels=series.labels)
        bounds = [*map(str, STEP_BUCKETS), "+Inf"]
        for labels, history, ranks in self._histograms:
            durations, below, buckets = history.step_durations, 0, []
            for bound, number in zip(bounds, durations.buckets, strict=True):
                below += ranks * number
                buckets.append((bound, below))
            family.add_metric(labels, buckets, sum_value=ranks * durations.total / MICRO)
        return family


class NodeCollector(Collector):
    """Hands prometheus_client the families of one scrape."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape; part of prometheus_client's interface."""
        return self._families()


def _family(name: str, samples: Sequence[tuple[Labels, float]]) -> Metric:
    series = get(name)
    if series.type == "info":
        info = InfoMetricFamily(name.removesuffix("_info"), series.help)
        for labels, _ in samples:
            info.add_metric((), dict(zip(series.labels, labels, strict=True)))
        return info
    kind = CounterMetricFamily if series.type == "counter" else GaugeMetricFamily
    family = kind(name, series.help, labels=series.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
