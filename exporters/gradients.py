"""Gradient norm, gradient noise and update size, measured in some of the steps.

A gradient is read twice. In the first backward pass of a step a hook behind each parameter sees it
before DDP reduces it (DDP's own hook runs after ours, and divides the gradient in place where it is
a view of a bucket): that is the gradient of one micro-batch of one rank. At the end of the step's
last pass, behind DDP's final callback, it is that of the whole batch, not clipped yet. Nothing is
communicated, and no device is waited for.

Only the number of passes tells that a pass is the last one. It is counted in the step before, and
a measurement whose step turns out to be different is dropped.
"""

from __future__ import annotations

import logging
from math import inf, isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.parallel import DistributedDataParallel

from .devicecopy import DeviceCopy
from .layout import SLOT
from .noisescale import NoiseScale
from .sampling import Sampling
from .weights import UpdateSize

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.utils.hooks import RemovableHandle

    from .lossscale import LossScale
    from .recorder import Recorder

log = logging.getLogger("gpu_actuary")

_NORM: Final = SLOT["actuary_gradient_norm"]
_VARIANCE: Final = SLOT["actuary_gradient_variance"]
_SIGNAL: Final = SLOT["actuary_gradient_squared_norm"]
_NOISE_SCALE: Final = SLOT["actuary_gradient_noise_scale"]
_UPDATE: Final = SLOT["actuary_update_ratio"]
_NONFINITE: Final = SLOT["actuary_nonfinite_steps_total/gradient"]

_engine: Any = torch.autograd.Variable._execution_engine


