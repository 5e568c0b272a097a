"""What Prometheus scrapes from the predictor: the last cycle's results and its own health."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from gpu_actuary import __version__
from gpu_actuary.catalogue import get

from .gpus import HORIZON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from .gpus import GpuEstimates
    from .hazard import Hazard
    from .identity import Gpu, Job
    from .jobs import JobRisk

Place = TypeVar("Place", "Gpu", "Job")

INPUT_ERRORS = "actuary_predictor_input_errors_total"


@dataclass(frozen=True, slots=True)
class Results:
    """The outcome of one successful cycle.

    ``expires`` is a monotonic time in seconds after which nothing of it is shown any more;
    ``finished`` is Unix seconds.
    """

    gpus: GpuEstimates
    jobs: Mapping[Job, JobRisk]
    finished: float
    cycle_seconds: float
    expires: float


class PredictorCollector(Collector):
    """Exposes the current results; the service sets them, scrapes only read.

    ``cluster`` and ``source`` are those of the inputs and always written, an empty one included:
    with ``honor_labels: true`` an empty label keeps the scrape's own from taking its place, so that
    real results never come out as simulated.
    """

    def __init__(self, hazard: Hazard) -> None:
        self._hazard = hazard
        self._results: Results | None = None
        self._last_success: float | None = None
        self._input_errors = Counter(dict.fromkeys(get(INPUT_ERRORS).values["reason"], 0))

    def succeed(self, results: Results) -> None:
        """Show ``results`` from now on."""
        self._results = results
        self._last_success = results.finished

    def fail(self, reason: str) -> None:
        """Count a cycle without inputs and show no results."""
        self._results = None
        self._input_errors[reason] += 1

    @property
    def has_succeeded(self) -> bool:
        """Whether any cycle succeeded since the start."""
        return self._last_success is not None

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape; part of prometheus_client's interface."""
        yield from self._health()
        results = self._results
        if results is None or time.monotonic() > results.expires:
            return
        yield _gauge("actuary_predictor_cycle_seconds", [((), results.cycle_seconds)])
        yield _gauge(
            "actuary_failure_probability",
            (
                ((*gpu, HORIZON, estimate.reason), estimate.probability)
                for gpu, estimate in results.gpus.estimates.items()
            ),
        )
        yield from _jobs(results.jobs)
        yield _count_withheld(
            "actuary_predictor_gpus_withheld",
            ((gpu, reason) for gpu, reason in results.gpus.withheld.items()),
        )
        yield _count_withheld(
            "actuary_predictor_jobs_withheld",
            ((job, reason) for job, risk in results.jobs.items() for reason in risk.withheld),
        )

    def _health(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "actuary_predictor_build",
            get("actuary_predictor_build_info").help,
            value={
                "version": __version__,
                "model": self._hazard.name,
                "trained_on": self._hazard.trained_on,
            },
        )
        yield _gauge("actuary_predictor_base_hazard_per_day", [((), self._hazard.base_per_day)])
        errors = CounterMetricFamily(
            INPUT_ERRORS, get(INPUT_ERRORS).help, labels=get(INPUT_ERRORS).labels
        )
        for reason, count in self._input_errors.items():
            errors.add_metric([reason], count)
        yield errors
        if self._last_success is not None:
            yield _gauge(
                "actuary_predictor_last_success_timestamp_seconds", [((), self._last_success)]
            )


def _gauge(name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    """A family with the labels and the help of the catalogue."""
    family = GaugeMetricFamily(name, get(name).help, labels=get(name).labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _jobs(risks: Mapping[Job, JobRisk]) -> Iterator[Metric]:
    yield _gauge(
        "actuary_job_failure_probability",
        (
            ((*job, HORIZON), risk.probability)
            for job, risk in risks.items()
            if risk.probability is not None
        ),
    )
    yield _gauge(
        "actuary_interruption_loss",
        (
            ((*job, risk.loss.currency), risk.loss.amount)
            for job, risk in risks.items()
            if risk.loss is not None
        ),
    )
    yield _gauge(
        "actuary_elastic_budget",
        (
            ((*job, risk.budget.currency), risk.budget.amount)
            for job, risk in risks.items()
            if risk.budget is not None
        ),
    )


def _count_withheld(name: str, cases: Iterable[tuple[Place, str]]) -> GaugeMetricFamily:
    counts = Counter((place.cluster, place.source, reason) for place, reason in cases)
    return _gauge(name, counts.items())
