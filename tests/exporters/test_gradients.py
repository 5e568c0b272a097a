"""Gradient statistics of trainings whose gradients are known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

from gpu_actuary.exporters import sampling
from gpu_actuary.exporters.pytorch import Run, monitor

from .reading import finished, run_script, snapshot, snapshots
from .writing import Training

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_actuary.exporters.rankreader import Snapshot

NORM = "actuary_gradient_norm"
VARIANCE = "actuary_gradient_variance"
SIGNAL = "actuary_gradient_squared_norm"
NOISE_SCALE = "actuary_gradient_noise_scale"
NONFINITE = "actuary_nonfinite_steps_total/gradient"

SIZE = 5_000


class Distance(torch.nn.Module):
    """Half the mean squared distance to its inputs.

    Inputs with mean 0 and variance 0.08 per coordinate have |G|² = 4 and tr Σ = 400: the noise
    scale is 100.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((SIZE,), math.sqrt(4 / SIZE)))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 0.5 * (self.weight - inputs).square().sum(1).mean()


def draw(samples: int) -> torch.Tensor:
    return torch.randn(samples, SIZE) * math.sqrt(0.08)


@pytest.fixture
def every_other_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first ten steps, measure every second one."""
    monkeypatch.setattr(sampling, "interval", lambda *_: 2)


def _watched(
    model: torch.nn.Module, folder: Path, lr: float = 0.0, **settings: Any
) -> tuple[torch.optim.Optimizer, Run]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    run = monitor(model, optimizer, job_id="job", directory=folder, **settings)
    return optimizer, run


@pytest.mark.usefixtures("every_other_step")
@pytest.mark.parametrize("divisor", [4, 1], ids=["mean over the batches", "sum of the batches"])
def test_accumulated_batches_give_the_known_noise_scale(tmp_path: Path, divisor: int) -> None:
    torch.manual_seed(1)
    model = Distance()
    optimizer, run = _watched(model, tmp_path, gradient_statistics=True)
    for index, batch in enumerate(run.batches(draw(8) for _ in range(4 * 120))):
        loss = model(batch)
        run.record_loss(loss)
        (loss / divisor).backward()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    run.close()
    values = snapshot(tmp_path).values
    scale = (4 / divisor) ** 2  # a sum over four batches is a gradient four times as long
    assert values[SIGNAL] == pytest.approx(4 * scale, rel=0.1)
    assert values[VARIANCE] == pytest.approx(400 * scale, rel=0.1)
    assert values[NOISE_SCALE] == pytest.approx(100, rel=0.1)
    assert values[NORM] ** 2 == pytest.approx((4 + 400 / 32) * scale, rel=0.1)


RANKS = """
import math, os, torch, torch.distributed, torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from gpu_actuary.exporters import sampling
from gpu_actuary.exporters.pytorch import monitor
from tests.exporters.test_gradients import Distance, draw

sampling.interval = lambda *_: 2

def train(rank, port_file, view):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{port_file}", rank=rank, world_size=2)
    model = DistributedDataParallel(Distance(), gradient_as_bucket_view=view)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    run = monitor(model, optimizer, job_id="job", directory=f"view-{view}",
                  gradient_statistics=True)
    torch.manual_seed(rank)
    for batch in run.batches(draw(8) for _ in range(400)):
        loss = model(batch)
        run.record_loss(loss)
        optimizer.zero_grad(set_to_none=not view)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.001)
        optimizer.step()
    run.close()
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    for view in (False, True):
        where = os.path.abspath(f"rendezvous-{view}")
        torch.multiprocessing.spawn(train, (where, view), nprocs=2)
