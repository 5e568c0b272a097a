"""Keeping a session of NVML open whatever the driver does, and what it says now."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from .fielderrors import FieldErrors
from .gpu import STALE_SECONDS
from .library import Library, NvmlError
from .session import Session

if TYPE_CHECKING:
    from .gpu import Gpu

log = logging.getLogger("gpu_actuary")

_LOOK_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0
"""A session that dies earlier lengthens the pause, so that the log of a sick driver stays short."""
_LONGEST_RENEWAL_SECONDS: Final = 60.0


class _Pause:
    """Seconds to wait before the next try: twice as long after each, up to ``longest``."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest = self._next = shortest
        self._longest = longest

    @property
    def seconds(self) -> float:
        return self._next

    def lengthen(self) -> None:
        self._next = min(self._longest, self._next * 2)

    def reset(self) -> None:
        self._next = self._shortest


class NvmlMonitor:
    """The GPUs of this node. Everything but :meth:`start` answers at once, from memory."""

    def __init__(self) -> None:
        self.errors = FieldErrors("")
        self._gpus: dict[str, Gpu] = {}
        self._session: Session | None = None
        self._alive = time.monotonic()
        self._said: str | None = None
        self._retry = _Pause(1.0, _LONGEST_RETRY_SECONDS)
        self._renewal = _Pause(2.0, _LONGEST_RENEWAL_SECONDS)

    def start(self) -> None:
        """Begin, in threads that end with the process."""
        threading.Thread(target=self._run, name="nvml", daemon=True).start()

    @property
    def up(self) -> bool:
        """Whether NVML answers."""
        session, silent = self._session, time.monotonic() - self._alive
        return session is not None and session.working and silent < STALE_SECONDS

    def gpus(self) -> list[Gpu]:
        """Every GPU that was seen since the start, in the order of their UUIDs."""
        return [gpu for _, gpu in sorted(self._gpus.copy().items())]

    def count_what_hangs(self) -> None:
        """To be called by each scrape: counts the answers that it should have got and does not."""
        for gpu in self.gpus():
            if gpu.stale:
                gpu.errors.count("snapshot", "a call does not return; its values are withheld")
        session = self._session
        if session is not None and session.xids_hang:
            self.errors.count("xid", "the wait for events does not return")

    def presence(self) -> dict[str, bool]:
        """Which GPUs are there, and which were and have vanished, as far as it is known."""
        known = {}
        for gpu in self.gpus():
            snapshot = gpu.snapshot
            if snapshot is not None and snapshot.present is not None:
                known[gpu.uuid] = snapshot.present
        return known

    def physical(self, uuid: str) -> str:
        """The UUID of the GPU that ``uuid`` is a MIG instance of; else ``uuid`` itself."""
        _, _, number = uuid.partition("-")
        for gpu in self.gpus():
            # CUDA names an instance by its number alone, which a caller may have prefixed.
            if any(number == instance.partition("-")[2] for instance in gpu.mig_uuids):
                return gpu.uuid
        return uuid

    def _run(self) -> None:
        try:
            library = Library()
        except ImportError as error:
            log.warning(
                "No GPU data from NVML: %s. Install it with: pip install 'gpu-actuary[exporter]'",
                error,
            )
            return
        while True:
            self._alive = time.monotonic()
            try:
                session = Session(library, self._gpus, self.errors)
            except NvmlError as error:
                self._lose(str(error))
                self._wait_to_retry()
                continue
            self._session = session
            why = self._follow(session)
            if why is None:
                self._close(session)
                continue
            self._lose(why)
            self._close(session)
            self._forget()  # once more: a thread may have added a last sample
            self._wait_to_retry()

    def _follow(self, session: Session) -> str | None:
        """Returns why the session is dead; None when it only has to be renewed."""
        opened = time.monotonic()
        while True:
            self._alive = time.monotonic()
            changed = session.recounts()
            why = session.failure()
            if why is not None:
                return why
            if session.working:
                self._gain(len(session.gpus))
            if time.monotonic() - opened > _STEADY_SECONDS:
                self._retry.reset()
            incomplete = session.incomplete or any(gpu.lost for gpu in session.gpus)
            if not incomplete:
                self._renewal.reset()
            # Within a session a lost GPU stays lost, and a new one is not seen.
            due = incomplete and time.monotonic() - opened > self._renewal.seconds
            if (changed or due) and not session.hangs:
                self._renewal.lengthen()
                return None
            time.sleep(_LOOK_SECONDS)

    def _close(self, session: Session) -> None:
        while not session.close():
            self._lose("a call does not return, so that NVML cannot be started again")
            self._alive = time.monotonic()
            time.sleep(_LOOK_SECONDS)

    def _gain(self, count: int) -> None:
        if self._said is not None:
            log.warning("NVML answers now. GPUs: %d.", count)
            self._said = None

    def _lose(self, why: str) -> None:
        self._forget()
        self._session = None
        self._say(why)

    def _forget(self) -> None:
        for gpu in self.gpus():
            gpu.forget()

    def _say(self, why: str) -> None:
        _, _, reason = why.rpartition(": ")  # which call met it first makes no difference
        if reason != self._said:
            self._said = reason
            log.warning(
                "No GPU data from NVML: %s. Training metrics are served all the same, and NVML is "
                "tried again at least every %.0f s. Without NVIDIA GPUs: --no-nvml.",
                why,
                _LONGEST_RETRY_SECONDS,
            )

    def _wait_to_retry(self) -> None:
        until = time.monotonic() + self._retry.seconds
        self._retry.lengthen()
        while time.monotonic() < until:
            self._alive = time.monotonic()
            time.sleep(_LOOK_SECONDS)
