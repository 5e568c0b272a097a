"""Reading the loss from its tensor without ever waiting for a device."""

from __future__ import annotations

import torch


class LossReader:
    """Collects the losses of one step and hands out their value once it is known.

    A loss on the CPU is known at once. One on a CUDA device is summed there and copied to pinned
    memory without blocking; its value is handed out at a later step, when the copy has happened.
    Losses on other devices are left out, because reading them would wait for the device.
    """

    def __init__(self) -> None:
        self._on_host = 0.0
        self._on_device: torch.Tensor | None = None
        self._count = 0
        self._pinned: torch.Tensor | None = None
        self._copied: torch.cuda.Event | None = None
        self._in_flight = False

    def add(self, loss: torch.Tensor | float) -> None:
        """Add a scalar loss; a tensor with more than one element is ignored."""
        if not isinstance(loss, torch.Tensor):
            self._on_host += float(loss)
        elif loss.numel() != 1:
            return
        elif loss.is_cpu:  # unlike loss.device, this makes no object
            self._on_host += loss.item()
        elif loss.is_cuda:
            detached = loss.detach().reshape(()).float()
            self._on_device = detached if self._on_device is None else self._on_device + detached
        else:
            return
        self._count += 1

    def end_step(self, batches: int) -> float | None:
        """The mean loss per batch of the latest step whose value is known, once per step."""
        count, self._count = self._count, 0
        if count == 0:
            return self._arrived()
        divisor = batches or count
        host, self._on_host = self._on_host, 0.0
        device, self._on_device = self._on_device, None
        if device is None:
            return host / divisor
        value = self._arrived()
        if not self._in_flight:
            self._send((device + host) / divisor)
        return value

    def _send(self, value: torch.Tensor) -> None:
        if self._pinned is None:
            self._pinned = torch.empty((), dtype=torch.float32, pin_memory=True)
            self._copied = torch.cuda.Event()
        self._pinned.copy_(value, non_blocking=True)
        assert self._copied is not None
        self._copied.record(torch.cuda.current_stream(value.device))
        self._in_flight = True

    def _arrived(self) -> float | None:
        if not self._in_flight or self._copied is None or self._pinned is None:
            return None
        if not self._copied.query():
            return None
        self._in_flight = False
        return float(self._pinned)
