"""How fast the loss falls: a robust slope of ln(loss) over a bounded window."""

from __future__ import annotations

import math
import statistics
from typing import Final

_MAX_BUCKETS: Final = 32
_MIN_BUCKETS: Final = 6
_FIRST_WIDTH_SECONDS: Final = 1.0
_LAST_WIDTH_SECONDS: Final = 32.0
_SECONDS_PER_HOUR: Final = 3600.0
_MIN_PATIENCE_SECONDS: Final = 60.0


class LossTrend:
    """d ln(loss)/dt per hour by the Theil–Sen estimator: the median slope of all pairs.

    Losses are averaged into time buckets. The buckets start short, so that a slope exists within
    seconds, and double in width while the window fills, up to 32 buckets of 32 s; then the window
    slides. The median survives spikes in up to 29 % of the buckets. Times are seconds of one
    monotonic clock. Source: P. K. Sen, JASA 63 (1968), 1379–1389.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything: what comes next is another curve."""
        self._width = _FIRST_WIDTH_SECONDS
        self._buckets: list[tuple[float, float, int]] = []  # mean time, mean ln(loss), count
        self._bucket_end = -math.inf
        self._last_time = -math.inf
        self._stale = True
        self._slope: float | None = None

    def add(self, loss: float, now: float) -> None:
        """Add one finite loss; one that has no logarithm ends the trend and starts anew."""
        if loss <= 0:
            self.reset()
            return
        value = math.log(loss)
        self._last_time = now
        if now < self._bucket_end:
            time, mean, count = self._buckets[-1]
            count += 1
            self._buckets[-1] = (time + (now - time) / count, mean + (value - mean) / count, count)
            return
        self._stale = True
        if len(self._buckets) == _MAX_BUCKETS:
            self._make_room()
        self._buckets.append((now, value, 1))
        self._bucket_end = now + self._width

    def _make_room(self) -> None:
        if self._width >= _LAST_WIDTH_SECONDS:
            del self._buckets[0]
            return
        self._width *= 2
        pairs = zip(self._buckets[::2], self._buckets[1::2], strict=True)
        self._buckets = [
            ((t * n + u * m) / (n + m), (a * n + b * m) / (n + m), n + m)
            for (t, a, n), (u, b, m) in pairs
        ]

    def slope_per_hour(self, now: float) -> float | None:
        """The slope, or None while there are too few buckets or the losses have stopped.

        Computed again only when a bucket was completed; the bucket in progress does not count.
        """
        complete = self._buckets[:-1]
        if len(complete) < _MIN_BUCKETS:
            return None
        window = complete[-1][0] - complete[0][0]
        if now - self._last_time > max(window, _MIN_PATIENCE_SECONDS):
            return None
        if self._stale:
            self._stale = False
            slopes = [
                (later[1] - earlier[1]) / (later[0] - earlier[0])
                for index, earlier in enumerate(complete)
                for later in complete[index + 1 :]
            ]
            self._slope = statistics.median(slopes) * _SECONDS_PER_HOUR
        return self._slope
