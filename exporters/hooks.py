"""The hooks that follow a training loop, and the accounting of a step."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.parallel import DistributedDataParallel

from .batches import batch_size
from .ddp import ExposedCommunication
from .description import model_device
from .gradients import GradientStatistics
from .guard import guarded
from .layout import SLOT
from .loaderqueue import ready_batches, shows_depth
from .lossreader import LossReader
from .lossscale import LossScale
from .phases import DATA_WAIT, FORWARD, OPTIMIZER, OTHER
from .tensors import tensors_with_gradient, when_gradient_comes

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from .recorder import Recorder

log = logging.getLogger("gpu_actuary")

_SAMPLES: Final = SLOT["actuary_samples_total"]
_TOKENS: Final = SLOT["actuary_tokens_total"]
_FLOPS: Final = SLOT["actuary_model_flops_total"]
_LEARNING_RATE: Final = SLOT["actuary_learning_rate"]
_BATCHES: Final = SLOT["actuary_pipeline_batches_total"]
_PIPELINE_SAMPLES: Final = SLOT["actuary_pipeline_samples_total"]
_BYTES: Final = SLOT["actuary_pipeline_bytes_total"]
_DEPTH: Final = SLOT["actuary_pipeline_queue_depth"]
_FIRST_BATCH: Final = SLOT["actuary_pipeline_first_batch_seconds"]


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Model floating-point operations of forward and backward pass together; None: not known."""

    flops_per_sample: float | None
    flops_per_token: float | None

    def flops(self, samples: float, tokens: float) -> float | None:
        """The operations for so many samples and tokens; None where the number is not known."""
        if self.flops_per_sample is not None and samples:
            return self.flops_per_sample * samples
        if self.flops_per_token is not None and tokens:
            return self.flops_per_token * tokens
        return None


