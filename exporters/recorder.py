"""What a rank reports: phases, steps, losses, evaluations. Without torch.

The methods of a :class:`Recorder` are called from the training (any thread); the reporter's thread
publishes every second in between, so that counters move during a long checkpoint or a hang.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from math import isfinite, isnan, nan
from time import monotonic, time
from typing import TYPE_CHECKING, Final

from gpu_actuary.catalogue.exported import STEP_BUCKETS
from gpu_actuary.catalogue.vocabulary import PHASES

from .divergence import Divergence
from .layout import BUCKET_BOUNDS, SLOT, STEP_DURATION, STEP_SECONDS
from .loss import LossTrend
from .phases import BACKWARD, COMM_EXPOSED, OTHER, STARTUP, PhaseClock, process_start
from .reporter import Reporter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .rankfile import RankFile

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
_DIVERGENCE: Final = SLOT["actuary_divergence_score"]
_NONFINITE_LOSS: Final = SLOT["actuary_nonfinite_steps_total/loss"]
_INITIAL_LOSS: Final = SLOT["actuary_evaluation_initial_loss"]
_EVALUATION_LOSS: Final = SLOT["actuary_evaluation_loss"]
_EVALUATION_TIME: Final = SLOT["actuary_evaluation_timestamp_seconds"]
_QUALITY: Final = SLOT["actuary_quality_score"]
_FIRST_SCORE: Final = SLOT["actuary_evaluation_score/0"]
_CHECKPOINT_TIME: Final = SLOT["actuary_checkpoint_last_success_timestamp_seconds"]
_CHECKPOINT_BYTES: Final = SLOT["actuary_checkpoint_bytes"]

_startup_is_reported = False


def _after_fork_in_child() -> None:
    """A child that becomes a training of its own has a startup of its own."""
    global _startup_is_reported
    _startup_is_reported = False


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


class Recorder(Reporter):
    """What one rank of a training reports."""

    def __init__(self, file: RankFile) -> None:
        super().__init__(file)
        self._trend = LossTrend()
        self._divergence = Divergence()
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
        self.start()

    def _prepare_slots(self) -> None:
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

    def switch(self, phase: int) -> float:
        """The training goes over to ``phase``; returns when, in monotonic seconds."""
        with self._lock:
            now = monotonic()
            self._clock.switch(phase, now)
            return now

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
                if due:
                    self._divergence.add_loss(loss)
                    if isfinite(loss):
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
            self._divergence.reset()
            self._values[_SLOPE] = self._values[_DIVERGENCE] = nan

    def observe_gradient(self, norm: float) -> None:
        """A gradient norm for the divergence score, infinite when the gradient was not finite."""
        with self._lock:
            self._divergence.add_gradient(norm)

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

    def _settle(self, now: float) -> None:
        self._clock.settle(now)
        slope = self._trend.slope_per_hour(now)
        self._values[_SLOPE] = nan if slope is None else slope
        score = self._divergence.score()
        self._values[_DIVERGENCE] = nan if score is None else score


def _finite(value: float) -> float:
    return value if isfinite(value) else nan
