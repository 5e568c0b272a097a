"""One physical GPU: what is known about it, kept over sessions of NVML."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final, TypeVar

from .energy import EnergyCounter
from .fielderrors import Field, FieldErrors
from .library import (
    ECC_SCOPES,
    ECC_TYPES,
    REMAP_STATES,
    DriverLostError,
    GpuLostError,
    NotSupportedError,
    NvmlError,
)
from .power import PowerWindow, plausible_watts
from .throttle import ThrottleClock
from .xids import XidCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .library import Handle, Library

T = TypeVar("T")

STALE_SECONDS: Final = 10.0
"""The age at which a snapshot is no longer shown: a call of NVML hangs."""
_SLOW_SECONDS: Final = 10.0
"""Between readings of what changes seldom: presence, ECC errors, row remaps, MIG."""
_FAILING_SECONDS: Final = 3.0
# Counters up to the lowest sentinel that DCGM's users have met (2^47).
_MAX_COUNT: Final = 2**47
_SENTINEL_COUNTS: Final = range(0x7FFFFFF0, 0x7FFFFFF4)
_MAX_ROWS: Final = 2**16


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one sample said. What is missing was not supported, failed, or is not known yet."""

    at: float
    present: bool | None
    power_fluctuation: float | None = None
    joules: Mapping[str, float] = field(default_factory=dict)
    throttle_seconds: Mapping[str, float] = field(default_factory=dict)
    ecc_errors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    row_remap: Mapping[str, int] = field(default_factory=dict)


class Gpu:
    """Samples one GPU; only one thread at a time may call :meth:`sample`."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.errors = FieldErrors(uuid)
        self.xids = XidCounts()
        self.mig_uuids: tuple[str, ...] = ()
        self._failing_since: float | None = None
        self._proven = False
        self._power = PowerWindow()
        self._energy = EnergyCounter()
        self._throttle = ThrottleClock()
        self._ecc_errors: dict[tuple[str, str], int] = {}
        self._row_remap: dict[str, int] = {}
        self._slow_due = -math.inf
        self._answered = False
        self._snapshot: Snapshot | None = None
        self._came_back: float | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The last sample, None when there is none or when it is too old to be true."""
        snapshot = self._snapshot
        if snapshot is None or time.monotonic() - snapshot.at > STALE_SECONDS:
            return None
        return snapshot

    @property
    def stale(self) -> bool:
        """Whether sampling has not come back for too long: a call hangs."""
        came_back = self._came_back
        return came_back is not None and time.monotonic() - came_back > STALE_SECONDS

    @property
    def lost(self) -> bool:
        """Whether the GPU was there and has vanished."""
        return self._snapshot is not None and self._snapshot.present is False

    @property
    def failing(self) -> bool:
        """Whether every call fails for some time: that says more about the driver than the GPU."""
        since = self._failing_since
        return since is not None and time.monotonic() - since > _FAILING_SECONDS

    @property
    def answering(self) -> bool:
        """Whether NVML says anything of it, if only that it is lost."""
        return self._proven and not self.failing and self.snapshot is not None

    def begin(self) -> None:
        """A session of NVML begins, in which the GPU is there."""
        self._failing_since = None
        self._slow_due = -math.inf
        self._came_back = time.monotonic()

    def vanish(self) -> None:
        """The driver no longer has the GPU."""
        self._snapshot = Snapshot(math.inf, present=False)
        self._came_back = None

    def forget(self) -> None:
        """Nothing is known of the GPU for now; what was counted stays."""
        self._proven = False
        self._snapshot = None
        self._came_back = None

    def take_xid(self, xid: int, when: float) -> None:
        """Count an XID; ``when`` in seconds since the epoch."""
        try:
            self.xids.add(xid, when)
        except ValueError as error:
            self.errors.count("xid", error)

    def sample(self, library: Library, index: int, device: Handle) -> None:
        """Read all fields, each for itself; raises :class:`DriverLostError`."""
        now = time.monotonic()
        slow = now >= self._slow_due
        if self.lost and not slow:
            self._show(Snapshot(now, present=False))
            return
        self._answered = False
        try:
            if slow:
                self._slow_due = now + _SLOW_SECONDS
                self._read("presence", partial(library.gpu, index))
                self._read_slow(library, device)
            snapshot = self._read_fast(library, device)
        except GpuLostError:
            self._answered = True
            snapshot = Snapshot(time.monotonic(), present=False)
        if self._answered:
            self._proven = True
            self._failing_since = None
        else:
            self._slow_due = -math.inf  # the next sample asks for everything
            if slow and self._failing_since is None:
                self._failing_since = now
        self._show(snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._came_back = snapshot.at

    def _read(self, name: Field, call: Callable[[], T]) -> T | None:
        """The answer of ``call``; None when it is not supported, or failed and was counted."""
        try:
            answer = call()
        except NotSupportedError:
            answer = None
        except ValueError as error:
            self.errors.count(name, f"NVML answers with {error}, which cannot be")
            answer = None
        except (GpuLostError, DriverLostError):
            raise
        except NvmlError as error:
            self.errors.count(name, error)
            return None
        self._answered = True
        return answer

    def _read_slow(self, library: Library, device: Handle) -> None:
        self._ecc_errors = {}
        for counter in product(ECC_TYPES, ECC_SCOPES):
            count = self._read("ecc", partial(_ecc_errors, library, device, *counter))
            if count is not None:
                self._ecc_errors[counter] = count
        self._row_remap = self._read("row_remap", partial(_row_remap, library, device)) or {}
        instances = self._read("mig", partial(library.mig_uuids, device))
        if instances is not None:
            self.mig_uuids = instances

    def _read_fast(self, library: Library, device: Handle) -> Snapshot:
        watts = self._read("power", lambda: plausible_watts(library.power_watts(device)))
        if watts is not None:
            self._power.add(time.monotonic(), watts)
        joules = self._read("energy", lambda: self._read_energy(library, device, watts))
        seconds = self._read("throttle", lambda: self._read_throttle(library, device))
        now = time.monotonic()
        return Snapshot(
            now,
            present=True if self._answered else None,
            power_fluctuation=self._power.fluctuation(now),
            joules=joules or {},
            throttle_seconds=seconds or {},
            ecc_errors=self._ecc_errors,
            row_remap=self._row_remap,
        )

    def _read_energy(
        self, library: Library, device: Handle, watts: float | None
    ) -> dict[str, float]:
        try:
            reading = library.energy_joules(device)
        except NotSupportedError:
            if watts is None:
                raise
            self._energy.integrate(time.monotonic(), watts)
        else:
            self._energy.read(time.monotonic(), reading)
        return dict(self._energy.joules)

    def _read_throttle(self, library: Library, device: Handle) -> dict[str, float]:
        self._throttle.add(time.monotonic(), library.clock_limits(device))
        return dict(self._throttle.seconds)


def _ecc_errors(library: Library, device: Handle, kind: str, scope: str) -> int:
    count = library.ecc_errors(device, kind, scope)
    if count >= _MAX_COUNT or count in _SENTINEL_COUNTS:
        raise ValueError(f"{count} {kind} ECC errors")
    return count


def _row_remap(library: Library, device: Handle) -> dict[str, int]:
    rows = dict(zip(REMAP_STATES, library.remapped_rows(device), strict=True))
    if max(rows.values()) > _MAX_ROWS or rows["pending"] > 1 or rows["failure"] > 1:
        raise ValueError(f"remapped rows of {rows}")
    return rows
