"""Keeping a rank's file: its values, the thread that publishes them, and the end. Without torch."""

from __future__ import annotations

import logging
import multiprocessing.util
import os
import sys
import threading
import weakref
from bisect import bisect_left
from math import isfinite, isnan, nan
from time import monotonic
from typing import TYPE_CHECKING, Final

from gpu_actuary.catalogue import BY_NAME
from gpu_actuary.catalogue.exported import STEP_BUCKETS

from .layout import BUCKET_BOUNDS, FETCH_DURATION, SLOT
from .stages import announce, withdraw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .rankfile import RankFile

log = logging.getLogger("gpu_actuary")

FLUSH_SECONDS: Final = 1.0
"""How often the thread publishes, whatever the process does."""

_FIRST_FETCH: Final = SLOT[f"{FETCH_DURATION}/{BUCKET_BOUNDS[0]}"]
_FETCH_SLOTS: Final = range(_FIRST_FETCH, _FIRST_FETCH + len(BUCKET_BOUNDS) + 1)
_FETCH_SUM: Final = SLOT[f"{FETCH_DURATION}/sum"]

# What stays true when the process ends; other gauges describe the attempt that set them.
_LASTING_GAUGES: Final = ("actuary_checkpoint_", "actuary_evaluation_", "actuary_quality_")

_reporters: weakref.WeakSet[Reporter] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The file belongs to the parent: the child (a data loader's worker, say) lets go of it."""
    for reporter in list(_reporters):
        reporter.abandon()
    _reporters.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Reporter:
    """Reports of one process into one file, thread-safe.

    ``active`` is False once it was closed, and in a forked child: then no method may be called.
    Nothing is published before :meth:`start`, so that values can be prepared.
    """

    def __init__(self, file: RankFile) -> None:
        self.active = True
        self._file = file
        self._values = file.values
        # Re-entrant: a signal handler may report while the same thread is in the middle of it.
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        for name, index in SLOT.items():
            series = BY_NAME.get(name.partition("/")[0])
            lasting = name.startswith(_LASTING_GAUGES)
            if series is not None and series.type == "gauge" and not lasting:
                self._values[index] = nan
        for index in _FETCH_SLOTS:
            if isnan(self._values[index]):
                self._values[index] = 0.0

    def start(self) -> None:
        """Publish for the first time, and from now on every second."""
        self._file.publish()
        thread = threading.Thread(target=self._flush_until_stopped, name="gpu-actuary", daemon=True)
        thread.start()
        _reporters.add(self)
        announce(self._file.path)
        multiprocessing.util.Finalize(
            None, _close_at_exit, args=(weakref.ref(self),), exitpriority=0
        )

    def _settle(self, now: float) -> None:
        """Bring values that depend on time up to ``now``, in monotonic seconds, before a flush."""

    def publish(self) -> None:
        """Make everything visible now."""
        with self._lock:
            self._file.publish()

    def set(self, slot: int, value: float) -> None:
        """Set a gauge; what is not finite makes it absent."""
        with self._lock:
            self._values[slot] = value if isfinite(value) else nan

    def add(self, amounts: Mapping[int, float]) -> None:
        """Add to the counters with these slots; a counter exists from its first addition on."""
        values = self._values
        with self._lock:
            for slot, amount in amounts.items():
                before = values[slot]
                values[slot] = amount if isnan(before) else before + amount

    def fetched(self, seconds: float) -> None:
        """The input pipeline took this long to hand over a batch that was not its first."""
        values = self._values
        with self._lock:
            values[_FIRST_FETCH + bisect_left(STEP_BUCKETS, seconds)] += 1.0
            values[_FETCH_SUM] += seconds

    # -- life ------------------------------------------------------------------------------------

    def _flush_until_stopped(self) -> None:
        complained = False
        while not self._stopped.wait(FLUSH_SECONDS):
            try:
                with self._lock:
                    if not self.active:
                        return
                    self._settle(monotonic())
                    self._file.publish()
                    self._file.restore_if_missing()
            except OSError as error:
                if not complained:
                    complained = True
                    log.warning("The rank file cannot be put back: %s", error)
            except Exception:
                log.exception("The monitor's background thread ended; the training goes on.")
                return

    def close(self, *, clean: bool) -> None:
        """Publish a last time and let go of the file; ``clean`` says that nothing went wrong."""
        with self._lock:
            if not self.active:
                return
            self.active = False
            self._stopped.set()
            self._settle(monotonic())
            self._file.close(clean=clean)
        withdraw(self._file.path)
        _reporters.discard(self)

    def abandon(self) -> None:
        """In a forked child: forget the file without touching its content."""
        self.active = False
        # The parent's other thread may have held the lock at the moment of the fork.
        self._lock = threading.RLock()
        self._file.release()


def give_up(reporter: Reporter) -> None:
    """After an error of the monitor's own: say it once, and end the reports in order.

    The rank itself is well, so its file is closed cleanly: a monitor's error must not look like a
    dead rank.
    """
    if not reporter.active:
        return  # closed by another thread in the middle of the call
    log.exception("GPU Actuary's monitor failed and is now off; the training goes on.")
    try:
        reporter.close(clean=True)
    except Exception:  # noqa: BLE001  # the file itself is what failed, and that was just logged
        reporter.active = False


def _close_at_exit(reference: weakref.ref[Reporter]) -> None:
    reporter = reference()
    if reporter is not None and reporter.active:
        reporter.close(clean=not _ends_by_error())


def _ends_by_error() -> bool:
    """Whether this process is ending because of an exception.

    A child of multiprocessing runs its finalizers while the exception is being handled; the main
    process first prints it, which leaves it in ``sys.last_type``.
    """
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return error is not None or getattr(sys, "last_type", None) is not None
