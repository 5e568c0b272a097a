"""The input pipeline without torch: stages, and a producer of batches.

::

    from gpu_actuary.exporters.pipeline import Producer, stage

    with Producer(job_id="pretrain-7b", queue=batches) as producer:
        for batch in producer.batches(read_shards()):
            with stage("augment"):
                batch = augment(batch)
            batches.put(batch)
"""

from __future__ import annotations

import logging
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from . import identity
from .batches import batch_size
from .claim import claim
from .layout import METADATA_FIELDS, SLOT
from .location import default_directory
from .reporter import Reporter, give_up
from .stages import stage

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

__all__ = ["Producer", "stage"]

Batch = TypeVar("Batch")

log = logging.getLogger("gpu_actuary")

_BATCHES: Final = SLOT["actuary_pipeline_batches_total"]
_SAMPLES: Final = SLOT["actuary_pipeline_samples_total"]
_BYTES: Final = SLOT["actuary_pipeline_bytes_total"]
_FIRST_BATCH: Final = SLOT["actuary_pipeline_first_batch_seconds"]
_WORKERS: Final = SLOT["actuary_pipeline_workers"]
_DEPTH: Final = SLOT["actuary_pipeline_queue_depth"]
_CAPACITY: Final = SLOT["actuary_pipeline_queue_capacity"]


class Queue(Protocol):
    """What ``queue.Queue`` and multiprocessing's queues have in common."""

    def qsize(self) -> int:
        """Items in the queue; ``NotImplementedError`` where the platform does not say."""


class Producer:
    """Reports one process that makes batches, where no training monitor does it.

    A rank is either monitored or has a producer; both under one job id and rank would be two jobs.
    ``rank`` is the launcher's when it is not given. ``queue`` is where batches wait, with its
    ``maxsize`` as capacity; ``workers`` how many processes or threads make them. ``job_id`` and
    ``directory`` are as for ``gpu_actuary.exporters.pytorch.monitor``.

    Also a context manager. Never raises: when it cannot work, it says so in the log and does
    nothing.
    """

    def __init__(
        self,
        *,
        job_id: str | None = None,
        rank: int | None = None,
        queue: Queue | None = None,
        workers: int | None = None,
        team: str = "",
        project: str = "",
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self._queue = queue
        self._reporter: Reporter | None = None
        number = identity.rank() if rank is None else str(rank)
        described = {
            **dict.fromkeys(METADATA_FIELDS, ""),
            "rank": number,
            "local_rank": identity.local_rank() or number,
            "world_size": identity.world_size(),
            "pod": identity.pod(),
            "namespace": identity.namespace(),
            "team": team,
            "project": project,
        }
        try:
            folder = default_directory() if directory is None else Path(directory)
            file = claim(
                identity.job_id(job_id), lambda job: {**described, "job_id": job.value}, folder
            )
        except Exception as error:  # noqa: BLE001  # whatever it is, the data must flow
            log.warning("GPU Actuary reports nothing about this pipeline: %s", error)
            return
        self._reporter = reporter = Reporter(file)
        reporter.start()
        capacity = getattr(queue, "maxsize", 0)
        if isinstance(capacity, int) and capacity > 0:
            reporter.set(_CAPACITY, capacity)
        if workers is not None:
            reporter.set(_WORKERS, workers)

    def batches(self, source: Iterable[Batch]) -> Iterator[Batch]:
        """``source``, followed: the time inside its ``next`` is that of a fetch."""
        reporter = self._reporter
        if reporter is None:
            yield from source
            return
        began, first = monotonic(), True
        try:
            for batch in source:
                self._attempt(self._delivered, batch, monotonic() - began, first)
                first = False
                yield batch
                began = monotonic()
        finally:
            self._attempt(reporter.publish)

    def _attempt(self, report: Callable[..., None], *arguments: Any) -> None:
        if self._reporter is None or not self._reporter.active:
            return
        try:
            report(*arguments)
        except Exception:  # noqa: BLE001  # logged by give_up; the data must flow
            give_up(self._reporter)

    def _delivered(self, batch: Any, seconds: float, first: bool) -> None:
        reporter = self._reporter
        assert reporter is not None
        samples, _, size = batch_size(batch)
        counted = {_BATCHES: 1.0, _SAMPLES: float(samples), _BYTES: float(size)}
        reporter.add({slot: amount for slot, amount in counted.items() if amount})
        if first:
            reporter.set(_FIRST_BATCH, seconds)
        else:
            reporter.fetched(seconds)
        if self._queue is not None:
            try:
                reporter.set(_DEPTH, self._queue.qsize())
            except NotImplementedError:  # multiprocessing's queues on macOS
                self._queue = None

    def close(self) -> None:
        """The pipeline has ended well: stop reporting. Further calls do nothing."""
        self._end(clean=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(clean=error is None)

    def _end(self, *, clean: bool) -> None:
        if self._reporter is None or not self._reporter.active:
            return
        try:
            self._reporter.close(clean=clean)
        except Exception:  # noqa: BLE001  # the pipeline's own end must not fail by ours
            give_up(self._reporter)