class TrainingHooks:
    """Follows one model, optimizer and criterion, and reports to ``recorder``.

    The methods without an underscore are called by the monitor's batch loop; they may raise, so the
    caller guards them.
    """

    def __init__(
        self,
        recorder: Recorder,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        criterion: Any,
        work: ModelWork,
        *,
        gradient_statistics: bool = False,
        scaler: Any = None,
    ) -> None:
        self._recorder = recorder
        self._optimizer = optimizer
        self._work = work
        self._losses = LossReader()
        # What the step in progress has taken in so far; a step may take several batches.
        self._batches = self._step_samples = self._step_tokens = 0
        # What completed steps took in, and what the pipeline delivered, since the last report.
        self._samples = self._tokens = 0
        self._delivered = self._delivered_samples = self._delivered_bytes = 0
        self._asked: float | None = None
        self._loader: weakref.ref[Any] | None = None
        self._begin_backward = guarded(recorder, self._backward_begins)
        self._handles: list[RemovableHandle] = [
            optimizer.register_step_pre_hook(guarded(recorder, self._before_optimizer)),
            optimizer.register_step_post_hook(guarded(recorder, self._after_optimizer)),
        ]
        if isinstance(criterion, torch.nn.Module):
            hook = guarded(recorder, self._criterion_done)
            self._handles.append(criterion.register_forward_hook(hook))
        else:
            if criterion is not None:
                log.warning(
                    "The criterion is no torch.nn.Module but %s: hand its result to "
                    "run.record_loss(loss).",
                    type(criterion).__name__,
                )
            hook = guarded(recorder, self._forward_done)
            self._handles.append(model.register_forward_hook(hook))
        self._communication = _exposed_communication(model, recorder)
        self._loss_scale = _loss_scale(scaler, recorder)
        self._gradients = None
        if gradient_statistics:
            self._gradients = GradientStatistics(
                recorder,
                model,
                optimizer,
                self._loss_scale,
                lambda: self._step_samples,
                lambda function: guarded(recorder, function),
            )

    def detach(self) -> None:
        """Remove every hook."""
        for handle in self._handles:
            handle.remove()
        if self._communication is not None:
            self._communication.detach()
        if self._gradients is not None:
            self._gradients.detach()

    # -- the batch loop --------------------------------------------------------------------------

    def loop_begins(self) -> None:
        """The loop asks for its first batch; in the first loop of all, that is startup."""
        if not self._recorder.starting_up():
            self._recorder.switch(DATA_WAIT)

    def loader_started(self, iterator: Any) -> None:
        """The loader has returned ``iterator``, which may show what it has ready."""
        # Weak, because a data loader's workers end with its iterator.
        self._loader = weakref.ref(iterator) if shows_depth(iterator) else None

    def wait_for_batch(self) -> None:
        """The loop asks for the next batch."""
        self._asked = self._recorder.switch(DATA_WAIT)

    def batch_arrived(self, batch: Any) -> None:
        """The loader has returned ``batch``."""
        now = self._recorder.switch(FORWARD)
        if self._asked is not None:
            self._recorder.fetched(now - self._asked)
            self._asked = None
        samples, tokens, size = batch_size(batch)
        self._delivered_bytes += size
        self._batches += 1
        self._delivered += 1
        self._delivered_samples += samples
        self._step_samples += samples
        self._step_tokens += tokens
        if self._loss_scale is not None:
            self._loss_scale.look()

    def first_batch_arrived(self, seconds: float) -> None:
        """The first batch of an epoch took ``seconds``, the start of the loader included."""
        self._recorder.set(_FIRST_BATCH, seconds)

    def loop_ended(self) -> None:
        """The loader is exhausted, or the loop was left."""
        self._asked = self._loader = None
        if not self._recorder.starting_up():
            self._recorder.switch(OTHER)
        if self._loss_scale is not None:
            self._loss_scale.finish()
        self.report()
        self._recorder.publish()

    def record_loss(self, loss: torch.Tensor | float) -> None:
        """The loss of one batch, where no criterion module hands it over."""
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            when_gradient_comes(loss, self._begin_backward)
        self._losses.add(loss)

    def report(self) -> None:
        """Hand over what was counted since the last time, and the learning rate."""
        amounts: dict[int, float] = {}
        if self._delivered:
            amounts[_BATCHES] = self._delivered
        if self._delivered_samples:
            amounts[_PIPELINE_SAMPLES] = self._delivered_samples
        if self._delivered_bytes:
            amounts[_BYTES] = self._delivered_bytes
        if self._samples:
            amounts[_SAMPLES] = self._samples
        if self._tokens:
            amounts[_TOKENS] = self._tokens
        flops = self._work.flops(self._samples, self._tokens)
        if flops is not None:
            amounts[_FLOPS] = flops
        self._delivered = self._delivered_samples = self._delivered_bytes = 0
        self._samples = self._tokens = 0
        self._recorder.add(amounts)
        iterator = None if self._loader is None else self._loader()
        if iterator is not None:
            self._recorder.set(_DEPTH, ready_batches(iterator))
        rate = self._optimizer.param_groups[0]["lr"]
        if not isinstance(rate, torch.Tensor) or rate.is_cpu:
            self._recorder.set(_LEARNING_RATE, float(rate))

    # -- what torch calls ------------------------------------------------------------------------

    def _forward_done(self, _model: Any, _inputs: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            for tensor in tensors_with_gradient(output):
                when_gradient_comes(tensor, self._begin_backward)

    def _criterion_done(self, _criterion: Any, _inputs: Any, loss: Any) -> None:
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
            return
        if not self._recorder.inside_context():  # an evaluation may forget torch.no_grad()
            when_gradient_comes(loss, self._begin_backward)
            self._losses.add(loss)

    def _backward_begins(self, _gradient: torch.Tensor) -> None:
        if self._recorder.begin_backward() and self._communication is not None:
            self._communication.begin_pass()
        if self._gradients is not None:
            self._gradients.pass_begins()

    def _before_optimizer(self, *_arguments: Any) -> None:
        self._recorder.switch(OPTIMIZER)
        if self._communication is not None:
            self._communication.end_step()
        if self._gradients is not None:
            self._gradients.before_optimizer()

    def _after_optimizer(self, *_arguments: Any) -> None:
        if self._gradients is not None:
            self._gradients.after_optimizer()
        loss = self._losses.end_step(self._batches)
        self._samples += self._step_samples
        self._tokens += self._step_tokens
        self._batches = self._step_samples = self._step_tokens = 0
        if self._recorder.step(loss):
            self.report()
            self._recorder.publish()


def _loss_scale(scaler: Any, recorder: Recorder) -> LossScale | None:
    if scaler is None:
        return None
    try:
        return LossScale(scaler, recorder)
    except AttributeError:
        log.warning("scaler=%s is ignored: expected a torch.amp.GradScaler.", type(scaler).__name__)
        return None


def _exposed_communication(
    model: torch.nn.Module, recorder: Recorder
) -> ExposedCommunication | None:
    """The measurement where it is valid: DDP on the CPU.

    On CUDA the host does not wait for the reduction, so its clock cannot see the exposed part;
    there the phase stays absent.
    """
    ddp = getattr(model, "_orig_mod", model)
    if not isinstance(ddp, DistributedDataParallel) or model_device(ddp).type != "cpu":
        return None
    return ExposedCommunication(ddp, recorder, lambda function: guarded(recorder, function))
