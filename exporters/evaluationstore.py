"""The evaluations that services outside the training have reported to this sidecar."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Final, Literal

from .evaluationfile import (
    SUFFIX,
    JobEvaluations,
    UnusableFileError,
    path_of,
    read,
    with_evaluation,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .evaluation import Evaluation

log = logging.getLogger("gpu_actuary")

RANK: Final = "service"
"""The label ``rank`` of an evaluation that no rank made."""
MAX_JOBS: Final = 500
RETENTION_SECONDS: Final = 7 * 24 * 3600.0
"""How long a job is shown after its last new evaluation."""

Sample = tuple[str, str, str, float]


class ConflictError(Exception):
    """The job has other values for this step already."""


class FullError(Exception):
    """There is no room for another job."""


class EvaluationStore:
    """Evaluations by job, kept in files in ``directory``. Safe for concurrent use.

    ``withheld`` counts the values that came as NaN or infinite.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._jobs: dict[str, JobEvaluations] = {}
        self.withheld = 0
        paths = sorted(directory.glob(f"*{SUFFIX}")) if directory.is_dir() else []
        for path in paths:
            try:
                job = read(path)
            except UnusableFileError as error:
                log.warning("Skipped: %s", error)
                continue
            self._jobs[job.job_id] = job

    def add(self, evaluation: Evaluation) -> Literal["stored", "repeated"]:
        """Take a report. The same values for the same step again change nothing.

        Raises :class:`ConflictError` for other values of a known step, :class:`FullError`, and
        ``OSError`` when it cannot be written; then nothing has changed.
        """
        with self._lock:
            job = self._jobs.get(evaluation.job_id)
            known = job.recent.get(evaluation.step) if job else None
            if known is None:
                self._keep(evaluation)
                return "stored"
            if known.says_the_same(evaluation):
                return "repeated"
        raise ConflictError(
            f"the job {evaluation.job_id!r} has other values for step {evaluation.step} already"
        )

    def replace(self, evaluation: Evaluation) -> bool:
        """Take what a source says now, whatever it said before; whether anything was new.

        Raises :class:`FullError` and ``OSError`` as :meth:`add` does.
        """
        with self._lock:
            job = self._jobs.get(evaluation.job_id)
            known = job.recent.get(evaluation.step) if job else None
            if known is not None and known == evaluation:
                return False
            self._keep(evaluation)
            return True

    def samples(self) -> Iterator[Sample]:
        """Series name, job, metric ("" where the series has none) and value."""
        with self._lock:
            self._expire()
            jobs = list(self._jobs.values())
        for job in jobs:
            latest = job.latest
            numbers = {
                "actuary_evaluation_timestamp_seconds": latest.timestamp,
                "actuary_evaluation_loss": latest.loss,
                "actuary_evaluation_initial_loss": job.initial_loss,
                "actuary_quality_score": latest.quality,
            }
            for name, value in numbers.items():
                if value is not None:
                    yield name, job.job_id, "", value
            for metric, score in latest.scores.items():
                yield "actuary_evaluation_score", job.job_id, metric, score

    def _keep(self, evaluation: Evaluation) -> None:
        before = self._jobs.get(evaluation.job_id)
        if before is None:
            self._expire()
            if len(self._jobs) >= MAX_JOBS:
                raise FullError(f"this sidecar keeps evaluations of {MAX_JOBS} jobs at most")
        after = with_evaluation(before, evaluation, time.time())
        write(self._directory, after)
        self._jobs[evaluation.job_id] = after
        self.withheld += len(evaluation.withheld)

    def _expire(self) -> None:
        oldest = time.time() - RETENTION_SECONDS
        for job_id in [name for name, job in self._jobs.items() if job.received < oldest]:
            del self._jobs[job_id]
            with contextlib.suppress(OSError):
                path_of(self._directory, job_id).unlink()
