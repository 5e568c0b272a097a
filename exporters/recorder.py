"""What a rank reports: phases, steps, losses, evaluations. Without torch.

A :class:`Recorder` owns the rank's file. Its methods are called from the training (any thread), a
daemon thread publishes every second in between, so that counters move during a long checkpoint or
a hang.
"""

from __future__ import annotations

import logging
import multiprocessing.util
import os
import sys
import threading
import weakref
from bisect import bisect_left
from math import isfinite, isnan, nan
from time import monotonic, time
from typing import TYPE_CHECKING, Final

from gpu_actuary.catalogue import BY_NAME
from gpu_actuary.catalogue.exported import STEP_BUCKETS
from gpu_actuary.catalogue.vocabulary import PHASES

from .layout import BUCKET_BOUNDS, SLOT, STEP_DURATION, STEP_SECONDS
from .loss import LossTrend
from .phases import BACKWARD, COMM_EXPOSED, OTHER, STARTUP, PhaseClock, process_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .rankfile import RankFile

log = logging.getLogger("gpu_actuary")

FLUSH_SECONDS: Final = 1.0
"""How often the thread publishes, whatever the training does."""
STEP_PUBLISH_SECONDS: Final = 0.02
"""Steps publish at most this often; so much can be missing when the process is killed."""

_FIRST_PHASE: Final = SLOT[f"{STEP_SECONDS}/{PHASES[0]}"]
# Absent until something really measures them; all other phases are zero when nothing was spent.
_PHASES_ABSENT_AT_FIRST: Final = ("h2d", "comm_exposed")
_FIRST_BUCKET: Final = SLOT[f"{STEP_DURATION}/{BUCKET_BOUNDS[0]}"]
_DURATION_SUM: Final = SLOT[f"{STEP_DURATION}/sum"]
_STEPS: Final = SLOT["actuary_steps_total"]
_REDONE: Final = SLOT["actuary_redone_steps_total"]
_HIGHEST: Final = SLOT[".highest"]
_LOSS: Final = SLOT["actuary_loss"]
_SLOPE: Final = SLOT["actuary_loss_slope_per_hour"]
_NONFINITE_LOSS: Final = SLOT["actuary_nonfinite_steps_total/loss"]
_INITIAL_LOSS: Final = SLOT["actuary_evaluation_initial_loss"]
_EVALUATION_LOSS: Final = SLOT["actuary_evaluation_loss"]
_EVALUATION_TIME: Final = SLOT["actuary_evaluation_timestamp_seconds"]
_QUALITY: Final = SLOT["actuary_quality_score"]
_FIRST_SCORE: Final = SLOT["actuary_evaluation_score/0"]
_CHECKPOINT_TIME: Final = SLOT["actuary_checkpoint_last_success_timestamp_seconds"]
_CHECKPOINT_BYTES: Final = SLOT["actuary_checkpoint_bytes"]

# What stays true when the process ends; other gauges describe the attempt that set them.
_LASTING_GAUGES: Final = ("actuary_checkpoint_", "actuary_evaluation_", "actuary_quality_")

_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()
_startup_is_reported = False


def _after_fork_in_child() -> None:
    """The file belongs to the parent: the child (a data loader's worker, say) lets go of it."""
    global _startup_is_reported
    _startup_is_reported = False
    for recorder in list(_recorders):
        recorder.abandon()
    _recorders.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _claim_startup() -> float:
    """When the startup of this process began; from the second recorder on, now.

    Two recorders that both counted from the start of the process would report it twice.
    """
    global _startup_is_reported
    if _startup_is_reported:
        return monotonic()
    _startup_is_reported = True
    try:
        return process_start()
    except (OSError, ValueError, IndexError):  # no /proc
        return monotonic()


