"""The training monitor for PyTorch: two lines in a plain loop.

::

    run = monitor(model, optimizer, criterion=loss_fn, job_id="pretrain-7b", team="nlp")
    for batch in run.batches(loader):
        ...

Nothing here stops a training: an error of the monitor's own is logged once and switches the monitor
off. Times are the host's: on a CUDA device the phases say where the Python thread spent its time.
"""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from . import identity
from .claim import claim
from .description import Description, describe, device_name, model_device
from .guard import guarded
from .hooks import ModelWork, TrainingHooks
from .layout import SLOT
from .location import default_directory
from .peaks import peak_flops as known_peak_flops
from .phases import CHECKPOINT, EVALUATION
from .recorder import Recorder
from .reporter import give_up

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    import torch

Batch = TypeVar("Batch")

log = logging.getLogger("gpu_actuary")

_PEAK: Final = SLOT["actuary_gpu_peak_flops"]
_WORKERS: Final = SLOT["actuary_pipeline_workers"]
_CAPACITY: Final = SLOT["actuary_pipeline_queue_capacity"]


def monitor(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    criterion: Any = None,
    job_id: str | None = None,
    team: str = "",
    project: str = "",
    model_name: str = "",
    precision: str = "",
    flops_per_sample: float | None = None,
    flops_per_token: float | None = None,
    flops_convention: str = "",
    peak_flops: float | None = None,
    gradient_statistics: bool = False,
    scaler: Any = None,
    directory: str | os.PathLike[str] | None = None,
) -> Run:
    """Report the training of ``model`` by ``optimizer`` to the node's sidecar.

    Call it once per rank, after the process group and the DDP wrapper exist, with the module that
    the loop calls. ``criterion`` is the loss module; without one call :meth:`Run.record_loss`.

    ``flops_per_sample`` or ``flops_per_token`` are model floating-point operations of forward and
    backward pass together, counted as ``flops_convention`` says; ``peak_flops`` is the device's
    dense peak in FLOP/s, needed where it is not known (see ``peaks.py``). Without them there is no
    MFU. ``precision`` is for example "bf16"; give it when autocast is used.

    ``gradient_statistics`` adds gradient norm, noise scale and update size, measured in as few steps
    as keeps their cost at 1 % of the training's time. ``scaler`` is the ``torch.amp.GradScaler``,
    where there is one: for the loss scale, and to undo it in the gradients.

    ``job_id`` stays the same over restarts; see ``identity.py`` for where it comes from otherwise.
    ``directory`` overrides ``ACTUARY_DIRECTORY`` and the default in shared memory.

    Never raises: when it cannot work, it says so in the log and returns a run that does nothing.
    """
    try:
        description = Description(
            job_id,
            team,
            project,
            model_name,
            precision,
            flops_convention or ("user" if flops_per_sample or flops_per_token else ""),
        )
        work = ModelWork(
            _positive("flops_per_sample", flops_per_sample),
            _positive("flops_per_token", flops_per_token),
        )
        folder = default_directory() if directory is None else Path(directory)
        file = claim(
            identity.job_id(description.job_id),
            lambda job: describe(model, description, job),
            folder,
        )
    except Exception as error:  # noqa: BLE001  # whatever it is, the training must go on
        log.warning("GPU Actuary reports nothing about this training: %s", error)
        return Run(None, None)
    recorder = Recorder(file)
    try:
        peak = _positive("peak_flops", peak_flops)
        if peak is None:
            peak = known_peak_flops(device_name(model_device(model)), file.fields["precision"])
        if peak is not None:
            recorder.set(_PEAK, peak)
        hooks = TrainingHooks(
            recorder,
            model,
            optimizer,
            criterion,
            work,
            gradient_statistics=gradient_statistics,
            scaler=scaler,
        )
        return Run(recorder, hooks)
    except Exception:  # noqa: BLE001  # as above
        give_up(recorder)
        return Run(None, None)


def _positive(name: str, value: float | None) -> float | None:
    if value is None or (isinstance(value, (int, float)) and 0 < value < math.inf):
        return value
    log.warning("%s=%r is ignored: expected a positive number.", name, value)
    return None


