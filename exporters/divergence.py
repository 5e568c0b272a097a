"""Whether a training diverges: lasting rises of the loss and of the gradient norm."""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import Final

MAX_SCORE: Final = 10.0
"""What lasting NaNs score, too: the score itself is always finite."""

_DEVIATIONS: Final = 4.0
_HEALTHY: Final = 0.5
_MAD_TO_DEVIATION: Final = 1.4826  # of a normal distribution


class Divergence:
    """One score over loss and gradient norm; 1 is anomalous.

    Each of the two is judged by the median of its latest values, so a spike scores nothing, however
    high, while it holds for less than half of them (50 steps for the loss). It is compared in
    logarithms with the lowest such median so far, a baseline that follows falls only: a slow rise
    adds up instead of becoming normal. What is tolerated is four times the usual scatter (by the
    median absolute deviation, frozen while the score is above 0.5), and at least 25 % for the loss
    and a factor of ten for the gradient norm.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything: what comes next is another curve."""
        self._loss = _Rise(window=101, least=math.log(1.25))
        self._gradient = _Rise(window=11, least=math.log(10.0))

    def add_loss(self, loss: float) -> None:
        """The loss of one step, also one that is not finite."""
        self._loss.add(loss)

    def add_gradient(self, norm: float) -> None:
        """A gradient norm, also one that is not finite."""
        self._gradient.add(norm)

    def score(self) -> float | None:
        """0 … 10, or None while there are too few values of either kind."""
        scores = [rise.score() for rise in (self._loss, self._gradient)]
        known = [score for score in scores if score is not None]
        return max(known) if known else None


class _Rise:
    def __init__(self, *, window: int, least: float) -> None:
        self._latest: deque[float] = deque(maxlen=window)
        self._window = window
        self._least = least
        self._level = math.inf
        self._scatter = 0.0

    def add(self, value: float) -> None:
        """A value that is not finite is a very high one; one without a logarithm starts anew."""
        if not math.isfinite(value):
            self._latest.append(math.inf)
        elif value > 0:
            self._latest.append(math.log(value))
        else:
            self._latest.clear()
            self._level = math.inf

    def score(self) -> float | None:
        if len(self._latest) < self._window:
            return None
        median = statistics.median(self._latest)
        if median == math.inf:
            return None if self._level == math.inf else MAX_SCORE
        self._level = min(self._level, median)
        rise = (median - self._level) / max(self._least, _DEVIATIONS * self._scatter)
        if rise < _HEALTHY:
            deviations = (abs(value - median) for value in self._latest)
            self._scatter = _MAD_TO_DEVIATION * statistics.median(deviations)
        return min(rise, MAX_SCORE)
