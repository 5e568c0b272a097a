"""How busy a GPU is: what each phase of training and each load makes of its engines and power."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

from gpu_actuary.catalogue.vocabulary import PHASES

from .cycle import MICRO

if TYPE_CHECKING:
    from .cycle import PhaseTimes
    from .fleet import Load


@dataclass(frozen=True, slots=True)
class Activity:
    """Shares 0..1 of the engines and of the power above idle; or such shares times seconds."""

    engine: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    power: float = 0.0

    def plus(self, other: Activity, factor: float = 1.0) -> Activity:
        """This and ``factor`` times the other."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Activity(*(a + factor * b for a, b in pairs))

    def times(self, factor: float) -> Activity:
        """Every part times ``factor``."""
        return Activity(*(factor * part for part in astuple(self)))


IDLE: Final = Activity()
SERVING: Final = Activity(engine=1.0, sm=0.9, tensor=0.45, dram=0.55, power=0.75)
"""What a server does while it is busy."""

# Waiting in a collective looks fully busy to the utilisation counter, and is not to the SMs.
_OF_PHASE: Final = {
    "data_wait": Activity(power=0.03),
    "h2d": Activity(0.20, 0.02, 0.0, 0.05, 0.12),
    "forward": Activity(0.99, 0.88, 0.55, 0.45, 0.86),
    "backward": Activity(0.99, 0.90, 0.58, 0.48, 0.92),
    "comm_exposed": Activity(0.97, 0.15, 0.0, 0.12, 0.35),
    "optimizer": Activity(0.98, 0.60, 0.0, 0.80, 0.55),
    "checkpoint": Activity(0.10, 0.02, 0.0, 0.05, 0.08),
    "evaluation": Activity(0.95, 0.80, 0.40, 0.40, 0.70),
    "startup": Activity(0.05, 0.01, 0.0, 0.02, 0.05),
    "recompute": Activity(0.98, 0.82, 0.48, 0.45, 0.82),
    "other": Activity(0.30, 0.05, 0.0, 0.05, 0.10),
}


def of_training(times: PhaseTimes) -> Activity:
    """The activity, in seconds, of a rank that spent ``times`` in its phases."""
    total = IDLE
    for phase, time in zip(PHASES, times, strict=True):
        total = total.plus(_OF_PHASE[phase], time / MICRO)
    return total


def of_load(load: Load, until: int) -> Activity:
    """The activity, in seconds, of a server from 0 to ``until`` microseconds (may be negative)."""
    seconds = until / MICRO
    pulse = 2.0 * math.pi / load.period_seconds
    return SERVING.times(
        load.busy * seconds + load.swing * (1.0 - math.cos(pulse * seconds)) / pulse
    )
