"""Claiming the file of a rank, under a name of its own when the job's is taken."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from .identity import JobId
from .rankfile import FileInUse, RankFile, open_rank_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger("gpu_actuary")

_MAX_NAMESAKES: Final = 16


def claim(job: JobId, describe: Callable[[JobId], dict[str, str]], directory: Path) -> RankFile:
    """The rank's file; ``describe`` gives its metadata for a job id.

    When a live process has it already, the job is called ``<id>.2``, and so on, and the log says
    so. Raises :class:`FileInUse` and ``OSError``.
    """
    for number in range(1, _MAX_NAMESAKES + 1):
        named = job if number == 1 else JobId(f"{job.value}.{number}", job.chosen)
        fields = describe(named)
        try:
            file = open_rank_file(directory, fields, new_job_after_clean_end=not job.chosen)
        except FileInUse:
            continue
        if number > 1:
            log.warning(
                "Job id %r, rank %s is in use by a process that is alive (or by an earlier "
                "monitor that was not closed); this run is called %r.",
                job.value,
                fields["rank"],
                named.value,
            )
        return file
    raise FileInUse(f"{_MAX_NAMESAKES} live processes use the job id {job.value!r}")
