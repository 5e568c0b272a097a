"""Exposed communication in a real DistributedDataParallel training of two gloo ranks."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from .reading import finished, phases, run_script, snapshots

if TYPE_CHECKING:
    from pathlib import Path

TRAINING = """
import json, os, sys, time, torch, torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from gpu_actuary.exporters.pytorch import monitor

STEPS, WARM_UP, PAUSE = 16, 4, 0.1

def train(rank, port_file):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{port_file}", rank=rank, world_size=2)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64) for _ in range(6)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = torch.nn.MSELoss()
    run = monitor(model, optimizer, criterion=criterion, job_id="ddp", directory="ranks")
    data = [(torch.randn(8, 64), torch.randn(8, 64)) for _ in range(STEPS)]
    late = {"rank": rank, "late": 0.0, "wall": 0.0}
    for index, (inputs, target) in enumerate(run.batches(data)):
        if index == WARM_UP:
            torch.distributed.barrier()
            began = time.monotonic()
        if rank == 1 and index >= WARM_UP:
            before = time.monotonic()
            time.sleep(PAUSE)
            late["late"] += time.monotonic() - before
        criterion(model(inputs), target).backward()
        optimizer.step()
        optimizer.zero_grad()
    late["wall"] = time.monotonic() - began
    with open(f"rank{rank}.json", "w") as out:
        json.dump(late, out)
    run.close()
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (os.path.abspath("rendezvous"),), nprocs=2)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ddp")
    finished(run_script(folder, TRAINING))
    return folder


def _report(folder: Path, rank: int) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / f"rank{rank}.json").read_text())
    return report


def test_waiting_for_a_late_peer_is_exposed_communication(folder: Path) -> None:
    punctual, straggler = map(phases, snapshots(folder / "ranks"))
    late = _report(folder, 1)["late"]
    # What rank 1 shows is the cost of the reduction itself, which both ranks pay.
    waited = punctual["comm_exposed"] - straggler["comm_exposed"]
    assert waited == pytest.approx(late, rel=0.10)
    assert straggler["comm_exposed"] < 0.5 * late
    assert straggler["forward"] >= late


def test_every_rank_reports_itself_and_its_share_of_the_data(folder: Path) -> None:
    ranks = snapshots(folder / "ranks")
    assert [taken.fields["rank"] for taken in ranks] == ["0", "1"]
    assert [taken.fields["local_rank"] for taken in ranks] == ["0", "1"]
    for taken in ranks:
        assert taken.closed
        assert taken.fields["world_size"] == "2"
        assert taken.fields["model"] == "Sequential"
        assert taken.values["actuary_steps_total"] == 16
        assert taken.values["actuary_samples_total"] == 128
        assert math.isfinite(taken.values["actuary_loss"])


def test_communication_is_part_of_the_iteration_not_on_top_of_it(folder: Path) -> None:
    for rank, taken in enumerate(snapshots(folder / "ranks")):
        by_phase = phases(taken)
        iteration = sum(
            seconds
            for phase, seconds in by_phase.items()
            if phase not in {"startup", "checkpoint", "evaluation"}
        )
        assert iteration == pytest.approx(
            taken.values["actuary_step_duration_seconds/sum"], rel=0.05
        )
        assert iteration >= _report(folder, rank)["wall"]
