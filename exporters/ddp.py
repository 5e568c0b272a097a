"""Exposed communication of DistributedDataParallel, without a communication hook.

DDP reduces gradients while the backward pass still computes; only what is left after the last
gradient is ready makes the step wait. The monitor learns which parameter's gradient that is, keeps
one hook on it, and takes the time until DDP has finished the pass.

The end is seen through the autograd engine's final callbacks, which run in the order in which they
were queued. DDP queues its own when the last bucket is ready, after our hook has queued ours;
therefore ours queues itself once more and so runs behind DDP's, which waits for the reductions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.hooks import RemovableHandle

    from .recorder import Recorder

_LEARNING_PASSES: Final = 3
_PASSES_BETWEEN_CHECKS: Final = 500

# The engine has no public name in torch; DDP and FSDP themselves use this one.
_engine: Any = torch.autograd.Variable._execution_engine


class ExposedCommunication:
    """Reports to ``recorder`` when the gradients of ``model`` are ready and when they are reduced.

    ``guard`` wraps what autograd calls, so that no error of ours reaches the backward pass.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        recorder: Recorder,
        guard: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._recorder = recorder
        self._ready = guard(self._gradient_ready)
        self._after_pass = guard(self._queue_behind_ddp)
        self._done = guard(self._pass_is_done)
        self._hooks: dict[int, RemovableHandle] = {}
        self._candidates: set[int] = set()
        self._last = -1
        self._queued = False
        self._passes_left = _LEARNING_PASSES
        self._learning = True
        self._hook(range(len(self._parameters)))
        recorder.measure_communication()

    def _hook(self, wanted: range | set[int]) -> None:
        for index in set(self._hooks) - set(wanted):
            self._hooks.pop(index).remove()
        for index in set(wanted) - set(self._hooks):
            parameter = self._parameters[index]
            self._hooks[index] = parameter.register_post_accumulate_grad_hook(
                partial(self._ready, index)
            )

    def begin_pass(self) -> None:
        """A backward pass begins; one before it may have ended by an exception."""
        self._queued = False

    def end_step(self) -> None:
        """Between backward pass and optimizer, where hooks may be changed."""
        self._queued = False
        if self._passes_left > 0:
            return
        self._learning = not self._learning
        if self._learning:
            self._passes_left = 1
            self._hook(range(len(self._parameters)))
        else:
            self._passes_left = _PASSES_BETWEEN_CHECKS
            self._hook(self._candidates)

    def detach(self) -> None:
        """Remove all hooks."""
        self._hook(set())

    def _gradient_ready(self, index: int, _parameter: torch.Tensor) -> None:
        self._recorder.gradient_ready()
        self._last = index
        if not self._queued:
            self._queued = True
            _engine.queue_callback(self._after_pass)

    def _queue_behind_ddp(self) -> None:
        _engine.queue_callback(self._done)

    def _pass_is_done(self) -> None:
        self._recorder.communication_done()
        self._queued = False
        self._passes_left -= 1
        if self._learning:
            self._candidates.add(self._last)
