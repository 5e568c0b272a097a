"""How far a step moves the weights, from a sample of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_ELEMENTS_PER_PARAMETER: Final = 4096


class UpdateSize:
    """‖Δw‖² and ‖w‖² of one step.

    Takes every element of small parameters and an even sample of large ones, each weighed by what it
    stands for, because a second copy of all weights may not fit beside the model.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        """Remember the weights as they are before the step."""
        self._parameters = parameters
        self._before = self._sample()

    def _sample(self) -> torch.Tensor:
        parts = []
        for parameter in self._parameters:
            flat = parameter.detach().reshape(-1)
            stride = -(-flat.numel() // _ELEMENTS_PER_PARAMETER) or 1
            part = flat[::stride].to(self._parameters[0].device, torch.float32)
            parts.append(part * (flat.numel() / max(part.numel(), 1)) ** 0.5)
        return torch.cat(parts)

    def squares(self) -> torch.Tensor:
        """After the step: ‖Δw‖² and ‖w‖², two float32 on the first parameter's device."""
        after = self._sample()
        return torch.stack(((after - self._before).square().sum(), after.square().sum()))
