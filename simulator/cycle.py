"""One cycle of a job: its steps, a checkpoint, an evaluation, to the microsecond.

A job repeats its cycle, so the state at any time is a number of whole cycles and a part of one.
Times are whole microseconds: sums are exact, and a counter can never step back by a rounding error.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from gpu_actuary.catalogue.exported import STEP_BUCKETS
from gpu_actuary.catalogue.vocabulary import PHASES

from .fleet import STEP_PHASES
from .noise import signed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .fleet import Job

MICRO: Final = 1_000_000

PhaseTimes = tuple[int, ...]
"""Microseconds by phase, in the order of the catalogue's `PHASES`."""

NO_TIME: Final[PhaseTimes] = (0,) * len(PHASES)

_COMMUNICATION: Final = "comm_exposed"


def microseconds(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * MICRO)


def single_phase(phase: str, duration: int) -> PhaseTimes:
    """``duration`` microseconds that were all spent in ``phase``."""
    return tuple(duration if name == phase else 0 for name in PHASES)


def add(first: PhaseTimes, second: PhaseTimes) -> PhaseTimes:
    """The sum, phase by phase."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


class RankCycle:
    """What one rank does in a cycle: a row of phases."""

    def __init__(self, segments: Sequence[tuple[str, int]]) -> None:
        self._phases = [PHASES.index(phase) for phase, _ in segments]
        self._starts = [0, *accumulate(duration for _, duration in segments)]
        self._before = list(
            accumulate((single_phase(*segment) for segment in segments), add, initial=NO_TIME)
        )

    def until(self, offset: int) -> PhaseTimes:
        """Time by phase in the first ``offset`` microseconds of the cycle."""
        index = bisect_right(self._starts, offset) - 1
        times = self._before[index]
        if index == len(self._phases):
            return times
        phase = self._phases[index]
        return (
            *times[:phase],
            times[phase] + offset - self._starts[index],
            *times[phase + 1 :],
        )


@dataclass(frozen=True, slots=True)
class StepDurations:
    """Steps by duration: counts by bucket of `STEP_BUCKETS` with one beyond, and their sum."""

    buckets: tuple[int, ...]
    total: int

    def plus(self, other: StepDurations, times: int = 1) -> StepDurations:
        """This and ``times`` times the other."""
        buckets = (a + times * b for a, b in zip(self.buckets, other.buckets, strict=True))
        return StepDurations(tuple(buckets), self.total + times * other.total)


NO_STEPS: Final = StepDurations((0,) * (len(STEP_BUCKETS) + 1), 0)


class Cycle:
    """A job's cycle: the ranks take their steps together, whoever is ready early waits.

    ``step_ends``, ``checkpoint_end`` and ``duration`` (where the evaluation ends, too) are
    microseconds from the start of the cycle.
    """

    def __init__(self, job: Job, seed: int) -> None:
        self.steps = job.steps_per_checkpoint
        own = [
            [_own_times(job, seed, rank, step) for step in range(self.steps)]
            for rank in range(len(job.places))
        ]
        exchange = microseconds(job.phase_seconds[_COMMUNICATION])
        durations = [
            max(sum(steps[step].values()) for steps in own) + exchange for step in range(self.steps)
        ]
        checkpoint = microseconds(job.checkpoint_seconds)
        evaluation = microseconds(job.evaluation_seconds)
        self.step_ends = tuple(accumulate(durations))
        self.checkpoint_end = self.step_ends[-1] + checkpoint
        self.duration = self.checkpoint_end + evaluation
        tail = [("checkpoint", checkpoint), ("evaluation", evaluation)]
        self.ranks = tuple(
            RankCycle(
                [
                    *(
                        segment
                        for times, duration in zip(steps, durations, strict=True)
                        for segment in _segments(times, duration)
                    ),
                    *tail,
                ]
            )
            for steps in own
        )
        self._durations = tuple(
            accumulate((_as_histogram(d) for d in durations), StepDurations.plus, initial=NO_STEPS)
        )

    def steps_until(self, offset: int) -> int:
        """Steps completed in the first ``offset`` microseconds."""
        return bisect_right(self.step_ends, offset)

    def durations_of(self, steps: int) -> StepDurations:
        """The durations of the cycle's first ``steps`` steps."""
        return self._durations[steps]


def _own_times(job: Job, seed: int, rank: int, step: int) -> dict[str, int]:
    """What the rank needs for itself in this step; communication fills the rest of the step."""
    lasting = 1.0 + 0.25 * job.jitter * signed(seed, job.job_id, rank, "lasting")
    return {
        phase: microseconds(
            job.phase_seconds[phase]
            * lasting
            * (1.0 + job.jitter * signed(seed, job.job_id, rank, step, phase))
        )
        for phase in STEP_PHASES
        if phase != _COMMUNICATION
    }


def _segments(own: Mapping[str, int], duration: int) -> list[tuple[str, int]]:
    waiting = duration - sum(own.values())
    return [(phase, own.get(phase, waiting)) for phase in STEP_PHASES]


def _as_histogram(duration: int) -> StepDurations:
    bucket = bisect_left(STEP_BUCKETS, duration / MICRO)
    return StepDurations(
        tuple(int(index == bucket) for index in range(len(STEP_BUCKETS) + 1)), duration
    )
