"""The loop of the predictor: read, estimate, expose; and say once when something changes."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .exposition import Results
from .gpus import estimate
from .inputs import InputError, read
from .jobs import assess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_actuary.prometheus import PrometheusClient

    from .exposition import PredictorCollector
    from .gpus import GpuEstimates
    from .hazard import Hazard
    from .identity import Gpu, Job
    from .jobs import JobRisk

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a cycle needs beside its inputs; intervals in seconds, restart in hours."""

    interval_seconds: float
    stale_after_seconds: float
    restart_hours: float
    recovery_coefficient: float


class Predictor:
    """Runs cycles and hands their results to the collector."""

    def __init__(
        self,
        client: PrometheusClient,
        hazard: Hazard,
        collector: PredictorCollector,
        settings: Settings,
    ) -> None:
        self._client = client
        self._hazard = hazard
        self._collector = collector
        self._settings = settings
        self._changes = _ChangeLog()

    def run(self) -> None:
        """Run a cycle every interval, until a signal raises out of it."""
        while True:
            started = time.monotonic()
            self.cycle()
            elapsed = time.monotonic() - started
            # A server that needs longer than the interval still gets a moment's rest.
            time.sleep(max(self._settings.interval_seconds - elapsed, 0.1))

    def cycle(self) -> None:
        """One cycle; missing inputs are counted and logged, never raised."""
        started = time.monotonic()
        stale_after = self._settings.stale_after_seconds
        try:
            snapshot = read(self._client, stale_after_seconds=stale_after)
        except InputError as error:
            self._collector.fail(error.reason)
            self._changes.inputs_lost(error)
            return
        gpus = estimate(snapshot, self._hazard, stale_after_seconds=stale_after)
        jobs = assess(
            snapshot,
            gpus,
            restart_hours=self._settings.restart_hours,
            recovery_coefficient=self._settings.recovery_coefficient,
        )
        ended = time.monotonic()
        self._collector.succeed(
            Results(
                gpus=gpus,
                jobs=jobs,
                finished=time.time(),
                cycle_seconds=ended - started,
                # Counted from before the first question: no answer is older than that.
                expires=started + stale_after,
            )
        )
        self._changes.succeeded(gpus, jobs)


class _ChangeLog:
    """Logs what changed since the cycle before, so that a lasting state is said once."""

    def __init__(self) -> None:
        self._lost_because: str | None = None
        self._first = True
        self._gpus: Mapping[Gpu, str] = {}
        self._jobs: Mapping[tuple[Job, str], str] = {}

    def inputs_lost(self, error: InputError) -> None:
        if self._lost_because != error.reason:
            log.warning("no results until inputs are there (%s): %s", error.reason, error)
        self._lost_because = error.reason

    def succeeded(self, gpus: GpuEstimates, jobs: Mapping[Job, JobRisk]) -> None:
        if self._first or self._lost_because is not None:
            log.info("inputs are there: %d GPUs, %d jobs", len(gpus.estimates), len(jobs))
        self._first, self._lost_because = False, None

        if gpus.withheld != self._gpus:
            log.warning("GPUs without a probability: %s", _summary(gpus.withheld))
        self._gpus = gpus.withheld

        withheld_jobs: dict[tuple[Job, str], str] = {
            (job, reason): detail
            for job, risk in jobs.items()
            for reason, detail in risk.withheld.items()
        }
        for (job, reason), detail in withheld_jobs.items():
            if (job, reason) not in self._jobs:
                log.warning(
                    "job %s in cluster %r lacks figures (%s): %s",
                    job.job_id,
                    job.cluster,
                    reason,
                    detail,
                )
        self._jobs = withheld_jobs


def _summary(withheld: Mapping[Gpu, str], shown: int = 5) -> str:
    """``8 silent (node-1), 3 stale (node-2, node-4)``, with the first few nodes of each reason."""
    parts = []
    for reason, count in sorted(Counter(withheld.values()).items()):
        nodes = sorted({gpu.node or "no node" for gpu in withheld if withheld[gpu] == reason})
        more = ", …" if len(nodes) > shown else ""
        parts.append(f"{count} {reason} ({', '.join(nodes[:shown])}{more})")
    return ", ".join(parts) or "none any more"
