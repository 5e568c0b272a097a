"""NVML while it is initialised: a thread for each GPU, so that one that hangs hides no other."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from .gpu import STALE_SECONDS, Gpu
from .library import DriverLostError, GpuLostError, NvmlError
from .xids import XidWatch

if TYPE_CHECKING:
    from .fielderrors import FieldErrors
    from .library import Handle, Library

SAMPLE_SECONDS: Final = 0.5
"""Between samples of a GPU: twice as often as promised, so that a late one does no harm."""
_RECOUNT_SECONDS: Final = 5.0
_JOIN_SECONDS: Final = 3.0


class Session:
    """Samples the GPUs of the node from its construction to :meth:`close`."""

    def __init__(self, library: Library, known: dict[str, Gpu], errors: FieldErrors) -> None:
        """Initialise NVML and start; adds new GPUs to ``known``. Raises :class:`NvmlError`."""
        self._library = library
        self._errors = errors
        self._stop = threading.Event()
        self._failure: str | None = None
        self.incomplete = False
        """Whether a GPU is missing, or one is there that could not be asked for its name."""
        self._opened = self._recounted = time.monotonic()
        library.open()
        try:
            self._count = library.count()
            found = self._enumerate(known)
        except NvmlError:
            library.close()
            raise
        self.gpus = [gpu for _, gpu, _ in found]
        self._xids = XidWatch(library, ((gpu, device) for _, gpu, device in found), errors)
        self._threads = [
            threading.Thread(target=self._sample, args=place, name=f"nvml {place[1].uuid}")
            for place in found
        ]
        self._threads.append(threading.Thread(target=self._watch_xids, name="nvml xids"))
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def _enumerate(self, known: dict[str, Gpu]) -> list[tuple[int, Gpu, Handle]]:
        found: dict[str, tuple[int, Gpu, Handle]] = {}
        unnamed = False
        for index in range(self._count):
            try:
                device = self._library.gpu(index)
                uuid = self._library.uuid(device)
            except DriverLostError:
                raise
            except GpuLostError:
                self.incomplete = True
                continue
            except NvmlError as error:
                self._errors.count("identity", error)
                self.incomplete = unnamed = True
                continue
            if uuid in found:
                self._errors.count("identity", f"GPU {index} has the UUID {uuid} of another GPU")
                continue
            gpu = known.setdefault(uuid, Gpu(uuid))
            gpu.begin()
            found[uuid] = (index, gpu, device)
        for uuid, gpu in known.items():
            if uuid not in found:
                # Only who could ask every GPU for its name knows which one is not there.
                self.incomplete = True
                gpu.forget() if unnamed else gpu.vanish()
        return list(found.values())

    def _sample(self, index: int, gpu: Gpu, device: Handle) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                gpu.sample(self._library, index, device)
            except DriverLostError as error:
                self._failure = str(error)
                return
            due = max(due + SAMPLE_SECONDS, time.monotonic())
            self._stop.wait(due - time.monotonic())

    def _watch_xids(self) -> None:
        try:
            self._xids.run(self._stop)
        except DriverLostError as error:
            self._failure = str(error)

    def failure(self) -> str | None:
        """Why the session is dead; None while it is not."""
        if self._failure is None and self.gpus and all(gpu.failing for gpu in self.gpus):
            return "every call of every GPU fails"
        return self._failure

    @property
    def working(self) -> bool:
        """Whether a GPU has answered, or there is none that could."""
        return not self.gpus or any(gpu.answering for gpu in self.gpus)

    @property
    def xids_hang(self) -> bool:
        """Whether the wait for XIDs does not come back."""
        return time.monotonic() - self._xids.seen > STALE_SECONDS

    @property
    def hangs(self) -> bool:
        """Whether any call does not come back, so that the session cannot be closed."""
        return self.xids_hang or any(gpu.stale for gpu in self.gpus)

    def recounts(self) -> bool:
        """Whether the driver now has another number of GPUs; asks it now and then only."""
        if time.monotonic() - self._recounted < _RECOUNT_SECONDS:
            return False
        self._recounted = time.monotonic()
        try:
            return self._library.count() != self._count
        except DriverLostError as error:
            self._failure = str(error)
        except NvmlError as error:
            self._errors.count("identity", error)
        return False

    def close(self) -> bool:
        """End the threads and NVML; False (call again later) while a call hangs."""
        self._stop.set()
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._library.close()
        return True
