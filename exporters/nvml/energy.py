"""The energy that a GPU used since the sidecar began to look, over reloads of the driver."""

from __future__ import annotations

from typing import Final

from .power import MAX_WATTS

MAX_GAP_SECONDS: Final = 5.0
"""Power is not integrated over a longer silence: nobody knows what the GPU did in it."""
_MAX_JOULES: Final = 2**47 / 1000
"""The lowest of the sentinels that have been seen, read as millijoules."""
_UPDATE_SECONDS: Final = 1.0
"""The hardware's counter may lag behind by so much, and then catch up."""


class EnergyCounter:
    """Joules by the method that counted them, ``hardware`` or ``integrated``.

    A GPU's energy is the sum of both, should a driver begin or cease to support the counter.

    The hardware's counter goes on from where it was when the sidecar did not look for a while, and
    starts again from 0 when the driver is loaded: what it shows then was used since.
    """

    def __init__(self) -> None:
        self.joules: dict[str, float] = {}
        self._reading: tuple[float, float] | None = None
        self._sample: tuple[float, float] | None = None

    def read(self, now: float, reading: float) -> None:
        """Take a reading in joules of the hardware's counter.

        Raises ``ValueError`` and counts nothing when it is no energy, or when it says that more was
        used than a GPU can use; in the second case it goes on from this reading.
        """
        if not 0 < reading < _MAX_JOULES:
            raise ValueError(f"an energy counter of {reading:g} J")
        before, self._reading = self._reading, (now, reading)
        self._sample = None  # a later change of method must not integrate what was counted here
        self.joules.setdefault("hardware", 0.0)
        if before is None:
            return
        used = reading - before[1] if reading >= before[1] else reading
        if used > MAX_WATTS * (now - before[0] + _UPDATE_SECONDS):
            raise ValueError(
                f"an energy counter that went from {before[1]:g} J to {reading:g} J in "
                f"{now - before[0]:.1f} s"
            )
        self.joules["hardware"] += used

    def integrate(self, now: float, watts: float) -> None:
        """Take a power sample of a GPU that has no counter."""
        before, self._sample = self._sample, (now, watts)
        self._reading = None
        self.joules.setdefault("integrated", 0.0)
        if before is not None and now - before[0] <= MAX_GAP_SECONDS:
            self.joules["integrated"] += (now - before[0]) * (watts + before[1]) / 2
