"""Reading the loss from its tensor without ever waiting for a device."""

from __future__ import annotations

import torch

from .devicecopy import DeviceCopy


class LossReader:
    """Collects the losses of one step and hands out their value once it is known.

    A loss on the CPU is known at once. One on a CUDA device is summed there and handed out at a
    later step, when its copy has arrived. Losses on other devices are left out.
    """

    def __init__(self) -> None:
        self._on_host = 0.0
        self._on_device: torch.Tensor | None = None
        self._count = 0
        self._copy = DeviceCopy()

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
        if not self._copy.in_flight:
            self._copy.send(((device + host) / divisor).reshape(1))
        return value

    def _arrived(self) -> float | None:
        numbers = self._copy.arrived()
        return None if numbers is None else numbers[0]