class Recorder:
    """Reports of one rank into one file, thread-safe.

    ``active`` is False once it was closed, and in a forked child: then no method may be called.
    """

    def __init__(self, file: RankFile) -> None:
        self.active = True
        self._file = file
        self._values = file.values
        # Re-entrant: a signal handler may report while the same thread is in the middle of it.
        self._lock = threading.RLock()
        self._trend = LossTrend()
        self._prepare_slots()
        now = monotonic()
        phases = self._values[_FIRST_PHASE : _FIRST_PHASE + len(PHASES)]
        self._clock = PhaseClock(phases, phase=STARTUP, start=_claim_startup())
        self._iteration_mark = 0.0
        self._publish_at = 0.0
        highest = self._values[_HIGHEST]
        self._position = 0.0 if isnan(highest) else highest
        self._values[_HIGHEST] = self._position
        self._clock.settle(now)
        file.publish()
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._flush_until_stopped, name="gpu-actuary", daemon=True
        )
        self._thread.start()
        _recorders.add(self)
        self._at_exit = multiprocessing.util.Finalize(
            None, _close_at_exit, args=(weakref.ref(self),), exitpriority=0
        )

    def _prepare_slots(self) -> None:
        for name, index in SLOT.items():
            series = BY_NAME.get(name.partition("/")[0])
            lasting = name.startswith(_LASTING_GAUGES)
            if series is not None and series.type == "gauge" and not lasting:
                self._values[index] = nan
        zero = [f"{STEP_SECONDS}/{p}" for p in PHASES if p not in _PHASES_ABSENT_AT_FIRST]
        zero += [f"{STEP_DURATION}/{bound}" for bound in (*BUCKET_BOUNDS, "sum")]
        zero += ["actuary_steps_total", "actuary_redone_steps_total"]
        for name in zero:
            if isnan(self._values[SLOT[name]]):
                self._values[SLOT[name]] = 0.0

    def measure_communication(self) -> None:
        """From now on exposed communication is known; before, its phase is absent."""
        with self._lock:
            slot = _FIRST_PHASE + COMM_EXPOSED
            if isnan(self._values[slot]):
                self._values[slot] = 0.0

    # -- time ------------------------------------------------------------------------------------

    def switch(self, phase: int) -> None:
        """The training goes over to ``phase``."""
        with self._lock:
            self._clock.switch(phase, monotonic())

    def begin_backward(self) -> bool:
        """A gradient says that the backward pass runs; returns whether it had not begun yet."""
        with self._lock:
            if self._clock.current in (BACKWARD, COMM_EXPOSED):
                return False
            self._clock.switch(BACKWARD, monotonic())
            return True

    def gradient_ready(self) -> None:
        """A gradient that may be the last is ready: what follows may be exposed communication.

        When a later gradient follows, the time in between was computation after all.
        """
        with self._lock:
            if self._clock.current in (BACKWARD, COMM_EXPOSED):
                self._clock.switch(COMM_EXPOSED, monotonic(), spent_as=BACKWARD)

    def communication_done(self) -> None:
        """The gradients of all ranks have arrived."""
        with self._lock:
            if self._clock.current == COMM_EXPOSED:
                self._clock.switch(BACKWARD, monotonic())

    def enter(self, phase: int) -> None:
        """Begin a checkpoint or an evaluation; ended by :meth:`leave`."""
        with self._lock:
            self._clock.enter(phase, monotonic())

    def leave(self) -> None:
        """End what :meth:`enter` began, return to the phase around it, and publish."""
        with self._lock:
            self._clock.leave(monotonic())
            self._file.publish()

    def starting_up(self) -> bool:
        """Whether no batch has arrived yet."""
        return self._clock.current == STARTUP

    def inside_context(self) -> bool:
        """Whether a checkpoint or an evaluation is in progress."""
        return self._clock.enclosed

    # -- progress --------------------------------------------------------------------------------

    def step(self, loss: float | None) -> bool:
        """An optimizer step ended; returns whether it is time to :meth:`publish`.

        ``loss`` is None when none became known since the last step; one that is not finite is
        counted and withheld.
        """
        values = self._values
        with self._lock:
            now = monotonic()
            self._clock.switch(OTHER, now)
            total = self._clock.iteration_seconds(now)
            duration = total - self._iteration_mark
            self._iteration_mark = total
            values[_FIRST_BUCKET + bisect_left(STEP_BUCKETS, duration)] += 1.0
            values[_DURATION_SUM] += duration
            values[_STEPS] += 1.0
            self._position += 1.0
            if self._position > values[_HIGHEST]:
                values[_HIGHEST] = self._position
            else:
                values[_REDONE] += 1.0
                if self._position == values[_HIGHEST]:
                    self._clock.count_as_recompute(False, now)
            due = now >= self._publish_at
            if due:
                self._publish_at = now + STEP_PUBLISH_SECONDS
            if loss is not None:
                self._record_loss(loss)
                if due and isfinite(loss):
                    self._trend.add(loss, now)
            return due

    def resume(self, step: int) -> None:
        """Training continues after ``step`` optimizer steps, from a checkpoint or a roll-back.

        Steps up to the highest that was ever completed are redone work.
        """
        with self._lock:
            self._position = float(step)
            highest = max(self._values[_HIGHEST], self._position)
            self._values[_HIGHEST] = highest
            self._clock.count_as_recompute(self._position < highest, monotonic())
            self._trend.reset()
            self._values[_SLOPE] = nan

    def _record_loss(self, value: float) -> None:
        values = self._values
        finite = isfinite(value)
        values[_LOSS] = value if finite else nan
        before = values[_NONFINITE_LOSS]
        values[_NONFINITE_LOSS] = (0.0 if isnan(before) else before) + (not finite)

    def evaluated(
        self, scores: Mapping[str, float], loss: float | None, quality: float | None
    ) -> list[str]:
        """An evaluation ended. Returns the names of scores for which there is no room."""
        left_out = []
        with self._lock:
            names = self._file.score_names()
            for name, value in scores.items():
                if name not in names:
                    if "" not in names:
                        left_out.append(name)
                        continue
                    names[names.index("")] = name
                    self._file.name_score(names.index(name), name)
                self._values[_FIRST_SCORE + names.index(name)] = _finite(value)
            if loss is not None:
                self._values[_EVALUATION_LOSS] = _finite(loss)
                if isnan(self._values[_INITIAL_LOSS]):
                    self._values[_INITIAL_LOSS] = _finite(loss)
            if quality is not None:
                self._values[_QUALITY] = _finite(quality)
            self._values[_EVALUATION_TIME] = time()
            self._file.publish()
        return left_out

    def checkpointed(self, size_bytes: int | None) -> None:
        """A checkpoint became durable; its size is absent when it is not known."""
        with self._lock:
            self._values[_CHECKPOINT_TIME] = time()
            self._values[_CHECKPOINT_BYTES] = nan if size_bytes is None else float(size_bytes)
            self._file.publish()

    def publish(self) -> None:
        """Make everything visible now."""
        with self._lock:
            self._file.publish()

    def set(self, slot: int, value: float) -> None:
        """Set a gauge; what is not finite makes it absent."""
        with self._lock:
            self._values[slot] = _finite(value)

    def add(self, amounts: Mapping[int, float]) -> None:
        """Add to the counters with these slots; a counter exists from its first addition on."""
        values = self._values
        with self._lock:
            for slot, amount in amounts.items():
                before = values[slot]
                values[slot] = amount if isnan(before) else before + amount

    # -- life ------------------------------------------------------------------------------------

    def _flush_until_stopped(self) -> None:
        complained = False
        while not self._stopped.wait(FLUSH_SECONDS):
            try:
                with self._lock:
                    if not self.active:
                        return
                    self._flush()
                    self._file.restore_if_missing()
            except OSError as error:
                if not complained:
                    complained = True
                    log.warning("The rank file cannot be put back: %s", error)
            except Exception:
                log.exception("The monitor's background thread ended; the training goes on.")
                return

    def _flush(self) -> None:
        now = monotonic()
        self._clock.settle(now)
        slope = self._trend.slope_per_hour(now)
        self._values[_SLOPE] = nan if slope is None else slope
        self._file.publish()

    def close(self, *, clean: bool) -> None:
        """Publish a last time and let go of the file; ``clean`` says that nothing went wrong."""
        with self._lock:
            if not self.active:
                return
            self.active = False
            self._stopped.set()
            self._clock.settle(monotonic())
            self._file.close(clean=clean)
        _recorders.discard(self)

    def abandon(self) -> None:
        """In a forked child: forget the file without touching its content."""
        self.active = False
        # The parent's other thread may have held the lock at the moment of the fork.
        self._lock = threading.RLock()
        self._file.release()


def _close_at_exit(reference: weakref.ref[Recorder]) -> None:
    recorder = reference()
    if recorder is not None and recorder.active:
        recorder.close(clean=not _ends_by_error())


def _ends_by_error() -> bool:
    """Whether this process is ending because of an exception.

    A child of multiprocessing runs its finalizers while the exception is being handled; the main
    process first prints it, which leaves it in ``sys.last_type``.
    """
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return error is not None or getattr(sys, "last_type", None) is not None


def _finite(value: float) -> float:
    return value if isfinite(value) else nan
