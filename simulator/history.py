"""The life of a job until now: attempts, crashes, checkpoints, steps done again.

All times are whole microseconds of the job's own clock, which starts with its first attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from gpu_actuary.catalogue.vocabulary import PHASES

from .cycle import MICRO, NO_STEPS, NO_TIME, Cycle, StepDurations, add, microseconds, single_phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .cycle import PhaseTimes
    from .fleet import Job

DOWN_SECONDS: Final = 25
"""From a crash to the start of the next attempt: longer than the sidecar waits for a heartbeat."""

STALE_SECONDS: Final = 15
"""Age of a heartbeat from which a rank counts as down: the sidecar's default."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One life of the job's processes, from ``began`` until ``ended`` or now.

    It resumed at the start of cycle ``first_cycle`` and first redoes ``steps_to_redo`` steps.
    """

    number: int
    began: int
    ended: int
    alive: bool
    first_cycle: int
    steps_to_redo: int


class History:
    """What a job has done ``now`` microseconds after its begin."""

    def __init__(self, job: Job, cycle: Cycle, now: int, restart_every: int | None) -> None:
        self.now = now
        self._cycle = cycle
        self._startup = microseconds(job.startup_seconds)
        began_before = microseconds(job.began_before_seconds)
        self.attempts = tuple(self._live(began_before, restart_every))

    def _live(self, began_before: int, restart_every: int | None) -> Iterator[Attempt]:
        began, first_cycle, highest = 0, 0, 0
        for number in count():
            crash = None if restart_every is None else began_before + (number + 1) * restart_every
            crashed = crash is not None and crash <= self.now
            ended = crash if crash is not None and crashed else self.now
            resumed_at = first_cycle * self._cycle.steps
            attempt = Attempt(
                number, began, ended, not crashed, first_cycle, max(0, highest - resumed_at)
            )
            yield attempt
            began = ended + DOWN_SECONDS * MICRO
            if not crashed or began > self.now:
                return
            cycles, offset = self._progress(attempt)
            highest = max(highest, resumed_at + self._steps(attempt))
            first_cycle += cycles + (offset >= self._cycle.checkpoint_end)

    def _progress(self, attempt: Attempt) -> tuple[int, int]:
        """Whole cycles of the attempt and the time in the one that is under way."""
        return divmod(max(0, attempt.ended - attempt.began - self._startup), self._cycle.duration)

    def _steps(self, attempt: Attempt) -> int:
        cycles, offset = self._progress(attempt)
        return cycles * self._cycle.steps + self._cycle.steps_until(offset)

    @property
    def current(self) -> Attempt:
        """The attempt that is running, or the one that crashed last."""
        return self.attempts[-1]

    @property
    def fresh(self) -> bool:
        """Whether the last heartbeat is young enough for the ranks to count as up."""
        return self.current.alive or self.now - self.heartbeat <= STALE_SECONDS * MICRO

    @property
    def heartbeat(self) -> int:
        """The last sign of life."""
        return self.current.ended

    @property
    def steps(self) -> int:
        """Steps of all attempts together, those done again included."""
        return sum(map(self._steps, self.attempts))

    @property
    def steps_of_current(self) -> int:
        """Steps of the current attempt."""
        return self._steps(self.current)

    @property
    def redone_steps(self) -> int:
        """Steps that were done again."""
        return sum(min(a.steps_to_redo, self._steps(a)) for a in self.attempts)

    @property
    def position(self) -> int:
        """Optimizer steps that the model has behind it."""
        return self.current.first_cycle * self._cycle.steps + self.steps_of_current

    def phase_times(self, rank: int) -> PhaseTimes:
        """The rank's time by phase; they sum to the time that its processes lived."""
        times = NO_TIME
        for attempt in self.attempts:
            times = add(times, self._phase_times(attempt, rank))
        return times

    def _phase_times(self, attempt: Attempt, rank: int) -> PhaseTimes:
        row = self._cycle.ranks[rank]
        cycles, offset = self._progress(attempt)
        whole, part = row.until(self._cycle.duration), row.until(offset)
        startup = min(self._startup, attempt.ended - attempt.began)
        times = add(
            tuple(cycles * a + b for a, b in zip(whole, part, strict=True)),
            single_phase("startup", startup),
        )
        if not attempt.steps_to_redo:
            return times
        redo_end = self._cycle.step_ends[attempt.steps_to_redo - 1]
        redone = row.until(redo_end if cycles else min(redo_end, offset))
        return tuple(
            time - spent + (sum(redone) if phase == "recompute" else 0)
            for phase, time, spent in zip(PHASES, times, redone, strict=True)
        )

    @property
    def step_durations(self) -> StepDurations:
        """The durations of all steps."""
        durations = NO_STEPS
        for attempt in self.attempts:
            cycles, offset = self._progress(attempt)
            whole = self._cycle.durations_of(self._cycle.steps)
            part = self._cycle.durations_of(self._cycle.steps_until(offset))
            durations = durations.plus(whole, cycles).plus(part)
        return durations

    def last_checkpoint(self) -> int | None:
        """When the last checkpoint became durable."""
        place = self._cycle.checkpoint_end
        for attempt in reversed(self.attempts):
            cycles, offset = self._progress(attempt)
            before = cycles if offset >= place else cycles - 1
            if before >= 0:
                return attempt.began + self._startup + before * self._cycle.duration + place
        return None

    def last_evaluation(self) -> tuple[int, int] | None:
        """When the last evaluation ended, and the steps that the model had behind it then."""
        for attempt in reversed(self.attempts):
            cycles, _ = self._progress(attempt)
            if cycles:
                ended = attempt.began + self._startup + cycles * self._cycle.duration
                return ended, (attempt.first_cycle + cycles) * self._cycle.steps
        return None
