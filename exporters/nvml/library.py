"""The calls of NVML that the sidecar makes, in base units, with errors sorted by what they mean."""

from __future__ import annotations

import ctypes
import importlib
from typing import TYPE_CHECKING, Any, Final, NewType

if TYPE_CHECKING:
    from collections.abc import Iterator

Handle = NewType("Handle", object)
"""NVML's own reference to a device, valid within one session."""
EventSet = NewType("EventSet", object)

ECC_TYPES: Final = ("corrected", "uncorrected")
ECC_SCOPES: Final = ("volatile", "aggregate")
REMAP_STATES: Final = ("correctable", "uncorrectable", "pending", "failure")


class NvmlError(Exception):
    """Base of the errors of NVML; the text names the call and what NVML said."""


class NotSupportedError(NvmlError):
    """This GPU or this driver does not have it: nothing is wrong."""


class NotFoundError(NvmlError):
    """There is no such thing."""


class NothingYetError(NvmlError):
    """The wait for an event ended without one."""


class GpuLostError(NvmlError):
    """The GPU has fallen off the bus or is otherwise out of reach."""


class DriverLostError(NvmlError):
    """There is no library or no driver, or the driver left this session behind."""


class CallFailedError(NvmlError):
    """The call failed, and no other class says why."""


# The codes are NVML's stable interface; not every nvidia-ml-py has a name for each of them.
_ERRORS: Final[dict[int, type[NvmlError]]] = {
    1: DriverLostError,  # uninitialized
    3: NotSupportedError,
    6: NotFoundError,
    9: DriverLostError,  # driver not loaded
    10: NothingYetError,  # timeout
    12: DriverLostError,  # library not found
    13: NotSupportedError,  # function not found: the driver is older than the call
    15: GpuLostError,
    18: DriverLostError,  # the library is of another version than the driver
    22: NotSupportedError,  # ECC of a virtual GPU
    28: GpuLostError,  # GPU not found
}
_HINTS: Final = {18: " (after a replacement of the driver, restart the sidecar)"}
_XID_EVENT: Final = 0x8


class Library:
    """NVML through nvidia-ml-py; every method raises :class:`NvmlError` and nothing else.

    Raises ``ImportError`` when nvidia-ml-py is not installed. Thread-safe as NVML itself is, except
    that :meth:`close` must not run beside another call.
    """

    def __init__(self) -> None:
        self._nvml: Any = importlib.import_module("pynvml")  # ships no types

    def _call(self, name: str, *arguments: object) -> Any:
        function = getattr(self._nvml, name, None)
        if function is None:
            raise NotSupportedError(f"{name}: this version of nvidia-ml-py does not have it")
        try:
            return function(*arguments)
        except self._nvml.NVMLError as error:
            kind = _ERRORS.get(error.value, CallFailedError)
            raise kind(f"{name}: {error}{_HINTS.get(error.value, '')}") from error
        except UnicodeDecodeError as error:
            raise CallFailedError(f"{name}: the answer is not text") from error

    def open(self) -> None:
        """Begin a session; each needs its :meth:`close`."""
        self._call("nvmlInit")

    def close(self) -> None:
        """End the session, whatever its state."""
        try:
            self._call("nvmlShutdown")
        except NvmlError:
            return  # the driver has already gone, and the session with it

    def count(self) -> int:
        """How many physical GPUs the session sees."""
        return int(self._call("nvmlDeviceGetCount"))

    def gpu(self, index: int) -> Handle:
        """The physical GPU number ``index``."""
        return Handle(self._call("nvmlDeviceGetHandleByIndex", index))

    def uuid(self, device: Handle) -> str:
        """The UUID as DCGM and CUDA write it, never empty."""
        uuid = str(self._call("nvmlDeviceGetUUID", device))
        if not uuid:
            raise CallFailedError("nvmlDeviceGetUUID: the answer is empty")
        return uuid

    def power_watts(self, device: Handle) -> float:
        """Power of the board: the mean of the last second on most GPUs since Ampere."""
        return float(self._call("nvmlDeviceGetPowerUsage", device)) / 1000

    def energy_joules(self, device: Handle) -> float:
        """Energy since the driver was loaded."""
        return float(self._call("nvmlDeviceGetTotalEnergyConsumption", device)) / 1000

    def clock_limits(self, device: Handle) -> int:
        """Bit mask of what holds the clocks down now."""
        try:
            return int(self._call("nvmlDeviceGetCurrentClocksEventReasons", device))
        except NotSupportedError:  # drivers before 535 know it by its former name
            return int(self._call("nvmlDeviceGetCurrentClocksThrottleReasons", device))

    def ecc_errors(self, device: Handle, kind: str, scope: str) -> int:
        """Memory errors of a type (:data:`ECC_TYPES`) in a counter (:data:`ECC_SCOPES`)."""
        numbers = ECC_TYPES.index(kind), ECC_SCOPES.index(scope)
        return int(self._call("nvmlDeviceGetTotalEccErrors", device, *numbers))

    def remapped_rows(self, device: Handle) -> tuple[int, ...]:
        """One number for each of :data:`REMAP_STATES`; the last two are 0 or 1."""
        return tuple(int(number) for number in self._call("nvmlDeviceGetRemappedRows", device))

    def mig_uuids(self, device: Handle) -> tuple[str, ...]:
        """UUIDs of the GPU's MIG instances; none while MIG is off."""
        current, _ = self._call("nvmlDeviceGetMigMode", device)
        return tuple(self._instances(device)) if current else ()

    def _instances(self, device: Handle) -> Iterator[str]:
        for index in range(self._call("nvmlDeviceGetMaxMigDeviceCount", device)):
            try:
                instance = self._call("nvmlDeviceGetMigDeviceHandleByIndex", device, index)
            except NotFoundError:
                continue
            yield self.uuid(Handle(instance))

    def event_set(self) -> EventSet:
        """An empty set of devices whose events :meth:`next_xid` waits for."""
        return EventSet(self._call("nvmlEventSetCreate"))

    def watch_xids(self, device: Handle, events: EventSet) -> None:
        """Add the XIDs of a GPU to the set."""
        self._call("nvmlDeviceRegisterEvents", device, _XID_EVENT, events)

    def next_xid(self, events: EventSet, milliseconds: int) -> tuple[int, int]:
        """:func:`address` of a device, and its XID; :class:`NothingYetError` when there is none."""
        event = self._call("nvmlEventSetWait_v2", events, milliseconds)
        if event.eventType != _XID_EVENT:
            raise NothingYetError(f"nvmlEventSetWait_v2: event of type {event.eventType}")
        return address(Handle(event.device)), int(event.eventData)

    def free(self, events: EventSet) -> None:
        """Give the set back."""
        self._call("nvmlEventSetFree", events)


def address(device: Handle) -> int:
    """What identifies the device of an event within a session, without asking a lost GPU."""
    return ctypes.cast(device, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # a pointer
