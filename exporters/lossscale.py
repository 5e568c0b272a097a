"""The loss scale of automatic mixed precision, and the steps that it skipped."""

from __future__ import annotations

import math
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import torch

from .devicecopy import DeviceCopy
from .layout import SLOT

if TYPE_CHECKING:
    from .recorder import Recorder

_SCALE: Final = SLOT["actuary_loss_scale"]
_NONFINITE: Final = SLOT["actuary_nonfinite_steps_total/gradient"]
_READ_EVERY_SECONDS: Final = 0.1


class LossScale:
    """Follows a ``torch.amp.GradScaler``.

    A step whose gradients overflow is skipped by the scaler, so no hook of the optimizer sees it;
    it shows in the scale, which is multiplied by the backoff factor.
    """

    def __init__(self, scaler: Any, recorder: Recorder) -> None:
        """Raises ``AttributeError`` when ``scaler`` has no scale."""
        self._scaler = scaler
        self._recorder = recorder
        self._copy = DeviceCopy()
        self._last = float(scaler.get_scale())  # waits for the device, this once
        self._read_at = 0.0
        recorder.add({_NONFINITE: 0.0})

    @property
    def tensor(self) -> torch.Tensor | None:
        """The scale on its device; None before its first use and where scaling is off."""
        # The public get_scale() would wait for the device.
        scale = getattr(self._scaler, "_scale", None)
        return scale if isinstance(scale, torch.Tensor) else None

    def look(self) -> None:
        """Report the scale, at most every tenth of a second."""
        now = monotonic()
        if now < self._read_at:
            return
        self._read_at = now + _READ_EVERY_SECONDS
        self._read()

    def finish(self) -> None:
        """Report what is known at the end of a loop."""
        self._read()

    def _read(self) -> None:
        scale = self.tensor
        if scale is not None and not self._copy.in_flight:
            self._copy.send(scale.detach().reshape(1))
        arrived = self._copy.arrived()
        if arrived is None:
            return
        before, self._last = self._last, arrived[0]
        if 0 < self._last < before:
            backoff = math.log(before / self._last) / -math.log(self._scaler.get_backoff_factor())
            overflows = max(round(backoff), 1)
            self._recorder.add({_NONFINITE: float(overflows)})
            for _ in range(overflows):
                self._recorder.observe_gradient(math.inf)
        self._recorder.set(_SCALE, self._last)
