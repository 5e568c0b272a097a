"""The phase clock: at any moment a rank is in exactly one phase.

Because every moment is added to the phase that was current, the phases sum to wall time by
construction.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, Protocol

from gpu_actuary.catalogue.vocabulary import OUTSIDE_ITERATION, PHASES

# Numbers instead of names, because phases change several times per step.
DATA_WAIT: Final = PHASES.index("data_wait")
FORWARD: Final = PHASES.index("forward")
BACKWARD: Final = PHASES.index("backward")
COMM_EXPOSED: Final = PHASES.index("comm_exposed")
OPTIMIZER: Final = PHASES.index("optimizer")
CHECKPOINT: Final = PHASES.index("checkpoint")
EVALUATION: Final = PHASES.index("evaluation")
STARTUP: Final = PHASES.index("startup")
RECOMPUTE: Final = PHASES.index("recompute")
OTHER: Final = PHASES.index("other")

_OUTSIDE: Final = tuple(PHASES.index(phase) for phase in OUTSIDE_ITERATION)
_AS_IS: Final = tuple(range(len(PHASES)))
_REDONE: Final = tuple(phase if phase in _OUTSIDE else RECOMPUTE for phase in _AS_IS)


class Seconds(Protocol):
    """A row of numbers, for example a list or a memoryview of float64."""

    def __getitem__(self, index: int, /) -> float: ...
    def __setitem__(self, index: int, value: float, /) -> None: ...


class PhaseClock:
    """Adds monotonic time to the phase that it was spent in.

    ``seconds`` is one number per phase of ``PHASES`` and may start with the totals of an earlier
    attempt. ``start`` and every ``now`` are seconds of ``time.monotonic``. Not thread-safe: the
    caller locks.
    """

    def __init__(self, seconds: Seconds, *, phase: int, start: float) -> None:
        self.seconds = seconds
        self.current = phase
        self._since = start
        self._start = start
        self._enclosing: list[int] = []
        self._counted_as = _AS_IS
        self._outside_before = sum(seconds[phase] for phase in _OUTSIDE)

    def switch(self, phase: int, now: float, *, spent_as: int | None = None) -> None:
        """End the current phase and begin ``phase``.

        ``spent_as`` says after the fact what the time since the last switch really was. Inside
        :meth:`enter` … :meth:`leave` the call is ignored: a forward pass of an evaluation is
        evaluation.
        """
        if self._enclosing:
            return
        spent = self._counted_as[self.current if spent_as is None else spent_as]
        self.seconds[spent] += now - self._since
        self._since = now
        self.current = phase

    def settle(self, now: float) -> None:
        """Add what the phase in progress has lasted so far."""
        self.seconds[self._counted_as[self.current]] += now - self._since
        self._since = now

    def enter(self, phase: int, now: float) -> None:
        """Begin ``phase`` until the matching :meth:`leave`; nests."""
        self.settle(now)
        self._enclosing.append(self.current)
        self.current = phase

    def leave(self, now: float) -> None:
        """Return to the phase in which :meth:`enter` was called."""
        self.settle(now)
        self.current = self._enclosing.pop()

    @property
    def enclosed(self) -> bool:
        """Whether a phase that was entered has not been left yet."""
        return bool(self._enclosing)

    def count_as_recompute(self, redone: bool, now: float) -> None:
        """Whether in-iteration time from ``now`` on redoes what an earlier attempt had done."""
        self.settle(now)
        self._counted_as = _REDONE if redone else _AS_IS

    def iteration_seconds(self, now: float) -> float:
        """Time since the start outside checkpoint, evaluation and startup.

        ``now`` is the time of the switch or settle just before.
        """
        seconds = self.seconds
        outside = seconds[CHECKPOINT] + seconds[EVALUATION] + seconds[STARTUP]
        return now - self._start - (outside - self._outside_before)


def process_start() -> float:
    """When this process started, in seconds of ``time.monotonic``."""
    # The start time is field 22 of stat; the second field, the name in brackets, may hold spaces.
    after_name = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    ticks = int(after_name.rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - max(age, 0.0)
