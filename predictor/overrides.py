"""Deterministic overrides: facts about a GPU that come before any model.

The table is read from the top; the first fact that applies gives the result its ``reason``.

- *Certain* facts set p to exactly 1. That is a decision, not an estimate: the GPU is lost to its
  job or must be taken out now, so a budget is paid in full. Calibration leaves these out.
- *Elevated* facts raise p to the published probability of a repeat within 24 h after one
  uncorrectable memory event (Titan: .006, about 40 times its base rate). They never lower a p.

XIDs 13, 31 and 94 are missing on purpose: they are mostly the application's, or a contained error
that ended its process, and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

CERTAIN: Final = 1.0
REPEAT_WITHIN_24_HOURS: Final = 0.006


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about one GPU beside what a model sees."""

    condemned: frozenset[str] = frozenset()
    vanished: bool = False
    new_xids: frozenset[int] = frozenset()
    remap_pending: bool = False
    new_double_bit: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """One fact: the ``reason`` that the result shows, its probability, and when it applies."""

    reason: str
    probability: float
    applies: Callable[[Evidence], bool]


OVERRIDES: Final = (
    # No spare rows are left: the next uncorrectable error cannot be repaired.
    Override("row_remap_failure", CERTAIN, lambda e: "row_remap_failure" in e.condemned),
    # A page retirement or row remap could not be recorded.
    Override("xid_64", CERTAIN, lambda e: "xid_64" in e.condemned or 64 in e.new_xids),
    # A user's own rule condemns the GPU.
    Override("condemned", CERTAIN, lambda e: bool(e.condemned)),
    # Expected and gone while its neighbours report. Such a loss often comes without any XID.
    Override("vanished", CERTAIN, lambda e: e.vanished),
    # The GPU has fallen off the bus.
    Override("xid_79", CERTAIN, lambda e: 79 in e.new_xids),
    # Uncontained memory error: every process on the GPU was lost.
    Override("xid_95", REPEAT_WITHIN_24_HOURS, lambda e: 95 in e.new_xids),
    # Double-bit error, by the driver or by the counters.
    Override("xid_48", REPEAT_WITHIN_24_HOURS, lambda e: 48 in e.new_xids),
    Override("double_bit_error", REPEAT_WITHIN_24_HOURS, lambda e: e.new_double_bit),
    # A row remap waits for a reset. Work may go on, and the reset belongs to the next drain.
    Override("row_remap_pending", REPEAT_WITHIN_24_HOURS, lambda e: e.remap_pending),
    Override("xid_63", REPEAT_WITHIN_24_HOURS, lambda e: 63 in e.new_xids),
)


def decide(evidence: Evidence) -> Override | None:
    """The first override that applies; None leaves the GPU to the model."""
    return next((override for override in OVERRIDES if override.applies(evidence)), None)
