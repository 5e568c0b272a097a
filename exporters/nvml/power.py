"""How unsteady the power of a GPU is."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

WINDOW_SECONDS: Final = 60.0
MIN_SECONDS: Final = 10.0
"""With fewer seconds of samples there is no figure."""
MAX_WATTS: Final = 5000.0
"""No board draws as much: such a reading is a sentinel or a fault."""
_LATEST_SECONDS: Final = 2.0
_MIN_PER_SECOND: Final = 1.0


def plausible_watts(watts: float) -> float:
    """``watts``, or ``ValueError``: a board under voltage never draws 0 W, nor :data:`MAX_WATTS`."""
    if not 0 < watts < MAX_WATTS:
        raise ValueError(f"a power of {watts:g} W")
    return watts


class PowerWindow:
    """The power samples of the last :data:`WINDOW_SECONDS`."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, now: float, watts: float) -> None:
        """Take a sample; ``now`` in seconds of a clock that never goes back."""
        self._samples.append((now, watts))
        while self._samples[0][0] < now - WINDOW_SECONDS:
            self._samples.popleft()

    def fluctuation(self, now: float) -> float | None:
        """Standard deviation ÷ mean, or None while the samples are too few, too rare or too old."""
        if not self._samples or now - self._samples[-1][0] > _LATEST_SECONDS:
            return None
        seconds = self._samples[-1][0] - self._samples[0][0]
        if seconds < MIN_SECONDS or len(self._samples) - 1 < seconds * _MIN_PER_SECOND:
            return None
        count = len(self._samples)
        mean = math.fsum(watts for _, watts in self._samples) / count
        variance = math.fsum((watts - mean) ** 2 for _, watts in self._samples) / count
        return math.sqrt(variance) / mean
