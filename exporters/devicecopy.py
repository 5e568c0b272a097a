"""Reading numbers from a device without ever waiting for it."""

from __future__ import annotations

import torch


class DeviceCopy:
    """Brings a short tensor to the host, one at a time.

    From the CPU its numbers are there at once. From a CUDA device they are copied to pinned memory
    without blocking and are there once the copy has happened. Other devices are not read, because
    that would wait for them.
    """

    def __init__(self) -> None:
        self._numbers: list[float] | None = None
        self._pinned: torch.Tensor | None = None
        self._copied: torch.cuda.Event | None = None

    @property
    def in_flight(self) -> bool:
        """Whether something was sent that :meth:`arrived` has not handed out yet."""
        return self._numbers is not None or self._copied is not None

    def send(self, numbers: torch.Tensor) -> None:
        """Send a float32 vector, always of the same length; only while nothing is in flight."""
        if numbers.is_cpu:
            self._numbers = numbers.tolist()
        elif numbers.is_cuda:
            if self._pinned is None:
                self._pinned = torch.empty(numbers.shape, dtype=torch.float32, pin_memory=True)
            self._pinned.copy_(numbers, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record(torch.cuda.current_stream(numbers.device))

    def arrived(self) -> list[float] | None:
        """The numbers that were sent, once; None while they are under way or when there are none."""
        if self._copied is not None and self._pinned is not None and self._copied.query():
            self._copied = None
            self._numbers = self._pinned.tolist()
        numbers, self._numbers = self._numbers, None
        return numbers
