"""The monitor in plain loops of this process."""

from __future__ import annotations

import copy
import logging
import math
import os
import subprocess
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch

from gpu_actuary.exporters.pytorch import Run, monitor

from .reading import phases, snapshot, snapshots
from .writing import Training

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _monitor(training: Training, folder: Path, **settings: Any) -> Run:
    settings = {"criterion": training.criterion, "job_id": "job", **settings}
    return monitor(training.model, training.optimizer, directory=folder, **settings)


def test_two_lines_report_steps_samples_and_every_phase(tmp_path: Path) -> None:
    training = Training()
    with _monitor(training, tmp_path, flops_per_sample=100.0, peak_flops=1e9, team="nlp") as run:
        for inputs, target in run.batches(training.data):
            training.step(inputs, target)
    taken = snapshot(tmp_path)
    values = taken.values
    assert values["actuary_steps_total"] == 12
    assert values["actuary_samples_total"] == 48
    assert values["actuary_pipeline_batches_total"] == 12
    assert values["actuary_model_flops_total"] == 4800
    assert values["actuary_gpu_peak_flops"] == 1e9
    assert values["actuary_learning_rate"] == 0.05
    assert values["actuary_nonfinite_steps_total/loss"] == 0
    assert math.isfinite(values["actuary_loss"])
    assert taken.closed
    assert taken.fields["team"] == "nlp"
    assert taken.fields["model"] == "Sequential"
    assert taken.fields["precision"] == "fp32"
    by_phase = phases(taken)
    for phase in ("data_wait", "forward", "backward", "optimizer", "other"):
        assert by_phase[phase] > 0, phase
    assert by_phase["checkpoint"] == by_phase["evaluation"] == by_phase["recompute"] == 0
    assert "comm_exposed" not in by_phase
    assert "h2d" not in by_phase