class Run:
    """One monitored training of one rank; made by :func:`monitor`.

    Also a context manager. Closed at the end of the interpreter when :meth:`close` is not called.
    No method raises.
    """

    def __init__(self, recorder: Recorder | None, hooks: TrainingHooks | None) -> None:
        self._recorder = recorder
        self._hooks = hooks
        self._thread = get_ident()
        self._complaints: set[str] = set()

    def batches(self, loader: Iterable[Batch]) -> Batches[Batch]:
        """``loader``, followed: the time inside its ``next`` is data wait."""
        return Batches(self, loader)

    def record_loss(self, loss: torch.Tensor | float) -> None:
        """The loss of one batch, before its backward pass; for loops without a loss module."""
        if self._hooks is not None:
            self._guard(self._hooks.record_loss, loss)

    def resume(self, step: int) -> None:
        """A checkpoint was loaded that holds ``step`` optimizer steps of this job.

        Steps that an earlier attempt, or this one, did beyond it are redone work. Call
        ``resume(0)`` when a restarted job begins from scratch; without any call a restarted job is
        taken to go on where it ended.
        """
        if not isinstance(step, int) or step < 0:
            self._complain(f"resume({step!r}) is ignored: expected a number of steps.")
        elif self._recorder is not None:
            self._guard(self._recorder.resume, step)

    @contextmanager
    def checkpoint(self, path: str | os.PathLike[str] | None = None) -> Iterator[None]:
        """The time inside is checkpoint time; afterwards the checkpoint counts as durable.

        ``path`` is the file or folder that was written, for its size. An exception inside leaves
        the last good checkpoint as it is. In another thread than the training's (an asynchronous
        save) no time is counted, because the training goes on.
        """
        with self._phase(CHECKPOINT):
            yield
            recorder = self._recorder
            if recorder is not None:
                self._guard(lambda: recorder.checkpointed(_size(path)))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The time inside is evaluation time; its batches are no training samples."""
        with self._phase(EVALUATION):
            yield

    def evaluation(
        self,
        *,
        accuracy: float | None = None,
        loss: float | None = None,
        quality: float | None = None,
        **scores: float,
    ) -> None:
        """The results of an evaluation.

        ``accuracy`` and up to three more ``scores`` by name, ``loss`` on the evaluation set (the
        first one of the job is its L₀), ``quality`` in 0..1 where the evaluation judges itself.
        What is not finite, and a quality outside 0..1, is withheld.
        """
        recorder = self._recorder
        if recorder is None:
            return
        named = scores if accuracy is None else {"accuracy": accuracy, **scores}
        values = {name: self._number(name, value) for name, value in named.items()}
        judged = None if quality is None else self._number("quality", quality)
        if judged is not None and not 0 <= judged <= 1:
            self._complain(f"quality={quality!r} is withheld: expected a number in 0..1.")
            judged = None
        measured = None if loss is None else self._number("loss", loss)

        def record() -> None:
            for name in recorder.evaluated(values, measured, judged):
                self._complain(f"The score {name!r} is left out: there is room for four names.")

        self._guard(record)

    def _number(self, name: str, value: float) -> float:
        """``value``, which may be a tensor, as a float; NaN, which is withheld, when it is none."""
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):
            self._complain(f"{name}={value!r} is withheld: expected a number.")
            return math.nan

    def close(self) -> None:
        """The training has ended well: stop reporting. Further calls do nothing."""
        self._end(clean=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(clean=error is None)

    def _end(self, *, clean: bool) -> None:
        recorder, hooks = self._recorder, self._hooks
        if recorder is None or hooks is None or not recorder.active:
            return
        try:
            hooks.detach()
            hooks.report()
            recorder.close(clean=clean)
        except Exception:  # noqa: BLE001  # the training's own end must not fail by ours
            give_up(recorder)

    def _guard(self, function: Callable[..., Any], *arguments: Any) -> None:
        if self._recorder is not None:
            guarded(self._recorder, function)(*arguments)

    def _complain(self, message: str) -> None:
        if message not in self._complaints:
            self._complaints.add(message)
            log.warning(message)

    @contextmanager
    def _phase(self, phase: int) -> Iterator[None]:
        recorder = self._recorder
        if recorder is None or get_ident() != self._thread:
            yield
            return
        self._guard(recorder.enter, phase)
        try:
            yield
        finally:
            self._guard(recorder.leave)


class Batches(Generic[Batch]):
    """What :meth:`Run.batches` returns: the loader's batches, as often as it is iterated."""

    def __init__(self, run: Run, loader: Iterable[Batch]) -> None:
        self._run = run
        self._loader = loader

    def __len__(self) -> int:
        """The length of the loader; ``TypeError`` when it has none."""
        return len(self._loader)  # type: ignore[arg-type]  # as for the loader itself

    def __iter__(self) -> Iterator[Batch]:
        recorder, hooks = self._run._recorder, self._run._hooks
        if recorder is None or hooks is None or recorder.inside_context():
            yield from self._loader
            return
        self._run._thread = get_ident()  # this is the thread that trains, whoever called monitor
        wait_for_batch = guarded(recorder, hooks.wait_for_batch)
        batch_arrived = guarded(recorder, hooks.batch_arrived)
        began: float | None = monotonic()
        workers = getattr(self._loader, "num_workers", None)
        if isinstance(workers, int):
            guarded(recorder, recorder.set)(_WORKERS, workers)
            prefetched = getattr(self._loader, "prefetch_factor", None)
            if workers and isinstance(prefetched, int):
                guarded(recorder, recorder.set)(_CAPACITY, workers * prefetched)
        try:
            guarded(recorder, hooks.loop_begins)()
            iterator = iter(self._loader)
            guarded(recorder, hooks.loader_started)(iterator)
            while True:
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
                batch_arrived(batch)
                if began is not None:
                    guarded(recorder, hooks.first_batch_arrived)(monotonic() - began)
                    began = None
                yield batch
                wait_for_batch()
        finally:
            guarded(recorder, hooks.loop_ended)()


def _size(location: str | os.PathLike[str] | None) -> int | None:
    """Bytes of a file, or of all files in a folder; None when there is nothing."""
    if location is None:
        return None
    path = Path(location)
    try:
        if path.is_dir():
            return sum(part.stat().st_size for part in path.rglob("*") if part.is_file())
        return path.stat().st_size
    except OSError:
        return None
