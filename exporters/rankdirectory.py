"""Reading all rank files of a node: which are shown, which are rejected, which have expired."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .location import SUFFIX, TEMPORARY_PREFIX
from .rankreader import RejectedFile, Snapshot, read_rank_file
from .stagefile import SUFFIX as STAGE_SUFFIX
from .stagefile import read_stages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = logging.getLogger("gpu_actuary")

REJECTIONS: Final = ("foreign", "layout", "torn", "truncated", "unreadable", "duplicate")
"""Why a rank file is not shown."""

RETENTION_SECONDS: Final = 24 * 3600.0
"""How long the counters of a rank that died stay."""
CLOSED_RETENTION_SECONDS: Final = 15 * 60.0
"""How long those of a rank that ended cleanly stay: every Prometheus has scraped them by then."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank as the sidecar shows it.

    ``fresh``: its heartbeat is recent and it has not ended. ``stages``: seconds by stage of its
    input pipeline.
    """

    path: Path
    snapshot: Snapshot
    fresh: bool
    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """The job that the rank belongs to."""
        return self.snapshot.fields["job_id"]

    @property
    def number(self) -> str:
        """The rank's number in its job."""
        return self.snapshot.fields["rank"]


class RankDirectory:
    """The rank files in ``directory``.

    ``stale_after`` is how many seconds a heartbeat stays good. :attr:`rejected` counts, by reason,
    how often a file was skipped; a bad file counts once per scan. Not thread-safe.
    """

    def __init__(self, directory: Path, *, stale_after: float) -> None:
        self.directory = directory
        self.rejected = dict.fromkeys(REJECTIONS, 0)
        self._stale_after = stale_after
        self._named: set[tuple[Path, str]] = set()

    def scan(self) -> list[Rank]:
        """The ranks to show, one per job and rank number. Files that have expired are deleted."""
        ranks: dict[tuple[str, str], Rank] = {}
        for path in self._files():
            try:
                snapshot = read_rank_file(path)
            except FileNotFoundError:
                continue
            except RejectedFile as rejection:
                self._reject(path, rejection.reason, str(rejection))
                continue
            age = snapshot.age()
            if age > (CLOSED_RETENTION_SECONDS if snapshot.closed else RETENTION_SECONDS):
                _remove(path)
                continue
            fresh = not snapshot.closed and age <= self._stale_after
            rank = Rank(path, snapshot, fresh, self._stages(path))
            other = ranks.setdefault((rank.job_id, rank.number), rank)
            if other is not rank:
                kept, dropped = sorted(
                    (rank, other), key=lambda each: each.snapshot.heartbeat_wall, reverse=True
                )
                ranks[(rank.job_id, rank.number)] = kept
                self._reject(
                    dropped.path,
                    "duplicate",
                    f"{dropped.path}: {kept.path.name} reports on the same rank and is newer",
                )
        return list(ranks.values())

    def _stages(self, rank_file: Path) -> dict[str, float]:
        path = rank_file.with_suffix(STAGE_SUFFIX)
        try:
            return read_stages(path)
        except RejectedFile as rejection:
            self._reject(path, rejection.reason, str(rejection))
            return {}

    def _files(self) -> list[Path]:
        """The rank files by name; leftovers of writers that died while starting are removed."""
        try:
            entries = sorted(self.directory.iterdir())
        except FileNotFoundError:
            return []  # no training has run on this node yet
        except OSError as error:
            self._reject(self.directory, "unreadable", f"{self.directory}: {error.strerror}")
            return []
        for entry in entries:
            if entry.name.startswith(TEMPORARY_PREFIX):
                with contextlib.suppress(OSError):
                    if time.time() - entry.lstat().st_mtime > RETENTION_SECONDS:
                        entry.unlink()
        return [entry for entry in entries if entry.suffix == SUFFIX]

    def _reject(self, path: Path, reason: str, detail: str) -> None:
        self.rejected[reason] += 1
        if (path, reason) not in self._named:
            self._named.add((path, reason))
            log.warning("Skipped (%s): %s", reason, detail)


def _remove(path: Path) -> None:
    # In a directory with the sticky bit only the owner and root may; the file just stays hidden.
    for each in (path.with_suffix(STAGE_SUFFIX), path):
        with contextlib.suppress(OSError):
            each.unlink()
