"""Which steps are measured: few enough to keep what measuring costs within a share of the time."""

from __future__ import annotations

from typing import Final

FIRST_INTERVAL: Final = 10
COST_SHARE: Final = 0.01
"""Measuring takes at most this share of the training's time on the host."""
_LONGEST_INTERVAL: Final = FIRST_INTERVAL * 2**10


def interval(cost_seconds: float, step_seconds: float) -> int:
    """Steps from one measurement to the next: the first of 10, 20, 40, … that is cheap enough.

    Ranks take the same steps when their costs are alike, so that they do not delay one another in
    turn.
    """
    steps = FIRST_INTERVAL
    while steps < _LONGEST_INTERVAL and cost_seconds > COST_SHARE * steps * step_seconds:
        steps *= 2
    return steps


class Sampling:
    """Counts optimizer steps and chooses those to measure.

    The first measurement pays for the warm-up of what it uses and is left out of the average cost.
    """

    def __init__(self) -> None:
        self._interval = FIRST_INTERVAL
        self._step = 0
        self._measured = 0
        self._cost = 0.0
        self._since: tuple[int, float] | None = None

    def steps_to_next(self) -> int:
        """0: the step in progress is measured; 1: the one after it."""
        return self._interval - 1 - self._step % self._interval

    def step_ended(self) -> None:
        """An optimizer step ended."""
        self._step += 1

    def measured(self, cost_seconds: float, now: float) -> None:
        """The step in progress was measured at that cost; ``now`` is in monotonic seconds."""
        self._measured += 1
        if self._since is not None:
            count = self._measured - 1
            self._cost += (cost_seconds - self._cost) / min(count, 10)
            steps, since = self._step - self._since[0], self._since[1]
            self._interval = interval(self._cost, (now - since) / max(steps, 1))
        self._since = (self._step, now)
