"""What the sensors of a GPU show at a moment, in base units."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from . import activity
from .activity import IDLE, Activity
from .cycle import MICRO, microseconds
from .noise import signed, uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from .fleet import Gpu, Incident, Load, Node

MEMORY_MIB: Final = 81559
RESERVED_MIB: Final = 523
XID_WINDOW_SECONDS: Final = 300

_IDLE_WATTS: Final = 72.0
_FULL_WATTS: Final = 695.0
_RIPPLE_WATTS: Final = 4.0
_SAMPLING: Final = MICRO
"""Utilisation and power are means over the last second, as the driver gives them."""
_THERMAL: Final = 30 * MICRO
"""A temperature follows the power of the last half minute."""
_SLICES: Final = 7


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU's sensors, in watts, joules, degrees Celsius, hertz, MiB and bytes per second.

    ``share`` holds the shares of the engines, 0..1. ``xid`` is the last code (0: none yet) and
    ``xids_in_window`` the codes of the last five minutes with their counts.
    """

    share: Activity
    watts: float
    joules: float
    temperature: int
    memory_temperature: int
    sm_clock: int
    memory_clock: int
    used_mib: int
    nvlink_bytes_per_second: int
    pcie_sent: int
    pcie_received: int
    xid: int
    xids_in_window: dict[int, int]
    single_bit_volatile: int
    single_bit_lifetime: int
    double_bit_volatile: int
    double_bit_lifetime: int
    remapped_rows: int
    remap_pending: bool


class Sensors:
    """The sensors of one GPU. ``work(t)`` is its activity up to ``t`` microseconds, in seconds."""

    def __init__(self, node: Node, gpu: Gpu, seed: int, work: Callable[[int], Activity]) -> None:
        self._gpu = gpu
        self._incidents = [i for i in node.incidents if i.gpu == gpu.index]
        self._work = work
        key = (seed, node.name, gpu.index)
        self._idle_watts = _IDLE_WATTS + 3.0 * signed(*key, "idle watts")
        self._full_watts = _FULL_WATTS + 5.0 * signed(*key, "full watts")
        self._joules_before = float(round(2e8 + 4e8 * uniform(*key, "joules")))
        self._ripple = 2.0 * math.pi / (11.0 + 6.0 * uniform(*key, "ripple"))
        self._degrees = 2.0 * signed(*key, "degrees")
        self._single_bit_before = int(40 * uniform(*key, "single-bit"))

    def _joules(self, now: int, work: Activity) -> float:
        """Energy since the driver was loaded; power is its exact rate."""
        seconds = now / MICRO
        swing = _RIPPLE_WATTS * (1.0 - math.cos(self._ripple * seconds)) / self._ripple
        above_idle = (self._full_watts - self._idle_watts) * work.power
        return self._joules_before + self._idle_watts * seconds + swing + above_idle

    def read(self, now: int) -> Reading:
        """All sensors ``now`` microseconds after the start of the simulation."""
        work, work_before = self._work(now), self._work(now - _SAMPLING)
        joules = self._joules(now, work)
        lately = joules - self._joules(now - _SAMPLING, work_before)
        warming = joules - self._joules(now - _THERMAL, self._work(now - _THERMAL))
        share = work.plus(work_before, -1.0).times(MICRO / _SAMPLING)
        warmth = 0.045 * warming * MICRO / _THERMAL + self._degrees
        busy = share.engine > 0.01
        past = [i for i in self._incidents if microseconds(i.at_seconds) <= now]
        single_bit = int(self._gpu.single_bit_errors_per_hour * now / (3600 * MICRO))
        double_bit = sum(incident.double_bit_errors for incident in past)
        rows = sum(incident.rows_to_remap for incident in past)
        return Reading(
            share=share,
            watts=lately * MICRO / _SAMPLING,
            joules=joules,
            temperature=round(26 + warmth),
            memory_temperature=round(32 + 1.1 * warmth),
            sm_clock=1_980_000_000 if busy else 345_000_000,
            memory_clock=2_619_000_000,
            used_mib=self._gpu.used_mib,
            nvlink_bytes_per_second=0 if self._gpu.load else round(260e9 * share.dram),
            pcie_sent=40_000 + round(8.4e8 * share.engine),
            pcie_received=60_000 + round(1.9e9 * share.engine),
            xid=past[-1].xid if past else 0,
            xids_in_window=_recent(past, now),
            single_bit_volatile=single_bit,
            single_bit_lifetime=self._single_bit_before + single_bit,
            double_bit_volatile=double_bit,
            double_bit_lifetime=double_bit,
            remapped_rows=rows,
            remap_pending=rows > 0,
        )


def _recent(incidents: list[Incident], now: int) -> dict[int, int]:
    window = XID_WINDOW_SECONDS * MICRO
    return dict(Counter(i.xid for i in incidents if now - microseconds(i.at_seconds) < window))


def serving_work(gpu: Gpu) -> Callable[[int], Activity]:
    """The work of a GPU without a training rank: its servers', by slices in MIG mode, or none."""
    parts: list[tuple[Load, float]] = [
        (instance.load, instance.slices / _SLICES)
        for instance in gpu.instances
        if instance.load is not None
    ]
    if gpu.load is not None:
        parts.append((gpu.load, 1.0))

    def work(now: int) -> Activity:
        return reduce(
            lambda total, part: total.plus(activity.of_load(part[0], now), part[1]), parts, IDLE
        )

    return work


def instance_share(load: Load | None, now: int) -> Activity:
    """How busy a MIG instance was in the last second, as shares of its own engines."""
    if load is None:
        return IDLE
    before = activity.of_load(load, now - _SAMPLING)
    return activity.of_load(load, now).plus(before, -1.0).times(MICRO / _SAMPLING)