class GradientStatistics:
    """Measures ``optimizer``'s parameters in some steps and reports to ``recorder``.

    ``samples`` says how many samples the step in progress has taken in so far, 0 when unknown;
    ``guard`` wraps what autograd calls, so that no error of ours reaches the backward pass.
    """

    def __init__(
        self,
        recorder: Recorder,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_scale: LossScale | None,
        samples: Callable[[], int],
        guard: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self._recorder = recorder
        self._optimizer = optimizer
        self._loss_scale = loss_scale
        self._samples = samples
        ddp = getattr(model, "_orig_mod", model)
        self._ranks = 1
        if isinstance(ddp, DistributedDataParallel):
            self._ranks = torch.distributed.get_world_size(ddp.process_group)
        self._gradient_ready = guard(self._add_to_local)
        self._computed = guard(self._queue_behind_ddp)
        self._reduced = guard(self._pass_is_done)
        self._noise = NoiseScale()
        self._sampling = Sampling()
        self._copy = DeviceCopy()
        self._batch_sizes = (0.0, 0.0)
        self._usual_passes = 0
        self._hooks: list[RemovableHandle] = []
        self._watching = self._measuring = False
        self._obstacle = _sharding(model)
        self._stopped = False
        self._begin_step()
        recorder.add({_NONFINITE: 0.0})

    def detach(self) -> None:
        """Remove all hooks and measure no more."""
        self._remove_hooks()
        self._watching = self._measuring = False
        self._stopped = True

    def _remove_hooks(self) -> None:
        for handle in self._hooks:
            handle.remove()
        self._hooks.clear()

    # -- a step ----------------------------------------------------------------------------------

    def _begin_step(self) -> None:
        self._passes = 0
        self._in_pass = False
        self._cost = 0.0
        self._local: list[torch.Tensor] = []
        self._first_samples = 0
        self._whole: torch.Tensor | None = None
        self._scale: torch.Tensor | None = None
        self._update: UpdateSize | None = None

    def pass_begins(self) -> None:
        """The first gradients of a backward pass come; may be called several times in it."""
        if self._watching and not self._in_pass:
            self._in_pass = True
            _engine.queue_callback(self._computed)

    def before_optimizer(self) -> None:
        """The gradients are complete, perhaps clipped; the weights are still the old ones."""
        if self._measuring and self._whole is not None and self._passes == self._usual_passes:
            began = monotonic()
            self._update = UpdateSize(self._parameters)
            self._cost += monotonic() - began

    def after_optimizer(self) -> None:
        """The optimizer has stepped."""
        if self._stopped:
            return
        if self._obstacle:
            log.warning("There are no gradient statistics: %s.", self._obstacle)
            self.detach()
            return
        if self._watching:
            began = monotonic()
            self._finish_watched_step()
            ended = monotonic()
            self._cost += ended - began
            if self._measuring:
                self._sampling.measured(self._cost, ended)
        if self._copy.in_flight:
            self._report()
        self._sampling.step_ended()
        ahead = self._sampling.steps_to_next()
        was_measuring, self._measuring = self._measuring, ahead == 0
        self._watching = ahead <= 1
        if self._measuring or was_measuring:
            self._begin_step()
        if self._measuring:
            self._begin_measuring()

    def _finish_watched_step(self) -> None:
        if not self._measuring:
            self._usual_passes = self._passes
            self._passes = 0
            self._in_pass = False
            return
        self._remove_hooks()
        if self._update is not None and self._whole is not None and not self._copy.in_flight:
            self._send(self._update.squares(), self._whole)

    def _begin_measuring(self) -> None:
        began = monotonic()
        self._parameters = [
            parameter
            for group in self._optimizer.param_groups
            for parameter in group["params"]
            if parameter.requires_grad
        ]
        if self._ranks > 1 or self._usual_passes > 1:
            self._hooks += [
                parameter.register_post_accumulate_grad_hook(self._gradient_ready)
                for parameter in self._parameters
            ]
        self._cost += monotonic() - began

    # -- inside the backward pass ----------------------------------------------------------------

    def _add_to_local(self, parameter: torch.Tensor) -> None:
        if self._passes == 0 and parameter.grad is not None:
            began = monotonic()
            if self._is_readable(parameter.grad):
                self._local.append(_norm(parameter.grad))
            self._cost += monotonic() - began

    def _is_readable(self, gradient: torch.Tensor) -> bool:
        if gradient.layout != torch.strided or gradient.is_complex():
            # Said after the step: hooks must not be removed from within one.
            self._obstacle = "a gradient is sparse or complex"
        return not self._obstacle

    def _queue_behind_ddp(self) -> None:
        _engine.queue_callback(self._reduced)

    def _pass_is_done(self) -> None:
        self._in_pass = False
        self._passes += 1
        if not self._measuring:
            return
        self._recorder.communication_done()
        began = monotonic()
        if self._passes == 1:
            self._first_samples = self._samples()
        if self._passes == self._usual_passes:
            gradients = [p.grad for p in self._parameters if p.grad is not None]
            if gradients and all(map(self._is_readable, gradients)):
                self._whole = _total([_norm(gradient) for gradient in gradients])
                if self._loss_scale is not None and self._loss_scale.tensor is not None:
                    self._scale = self._loss_scale.tensor.clone()
        self._cost += monotonic() - began

    # -- results ---------------------------------------------------------------------------------

    def _send(self, update: torch.Tensor, whole: torch.Tensor) -> None:
        """Squared norms of micro-batch, whole batch, update and weights, on the device."""
        small, large = float(self._first_samples), float(self._samples())
        even = small > 0 and small * self._passes == large
        self._batch_sizes = (small, large * self._ranks) if even and self._local else (0.0, 0.0)
        local = _total(self._local) if self._local else torch.zeros_like(whole)
        norms = torch.stack((local.to(whole.device), whole))
        if self._scale is not None:
            norms = norms / self._scale.to(whole.device)
        # The gradients of the passes are summed: what one of them would be as a whole batch.
        norms = norms * norms.new_tensor((float(self._passes), 1.0))
        self._copy.send(torch.cat((norms, update.to(whole.device))))
        self._report()

    def _report(self) -> None:
        numbers = self._copy.arrived()
        if numbers is None:
            return
        local, norm, moved, weights = numbers
        self._recorder.set(_NORM, norm)
        if not isfinite(norm):
            if self._loss_scale is None:  # the scale counts all of them, not only those seen here
                self._recorder.add({_NONFINITE: 1.0})
                self._recorder.observe_gradient(inf)
            return
        self._recorder.observe_gradient(norm)
        if weights > 0:
            self._recorder.set(_UPDATE, (moved / weights) ** 0.5)
        small, large = self._batch_sizes
        if 0 < small < large and isfinite(local):
            self._noise.add(local**2, norm**2, small, large)
            for slot, value in (
                (_SIGNAL, self._noise.signal),
                (_VARIANCE, self._noise.variance),
                (_NOISE_SCALE, self._noise.ratio),
            ):
                self._recorder.set(slot, float("nan") if value is None else value)


def _sharding(model: torch.nn.Module) -> str:
    """Why the norms of the model's gradients would be wrong, or communicate; "" when they do not."""
    fully = any(type(part).__name__.startswith("FullySharded") for part in model.modules())
    distributed = any(hasattr(parameter, "_local_tensor") for parameter in model.parameters())
    return "the parameters are sharded" if fully or distributed else ""


def _norm(gradient: torch.Tensor) -> torch.Tensor:
    """In fp32 at least, whatever the gradient's own type."""
    precision = torch.float64 if gradient.dtype == torch.float64 else torch.float32
    norm: torch.Tensor = torch.linalg.vector_norm(gradient.detach(), dtype=precision)
    return norm.float()


def _total(norms: list[torch.Tensor]) -> torch.Tensor:
    device = norms[0].device
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack([n.to(device) for n in norms]))
    return total
