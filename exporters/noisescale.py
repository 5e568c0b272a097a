"""The gradient noise scale from squared norms at two batch sizes.

Source: S. McCandlish et al., "An Empirical Model of Large-Batch Training", 2018, appendix A.
"""

from __future__ import annotations

from typing import Final

MIN_SAMPLES: Final = 10
"""Fewer say nothing: a single difference of squared norms may have either sign."""
_DECAY: Final = 0.99


class NoiseScale:
    """Estimates |G|² and tr Σ of a training, and their ratio B_simple = tr Σ ÷ |G|².

    G is the true gradient and Σ the covariance of one sample's gradient. Both are averaged apart
    and only then divided: the ratio of a single step has no useful mean. The first hundred samples
    count alike, after that older ones fade.
    """

    def __init__(self) -> None:
        self._count = 0
        self._signal = 0.0
        self._variance = 0.0

    def add(self, small_squared: float, large_squared: float, small: float, large: float) -> None:
        """Squared gradient norms of batches of ``small`` and of ``large`` samples, one step's.

        ``large`` must be above ``small``.
        """
        signal = (large * large_squared - small * small_squared) / (large - small)
        variance = (small_squared - large_squared) / (1 / small - 1 / large)
        self._count += 1
        weight = max(1 / self._count, 1 - _DECAY)
        self._signal += weight * (signal - self._signal)
        self._variance += weight * (variance - self._variance)

    @property
    def signal(self) -> float | None:
        """|G|²; unbiased, therefore negative at times; None before there are enough samples."""
        return self._signal if self._count >= MIN_SAMPLES else None

    @property
    def variance(self) -> float | None:
        """tr Σ of one sample; unbiased; None before there are enough samples."""
        return self._variance if self._count >= MIN_SAMPLES else None

    @property
    def ratio(self) -> float | None:
        """B_simple in samples; None unless both estimates are positive."""
        if self._count < MIN_SAMPLES or self._signal <= 0 or self._variance <= 0:
            return None
        return self._variance / self._signal