def test_the_loop_behaves_as_without_the_monitor(tmp_path: Path) -> None:
    plain, watched = Training(), Training()
    for inputs, target in plain.data:
        plain.step(inputs, target)
    run = _monitor(watched, tmp_path)
    batches = run.batches(watched.data)
    assert len(batches) == 12
    for inputs, target in batches:
        watched.step(inputs, target)
    run.close()
    for one, other in zip(plain.model.parameters(), watched.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_slow_loading_is_data_wait_and_slow_models_are_forward_and_backward(tmp_path: Path) -> None:
    training = Training()
    slept = {"data_wait": 0.0, "forward": 0.0, "backward": 0.0, "optimizer": 0.0, "other": 0.0}

    def sleep(phase: str) -> None:
        began = time.monotonic()
        time.sleep(0.01)
        slept[phase] += time.monotonic() - began

    def loader() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for index, pair in enumerate(training.data):
            if index:  # the wait for the very first batch is startup
                sleep("data_wait")
            yield pair

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(_context: Any, value: torch.Tensor) -> torch.Tensor:
            sleep("forward")
            return value * 1.0

        @staticmethod
        def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:
            sleep("backward")
            return gradient

    training.optimizer.register_step_post_hook(lambda *_: sleep("optimizer"))
    slow: Any = Slow  # torch leaves apply untyped
    training.model.register_forward_pre_hook(lambda _, inputs: (slow.apply(inputs[0]),))
    with _monitor(training, tmp_path) as run:
        for inputs, target in run.batches(loader()):
            training.step(inputs.requires_grad_(), target)
            sleep("other")
    by_phase = phases(snapshot(tmp_path))
    for phase, seconds in slept.items():
        assert seconds <= by_phase[phase], phase
    # What is left over is the computation itself, which the sleeps exceed by far.
    assert by_phase["data_wait"] == pytest.approx(slept["data_wait"], rel=0.05)


def test_the_phases_sum_to_wall_time(tmp_path: Path) -> None:
    training = Training()
    called = time.monotonic()
    run = _monitor(training, tmp_path)
    returned = time.monotonic()
    before = sum(phases(snapshot(tmp_path)).values())
    for inputs, target in run.batches(training.data):
        training.step(inputs, target)
        time.sleep(0.02)
    with run.evaluating():
        time.sleep(0.1)
    with run.checkpoint():
        time.sleep(0.1)
    closing = time.monotonic()
    run.close()
    closed = time.monotonic()
    reported = sum(phases(snapshot(tmp_path)).values()) - before
    # The clock was read somewhere within the first call and within the last one.
    assert 0.995 * (closing - returned) <= reported <= 1.005 * (closed - called)


def test_a_step_of_several_batches_counts_them_all(tmp_path: Path) -> None:
    training = Training()
    with _monitor(training, tmp_path) as run:
        for index, (inputs, target) in enumerate(run.batches(training.data)):
            (training.criterion(training.model(inputs), target) / 3).backward()
            if index % 3 == 2:
                training.optimizer.step()
                training.optimizer.zero_grad()
    values = snapshot(tmp_path).values
    assert values["actuary_steps_total"] == 4
    assert values["actuary_samples_total"] == 48
    assert sum(v for k, v in values.items() if "duration_seconds/" in k and "sum" not in k) == 4


def test_the_loss_is_the_mean_over_the_batches_of_a_step(tmp_path: Path) -> None:
    training = Training(2)
    losses = []
    with _monitor(training, tmp_path) as run:
        for inputs, target in run.batches(training.data):
            loss = training.criterion(training.model(inputs), target)
            losses.append(loss.item())
            loss.backward()
        training.optimizer.step()
    assert snapshot(tmp_path).values["actuary_loss"] == pytest.approx(sum(losses) / 2)


def test_a_loss_that_is_not_finite_is_counted_and_withheld(tmp_path: Path) -> None:
    training = Training()
    training.data[3] = (torch.full((4, 6), float("nan")), training.data[3][1])
    with _monitor(training, tmp_path) as run:
        for inputs, target in run.batches(training.data):
            training.step(inputs, target)
    values = snapshot(tmp_path).values
    assert values["actuary_nonfinite_steps_total/loss"] == 9  # NaN weights stay NaN
    assert "actuary_loss" not in values
    assert values["actuary_steps_total"] == 12


def test_a_loss_function_without_module_is_recorded_by_hand(tmp_path: Path) -> None:
    training = Training()
    with _monitor(training, tmp_path, criterion=None) as run:
        for inputs, target in run.batches(training.data):
            loss = torch.nn.functional.mse_loss(training.model(inputs), target)
            run.record_loss(loss)
            loss.backward()
            training.optimizer.step()
            last = loss.item()
    taken = snapshot(tmp_path)
    assert taken.values["actuary_loss"] == pytest.approx(last)
    assert phases(taken)["backward"] > 0


def test_an_evaluation_is_neither_training_time_nor_training_data(tmp_path: Path) -> None:
    training = Training()
    with _monitor(training, tmp_path) as run:
        for inputs, target in run.batches(training.data):
            training.step(inputs, target)
        loss = snapshot(tmp_path).values["actuary_loss"]
        with run.evaluating():
            for inputs, target in run.batches(training.data):
                training.criterion(training.model(inputs) * 100, target)
                time.sleep(0.01)
        run.evaluation(accuracy=torch.tensor(0.75), loss=1.5, quality=0.6, f1=0.5)
        run.evaluation(accuracy=0.8, loss=1.25)
    taken = snapshot(tmp_path)
    assert phases(taken)["evaluation"] >= 0.12
    assert taken.values["actuary_samples_total"] == 48
    assert taken.values["actuary_loss"] == pytest.approx(loss, rel=0.5)
    assert taken.score_names[:2] == ("accuracy", "f1")
    assert taken.values["actuary_evaluation_score/0"] == 0.8
    assert taken.values["actuary_evaluation_score/1"] == 0.5
    assert taken.values["actuary_evaluation_loss"] == 1.25
    assert taken.values["actuary_evaluation_initial_loss"] == 1.5
    assert taken.values["actuary_quality_score"] == 0.6
    assert time.time() - taken.values["actuary_evaluation_timestamp_seconds"] < 60


def test_results_that_are_no_numbers_are_withheld(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _monitor(Training(), tmp_path) as run:
        run.evaluation(accuracy=math.nan, loss=math.inf, quality=3.0)
        run.evaluation(accuracy="good")
        run.evaluation(**{f"score{index}": 1.0 for index in range(6)})
    values = snapshot(tmp_path).values
    assert "actuary_evaluation_loss" not in values
    assert "actuary_evaluation_initial_loss" not in values
    assert "actuary_quality_score" not in values
    assert "actuary_evaluation_score/0" not in values
    assert "accuracy='good'" in caplog.text
    assert "quality=3.0" in caplog.text
    assert "room for four names" in caplog.text


def test_a_checkpoint_counts_once_it_is_written(tmp_path: Path) -> None:
    saved = tmp_path / "saved" / "model.bin"
    saved.parent.mkdir()
    ranks = tmp_path / "ranks"
    with _monitor(Training(), ranks) as run:
        with pytest.raises(OSError, match="disk"), run.checkpoint(saved):
            raise OSError("the disk is full")
        assert "actuary_checkpoint_last_success_timestamp_seconds" not in snapshot(ranks).values
        with run.checkpoint(saved.parent):
            saved.write_bytes(b"x" * 1234)
    values = snapshot(ranks).values
    assert values["actuary_checkpoint_bytes"] == 1234
    assert time.time() - values["actuary_checkpoint_last_success_timestamp_seconds"] < 60


def test_a_checkpoint_saved_by_another_thread_takes_no_time_from_the_training(
    tmp_path: Path,
) -> None:
    def save(run: Run) -> None:
        with run.checkpoint():
            time.sleep(0.1)

    with _monitor(Training(), tmp_path) as run:
        thread = threading.Thread(target=save, args=(run,))
        thread.start()
        thread.join()
    taken = snapshot(tmp_path)
    assert phases(taken)["checkpoint"] == 0
    assert "actuary_checkpoint_last_success_timestamp_seconds" in taken.values


def test_going_back_makes_the_steps_up_to_the_mark_recompute(tmp_path: Path) -> None:
    training = Training(10)
    with _monitor(training, tmp_path) as run:
        for inputs, target in run.batches(training.data):
            training.step(inputs, target)
        before = phases(snapshot(tmp_path))
        run.resume(4)
        for index, (inputs, target) in enumerate(run.batches(training.data)):
            training.step(inputs, target)
            time.sleep(0.01)
            if index == 5:  # the loop's body after the sixth step still belongs to it
                redone = phases(snapshot(tmp_path))
    taken = snapshot(tmp_path)
    assert taken.values["actuary_redone_steps_total"] == 6
    assert taken.values["actuary_steps_total"] == 20
    assert phases(taken)["recompute"] >= 0.05
    assert redone["backward"] == before["backward"]
    assert phases(taken)["backward"] > before["backward"]


def test_counters_move_during_a_long_checkpoint(tmp_path: Path) -> None:
    with _monitor(Training(), tmp_path) as run, run.checkpoint():
        time.sleep(2.2)
        inside = snapshot(tmp_path)
        assert phases(inside)["checkpoint"] > 0.9
        assert inside.age() < 1.5


def test_two_monitors_in_one_process_report_as_two_jobs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Training(3), Training(5)
    with _monitor(one, tmp_path) as first, _monitor(other, tmp_path) as second:
        for training, run in ((one, first), (other, second)):
            for inputs, target in run.batches(training.data):
                training.step(inputs, target)
    steps = {s.fields["job_id"]: s.values["actuary_steps_total"] for s in snapshots(tmp_path)}
    assert steps == {"job": 3, "job.2": 5}
    assert "'job.2'" in caplog.text


def test_a_forked_child_leaves_the_parents_file_alone(tmp_path: Path) -> None:
    training = Training()
    run = _monitor(training, tmp_path)
    child = os.fork()
    if child == 0:
        try:
            for inputs, target in run.batches(training.data):
                training.step(inputs, target)
            run.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert snapshot(tmp_path).values["actuary_steps_total"] == 0
    assert not snapshot(tmp_path).closed
    for inputs, target in run.batches(training.data):
        training.step(inputs, target)
    run.close()
    assert snapshot(tmp_path).values["actuary_steps_total"] == 12


def test_a_data_loader_with_workers_is_followed(tmp_path: Path) -> None:
    training = Training()
    inputs, targets = (torch.cat(parts) for parts in zip(*training.data, strict=True))
    pairs = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(pairs, batch_size=4, num_workers=1)
    with _monitor(training, tmp_path) as run:
        for inputs, target in run.batches(loader):
            training.step(inputs, target)
    values = snapshot(tmp_path).values
    assert values["actuary_samples_total"] == 48
    assert values["actuary_pipeline_workers"] == 1
    assert values["actuary_pipeline_first_batch_seconds"] > 0


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_directory_that_cannot_be_used_is_said_once_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    training = Training()
    with _monitor(training, tmp_path / place) as run:
        for inputs, target in run.batches(training.data):
            training.step(inputs, target)
        with run.checkpoint(), run.evaluating():
            run.evaluation(accuracy=0.5)
        run.resume(3)
        run.record_loss(1.0)
    assert len(caplog.records) == 1
    assert "reports nothing" in caplog.text


@pytest.mark.parametrize("with_criterion", [True, False])
def test_a_watched_model_can_be_saved_whole_and_loaded_without_us(
    tmp_path: Path, with_criterion: bool
) -> None:
    training = Training()
    watched = torch.nn.ModuleList([training.model, training.criterion])
    run = _monitor(training, tmp_path, **({} if with_criterion else {"criterion": None}))
    for inputs, target in run.batches(training.data):
        training.step(inputs, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save(watched, tmp_path / "whole.pt")
        loss = training.criterion(training.model(inputs), target)
        torch.save({"loss": loss}, tmp_path / "loss.pt")
        copy.deepcopy(watched)
    run.close()
    load = """if True:
        import sys, torch
        sys.modules["gpu_actuary"] = None
        model, criterion = torch.load(sys.argv[1], weights_only=False)
        print(float(criterion(model(torch.ones(1, 6)), torch.zeros(1, 3))))
    """
    command = [sys.executable, "-c", load, str(tmp_path / "whole.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert math.isfinite(float(done.stdout))


@pytest.mark.parametrize("with_criterion", [True, False])
def test_a_model_and_its_loss_compile_into_one_graph_as_without_the_monitor(
    tmp_path: Path, with_criterion: bool
) -> None:
    training = Training()
    run = _monitor(training, tmp_path, **({} if with_criterion else {"criterion": None}))

    @torch.compile(fullgraph=True, backend="eager")
    def forward(inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = training.criterion(training.model(inputs), target)
        return loss

    for inputs, target in run.batches(training.data):
        training.optimizer.zero_grad()
        loss = forward(inputs, target)
        run.record_loss(loss)
        loss.backward()
        training.optimizer.step()
    run.close()
    values = snapshot(tmp_path).values
    assert values["actuary_steps_total"] == 12
    assert math.isfinite(values["actuary_loss"])
    assert phases(snapshot(tmp_path))["backward"] > 0


def test_an_error_of_our_own_never_reaches_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training()
    run = _monitor(training, tmp_path)
    monkeypatch.setattr("gpu_actuary.exporters.recorder.bisect_left", lambda *_: 1 / 0)
    for inputs, target in run.batches(training.data):
        training.step(inputs, target)
    run.close()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the training goes on" in caplog.text
    assert snapshot(tmp_path).closed


def test_errors_of_the_loader_and_the_loop_pass_through(tmp_path: Path) -> None:
    training = Training()

    def broken() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        yield training.data[0]
        raise ValueError("corrupt shard")

    with pytest.raises(ValueError, match="corrupt shard"), _monitor(training, tmp_path) as run:
        for inputs, target in run.batches(broken()):
            training.step(inputs, target)
    taken = snapshot(tmp_path)
    assert not taken.closed
    assert taken.values["actuary_steps_total"] == 1


@pytest.mark.parametrize("wrong", ["much", -1.0, math.nan, math.inf])
def test_arguments_that_make_no_sense_are_ignored_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: Any
) -> None:
    training = Training()
    with _monitor(training, tmp_path, peak_flops=wrong, flops_per_sample=wrong) as run:
        run.resume(wrong)
        for inputs, target in run.batches(training.data):
            training.step(inputs, target)
    values = snapshot(tmp_path).values
    assert "actuary_gpu_peak_flops" not in values
    assert "actuary_model_flops_total" not in values
    assert values["actuary_steps_total"] == 12
    assert len(caplog.records) == 3


def test_after_the_end_the_loop_runs_on_unwatched(tmp_path: Path) -> None:
    training = Training()
    run = _monitor(training, tmp_path)
    for index, (inputs, target) in enumerate(run.batches(training.data)):
        if index == 5:
            run.close()
        training.step(inputs, target)
    run.close()
    assert snapshot(tmp_path).values["actuary_steps_total"] == 5
