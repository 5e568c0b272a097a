"""For how long something held the clocks of a GPU down, by reason."""

from __future__ import annotations

from typing import Final

REASON_OF_BIT: Final[dict[int, str]] = {
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""NVML's bits. hw_slowdown is set beside its two causes; an idle GPU (0x1) is not held down."""
_IDLE: Final = 0x1
_OTHER: Final = "other"
REASONS: Final = (*REASON_OF_BIT.values(), _OTHER)
_BITS: Final = 16
"""NVML has used 9 bits so far; a mask with far higher ones is a sentinel."""

MAX_GAP_SECONDS: Final = 5.0


class ThrottleClock:
    """Seconds by reason, from a bit mask that is sampled: each mask stands for the time before it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._sampled: float | None = None

    def add(self, now: float, mask: int) -> None:
        """Take a sample; raises ``ValueError`` for one that cannot be."""
        if mask >> _BITS:
            raise ValueError(f"a mask of clock event reasons of {mask:#x}")
        before, self._sampled = self._sampled, now
        if not self.seconds:
            self.seconds = dict.fromkeys(REASONS, 0.0)
        if before is None or now - before > MAX_GAP_SECONDS:
            return
        for reason in _reasons(mask):
            self.seconds[reason] += now - before


def _reasons(mask: int) -> list[str]:
    found = [reason for bit, reason in REASON_OF_BIT.items() if mask & bit]
    if mask & ~_IDLE & ~sum(REASON_OF_BIT):
        found.append(_OTHER)
    return found