"""


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("gradients")
    finished(run_script(folder, RANKS, PYTHONPATH=str(request.config.rootpath)))
    return folder


@pytest.mark.parametrize("view", ["False", "True"])
def test_two_ranks_give_the_known_noise_scale_from_their_own_gradients(
    two_ranks: Path, view: str
) -> None:
    ranks: list[Snapshot] = snapshots(two_ranks / f"view-{view}")
    assert len(ranks) == 2
    for taken in ranks:
        assert taken.values[NOISE_SCALE] == pytest.approx(100, rel=0.1)
    # Of the whole job: the ratio of the ranks' means, as the documentation says.
    variance, signal = (sum(taken.values[name] for taken in ranks) for name in (VARIANCE, SIGNAL))
    assert variance / signal == pytest.approx(100, rel=0.1)
    # The norm is that of the reduced gradient, the same on both ranks, and not clipped.
    assert ranks[0].values[NORM] == pytest.approx(ranks[1].values[NORM], rel=1e-5)
    assert ranks[0].values[NORM] ** 2 == pytest.approx(4 + 400 / 16, rel=0.15)


def _train(training: Training, run: Run, scaler: Any = None) -> list[float]:
    """Train one pass over the data; the norm of every gradient."""
    norms = []
    for inputs, target in run.batches(training.data):
        training.optimizer.zero_grad()
        loss = training.criterion(training.model(inputs), target)
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(training.optimizer)
        gradients = [p.grad for p in training.model.parameters() if p.grad is not None]
        norms.append(math.sqrt(sum(float(g.square().sum()) for g in gradients)))
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), 1e-3)
        if scaler is None:
            training.optimizer.step()
        else:
            scaler.step(training.optimizer)
            scaler.update()
    return norms


def _monitor(training: Training, folder: Path, **settings: Any) -> Run:
    settings = {"criterion": training.criterion, "gradient_statistics": True, **settings}
    return monitor(training.model, training.optimizer, job_id="job", directory=folder, **settings)


def test_the_norm_is_that_of_the_tenth_step_before_clipping(tmp_path: Path) -> None:
    training = Training(12)
    with _monitor(training, tmp_path) as run:
        norms = _train(training, run)
    values = snapshot(tmp_path).values
    assert values[NORM] == pytest.approx(norms[9], rel=1e-5)
    assert values[NONFINITE] == 0
    assert NOISE_SCALE not in values  # one batch a step and one rank: nothing to compare
    assert "actuary_loss_scale" not in values


def test_the_update_is_the_distance_moved_over_the_size_of_the_weights(tmp_path: Path) -> None:
    model = torch.nn.Linear(300, 300, bias=False)  # more elements than are looked at
    with torch.no_grad():
        model.weight.fill_(2.0)
    optimizer, run = _watched(model, tmp_path, lr=0.01, gradient_statistics=True)
    for batch in run.batches([torch.ones(1, 300)] * 10):
        loss = model(batch).sum()
        run.record_loss(loss)
        optimizer.zero_grad()
        loss.backward()  # every gradient is 1, so every step moves every weight by 0.01
        optimizer.step()
    run.close()
    ratio = snapshot(tmp_path).values["actuary_update_ratio"]
    assert ratio == pytest.approx(0.01 / (2.0 - 10 * 0.01), rel=1e-4)


def test_the_loss_scale_is_undone(tmp_path: Path) -> None:
    training = Training(12)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    with _monitor(training, tmp_path, scaler=scaler) as run:
        norms = _train(training, run, scaler)
    values = snapshot(tmp_path).values
    assert values[NORM] == pytest.approx(norms[9], rel=1e-5)
    assert values["actuary_loss_scale"] == 4096
    assert values[NONFINITE] == 0


def test_steps_that_the_loss_scale_skips_are_counted_and_not_measured(tmp_path: Path) -> None:
    training = Training(14)
    inputs, target = training.data[9]
    training.data[9] = training.data[5] = (inputs * math.inf, target)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    with _monitor(training, tmp_path, scaler=scaler) as run:
        _train(training, run, scaler)
    values = snapshot(tmp_path).values
    assert values["actuary_loss_scale"] == 1024
    assert values[NONFINITE] == 2
    assert values["actuary_steps_total"] == 12
    assert NORM not in values


def test_a_scaler_that_is_none_is_ignored_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    training = Training(12)
    with _monitor(training, tmp_path, scaler="fp16") as run:
        _train(training, run)
    assert snapshot(tmp_path).values["actuary_steps_total"] == 12
    assert "scaler=str is ignored" in caplog.text


def test_without_a_scaler_a_gradient_that_is_not_finite_is_counted_and_withheld(
    tmp_path: Path,
) -> None:
    training = Training(10)
    training.data[9] = (torch.full((4, 6), math.inf), training.data[9][1])
    with _monitor(training, tmp_path) as run:
        _train(training, run)
    values = snapshot(tmp_path).values
    assert values[NONFINITE] == 1
    assert NORM not in values
    assert "actuary_update_ratio" not in values


@pytest.mark.usefixtures("every_other_step")
def test_batches_of_uneven_size_say_nothing_about_noise(tmp_path: Path) -> None:
    model = Distance()
    optimizer, run = _watched(model, tmp_path, gradient_statistics=True)
    for index, batch in enumerate(run.batches(draw(8 - index % 2) for index in range(2 * 40))):
        loss = model(batch)
        run.record_loss(loss)
        loss.backward()
        if index % 2:
            optimizer.step()
            optimizer.zero_grad()
    run.close()
    values = snapshot(tmp_path).values
    assert NORM in values
    assert VARIANCE not in values


def test_training_goes_the_same_way_as_without_statistics(tmp_path: Path) -> None:
    plain, watched = Training(40), Training(40)
    for inputs, target in plain.data:
        plain.step(inputs, target)
    with _monitor(watched, tmp_path) as run:
        for inputs, target in run.batches(watched.data):
            watched.step(inputs, target)
    for one, other in zip(plain.model.parameters(), watched.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_sparse_gradients_have_no_statistics_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = torch.nn.Embedding(9, 4, sparse=True)
    optimizer, run = _watched(model, tmp_path, lr=0.1, gradient_statistics=True)
    for batch in run.batches([torch.arange(8)] * 40):
        loss = model(batch).square().mean()
        run.record_loss(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    run.close()
    values = snapshot(tmp_path).values
    assert values["actuary_steps_total"] == 40
    assert NORM not in values
    assert [r.message for r in caplog.records] == [
        "There are no gradient statistics: a gradient is sparse or complex."
    ]


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_norms_are_taken_in_fp32_whatever_the_gradients_are(
    tmp_path: Path, precision: torch.dtype
) -> None:
    model = torch.nn.Linear(100, 100, bias=False).to(precision)
    optimizer, run = _watched(model, tmp_path, gradient_statistics=True)
    for batch in run.batches([torch.full((1, 100), 1000.0, dtype=precision)] * 10):
        loss = model(batch).sum()
        run.record_loss(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    run.close()
    # 10,000 gradients of 1000: their squares do not fit into fp16, nor does the norm.
    assert snapshot(tmp_path).values[NORM] == pytest.approx(100_000, rel=1e-3)


def test_an_exception_in_the_backward_pass_passes_through_and_later_steps_are_measured(
    tmp_path: Path,
) -> None:
    model = Distance()
    optimizer, run = _watched(model, tmp_path, gradient_statistics=True)

    def fail(_gradient: torch.Tensor) -> None:
        raise RuntimeError("out of memory")

    for index, batch in enumerate(run.batches(draw(2) for _ in range(21))):
        optimizer.zero_grad()
        loss = model(batch)
        run.record_loss(loss)
        if index == 9:
            handle = model.weight.register_hook(fail)
            with pytest.raises(RuntimeError, match="out of memory"):
                loss.backward()
            handle.remove()
            continue
        loss.backward()
        optimizer.step()
    run.close()
    assert snapshot(tmp_path).values[NORM] > 0
