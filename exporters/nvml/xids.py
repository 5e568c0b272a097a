"""XIDs, the driver's numbered error events: waiting for them and counting every one."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from .library import (
    CallFailedError,
    DriverLostError,
    GpuLostError,
    NothingYetError,
    NotSupportedError,
    NvmlError,
    address,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .fielderrors import FieldErrors
    from .gpu import Gpu
    from .library import EventSet, Handle, Library

MAX_CODES: Final = 7
"""Codes of one GPU that get series of their own; all further ones share :data:`OTHER`."""
OTHER: Final = "other"
_MAX_XID: Final = 999
_WAIT_MILLISECONDS: Final = 250
"""A short wait, because a session that is renewed has to wait for it."""
_PAUSE_SECONDS: Final = 1.0


class XidCounts:
    """The XIDs of one GPU since the sidecar began to look. Safe for use by many threads."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._last: float | None = None
        self._lock = threading.Lock()

    def add(self, xid: int, when: float) -> None:
        """Count one; ``when`` in seconds since the epoch. Raises ``ValueError`` for a non-code."""
        if not 0 < xid <= _MAX_XID:
            raise ValueError(f"an XID of {xid}")
        code = str(xid)
        with self._lock:
            if code not in self._counts and len(self._counts) >= MAX_CODES:
                code = OTHER
            self._counts[code] = self._counts.get(code, 0) + 1
            self._last = when

    def view(self) -> tuple[dict[str, int], float | None]:
        """How often each code came, and when the last one came."""
        with self._lock:
            return dict(self._counts), self._last


class XidWatch:
    """Waits for the XIDs of a session's GPUs."""

    def __init__(
        self, library: Library, gpus: Iterable[tuple[Gpu, Handle]], errors: FieldErrors
    ) -> None:
        self._library = library
        self._gpus = list(gpus)
        self._errors = errors
        self.seen = time.monotonic()
        """When the watch last came back from NVML; ``inf`` when there is nothing to wait for."""

    def run(self, stop: threading.Event) -> None:
        """Count until ``stop``; raises :class:`DriverLostError`."""
        try:
            events = self._library.event_set()
        except NotSupportedError:
            self.seen = float("inf")
            return
        except (CallFailedError, GpuLostError) as error:
            self._errors.count("xid", error)
            self.seen = float("inf")
            return
        try:
            self._wait(events, stop)
        finally:
            with contextlib.suppress(NvmlError):
                self._library.free(events)

    def _wait(self, events: EventSet, stop: threading.Event) -> None:
        watched = dict(self._register(events))
        while watched and not stop.is_set():
            self.seen = time.monotonic()
            try:
                device, xid = self._library.next_xid(events, _WAIT_MILLISECONDS)
            except NothingYetError:
                continue
            except DriverLostError:
                raise
            except NvmlError as error:
                # Some drivers answer so at once, and for ever, when any of the GPUs is lost.
                self._errors.count("xid", error)
                stop.wait(_PAUSE_SECONDS)
                continue
            gpu = watched.get(device)
            if gpu is None:
                self._errors.count("xid", f"XID {xid} came from an unknown device")
            else:
                gpu.take_xid(xid, time.time())
        self.seen = float("inf")

    def _register(self, events: EventSet) -> Iterable[tuple[int, Gpu]]:
        for gpu, device in self._gpus:
            try:
                self._library.watch_xids(device, events)
            except (NotSupportedError, GpuLostError):
                continue
            except DriverLostError:
                raise
            except NvmlError as error:
                gpu.errors.count("xid", error)
                continue
            yield address(device), gpu
