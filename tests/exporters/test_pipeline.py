"""What the input pipeline delivers: fetches, bytes, queues, producers without torch."""

from __future__ import annotations

import math
import queue
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gpu_actuary.exporters.layout import SLOT
from gpu_actuary.exporters.pipeline import Producer
from gpu_actuary.exporters.pytorch import monitor

from .reading import exposed, snapshot
from .writing import Training, rank_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FETCH = "actuary_pipeline_fetch_seconds"


def _fetches(values: Any) -> float:
    return sum(v for k, v in values.items() if k.startswith(f"{FETCH}/") and "sum" not in k)


def test_every_fetch_but_the_first_of_an_epoch_is_in_the_histogram(tmp_path: Path) -> None:
    training = Training(8)

    def slow() -> Iterator[Any]:
        for pair in training.data:
            time.sleep(0.02)
            yield pair

    run = monitor(training.model, training.optimizer, job_id="job", directory=tmp_path)
    for _ in range(2):
        for inputs, target in run.batches(slow()):
            training.step(inputs, target)
    run.close()
    values = snapshot(tmp_path).values
    assert _fetches(values) == 14
    assert values[f"{FETCH}/sum"] >= 14 * 0.02
    assert values[f"{FETCH}/0.01"] == 0
    assert values["actuary_pipeline_first_batch_seconds"] >= 0.02
    assert values["actuary_pipeline_bytes_total"] == 16 * 4 * (6 + 3) * 4


def test_the_histogram_sums_the_ranks_of_a_job(tmp_path: Path) -> None:
    for rank in ("0", "1"):
        file = rank_file(tmp_path, rank=rank)
        file.values[SLOT[f"{FETCH}/0.01"]] = 3.0
        file.values[SLOT[f"{FETCH}/+Inf"]] = 1.0
        file.values[SLOT[f"{FETCH}/sum"]] = 80.0
        file.publish()
        file.release()
    shown = exposed(tmp_path)
    assert list(shown[f"{FETCH}_count"].values()) == [8]
    assert list(shown[f"{FETCH}_sum"].values()) == [160]
    assert shown[f"{FETCH}_bucket"][(("job_id", "job"), ("le", "0.01"), ("node", "n1"))] == 6


def test_a_loader_with_workers_shows_how_many_batches_it_has_ready(tmp_path: Path) -> None:
    training = Training()
    inputs, targets = (torch.cat(parts) for parts in zip(*training.data, strict=True))
    loader = DataLoader(
        TensorDataset(inputs, targets), batch_size=4, num_workers=1, prefetch_factor=3
    )
    run = monitor(training.model, training.optimizer, job_id="job", directory=tmp_path)
    for index, (batch, target) in enumerate(run.batches(loader)):
        if index == 4:
            # Once a batch has been taken, two more come at once and a third in its place.
            time.sleep(1.0)
        training.step(batch, target)
        if index == 4:
            values = snapshot(tmp_path).values
    run.close()
    assert values["actuary_pipeline_queue_capacity"] == 3
    assert values["actuary_pipeline_queue_depth"] == 3


def test_without_workers_there_is_no_queue(tmp_path: Path) -> None:
    training = Training()
    run = monitor(training.model, training.optimizer, job_id="job", directory=tmp_path)
    for inputs, target in run.batches(training.data):
        training.step(inputs, target)
    run.close()
    values = snapshot(tmp_path).values
    assert "actuary_pipeline_queue_capacity" not in values
    assert "actuary_pipeline_queue_depth" not in values


def test_a_loaders_workers_end_with_the_loop_that_was_left(tmp_path: Path) -> None:
    training = Training()
    loader = DataLoader(TensorDataset(torch.zeros(40, 6)), batch_size=4, num_workers=1)
    run = monitor(training.model, training.optimizer, job_id="job", directory=tmp_path)
    batches = iter(run.batches(loader))
    next(batches)
    run.close()
    workers = torch.multiprocessing.active_children()
    assert len(workers) == 1
    del batches
    workers[0].join(timeout=20)
    assert not workers[0].is_alive()


def test_a_producer_reports_the_pipeline_and_nothing_of_a_training(tmp_path: Path) -> None:
    waiting: queue.Queue[Any] = queue.Queue(maxsize=50)
    with Producer(
        job_id="stream", rank=3, queue=waiting, workers=2, directory=tmp_path, team="data"
    ) as producer:
        for batch in producer.batches(torch.zeros(2, 5) for _ in range(10)):
            waiting.put(batch)
        shown = exposed(tmp_path)
    values = snapshot(tmp_path).values
    key = (("job_id", "stream"), ("node", "n1"), ("rank", "3"))
    assert shown["actuary_pipeline_batches_total"] == {key: 10}
    assert shown["actuary_pipeline_samples_total"] == {key: 20}
    assert shown["actuary_pipeline_bytes_total"] == {key: 400}
    assert shown["actuary_pipeline_queue_depth"] == {key: 9}  # when the tenth batch came
    assert shown["actuary_pipeline_queue_capacity"] == {key: 50}
    assert shown["actuary_pipeline_workers"] == {key: 2}
    assert list(shown[f"{FETCH}_count"].values()) == [9]
    assert shown["actuary_rank_up"] == {key: 1}
    assert "actuary_step_seconds_total" not in shown
    assert "actuary_step_duration_seconds_count" not in shown
    assert "actuary_gpu_present" not in shown
    assert all(math.isfinite(value) for value in values.values())
    assert snapshot(tmp_path).closed


def test_a_producer_passes_errors_through_and_is_then_down(tmp_path: Path) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("no such shard")

    with (
        pytest.raises(OSError, match="shard"),
        Producer(job_id="job", directory=tmp_path) as producer,
    ):
        list(producer.batches(broken()))
    assert not snapshot(tmp_path).closed


def test_a_producer_that_cannot_report_says_so_and_produces(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    with Producer(job_id="job", directory=tmp_path / "file") as producer:
        assert list(producer.batches(range(3))) == [0, 1, 2]
    assert len(caplog.records) == 1
    assert "reports nothing" in caplog.text


def test_the_pipeline_needs_no_torch() -> None:
    code = "import sys, gpu_actuary.exporters.pipeline; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
