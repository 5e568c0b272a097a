"""What is kept of a job's evaluations on disk, so that it outlives the sidecar."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from .evaluation import Evaluation
from .location import TEMPORARY_PREFIX, ensure_directory, file_name

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX: Final = ".evaluation"
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20
_REMEMBERED_STEPS: Final = 128


class UnusableFileError(Exception):
    """A file holds no evaluations that can be trusted."""


@dataclass(frozen=True, slots=True)
class JobEvaluations:
    """The newest evaluation of a job, its first loss, and what came for its last steps.

    ``received`` is Unix seconds: when something new came last. ``recent`` holds the evaluations by
    step, so that a repeated report is known.
    """

    latest: Evaluation
    initial_loss: float | None
    initial_timestamp: float
    received: float
    recent: dict[int, Evaluation] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """The job."""
        return self.latest.job_id


def with_evaluation(
    before: JobEvaluations | None, evaluation: Evaluation, now: float
) -> JobEvaluations:
    """``before`` after ``evaluation`` has come: the newest by timestamp is the latest."""
    recent = dict(before.recent) if before else {}
    recent.pop(evaluation.step, None)
    recent[evaluation.step] = evaluation
    for step in list(recent)[:-_REMEMBERED_STEPS]:
        del recent[step]
    latest = evaluation
    if before and before.latest.timestamp > evaluation.timestamp:
        latest = before.latest
    initial, initial_timestamp = evaluation.loss, evaluation.timestamp
    known = before is not None and before.initial_loss is not None
    if before and known and (initial is None or before.initial_timestamp <= initial_timestamp):
        initial, initial_timestamp = before.initial_loss, before.initial_timestamp
    return JobEvaluations(latest, initial, initial_timestamp, now, recent)


def path_of(directory: Path, job_id: str) -> Path:
    """The file of ``job_id``; hostile names stay within the directory."""
    return (directory / file_name(job_id, "service")).with_suffix(SUFFIX)


def write(directory: Path, job: JobEvaluations) -> None:
    """Put ``job`` in the place of its file, whole or not at all. Raises ``OSError``."""
    ensure_directory(directory)
    document = {
        "version": _VERSION,
        **asdict(job),
        "recent": list(map(asdict, job.recent.values())),
    }
    temporary = directory / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o644)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path_of(directory, job.job_id))
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read(path: Path) -> JobEvaluations:
    """The evaluations in ``path``; raises :class:`UnusableFileError`.

    The directory is open to all users, and only the sidecar has checked who reports: a file that
    does not belong to its own user is not believed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise UnusableFileError(f"{path}: expected a file of the sidecar's own user")
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UnusableFileError(f"{path}: {error.strerror}") from error
    try:
        document = json.loads(content)
        if document["version"] != _VERSION:
            raise UnusableFileError(f"{path}: version {document['version']}, expected {_VERSION}")
        initial = document["initial_loss"]
        evaluations = [_evaluation(entry) for entry in document["recent"]]
        job = JobEvaluations(
            _evaluation(document["latest"]),
            None if initial is None else float(initial),
            float(document["initial_timestamp"]),
            float(document["received"]),
            {evaluation.step: evaluation for evaluation in evaluations},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnusableFileError(f"{path}: holds no evaluations ({error!r})") from error
    if path != path_of(path.parent, job.job_id):
        raise UnusableFileError(f"{path}: is not the file of the job {job.job_id!r}")
    return job


def _evaluation(entry: dict[str, object]) -> Evaluation:
    evaluation = Evaluation(**entry)  # type: ignore[arg-type]  # checked when it came, and ours
    return Evaluation(
        str(evaluation.job_id),
        int(evaluation.step),
        float(evaluation.timestamp),
        {str(name): float(value) for name, value in evaluation.scores.items()},
        None if evaluation.loss is None else float(evaluation.loss),
        None if evaluation.quality is None else float(evaluation.quality),
        tuple(map(str, evaluation.withheld)),
    )
