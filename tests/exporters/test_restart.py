"""Trainings in processes of their own: killed, failed, restarted."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from ..servers import wait_for
from .reading import finished, phases, run_script, snapshot

if TYPE_CHECKING:
    from pathlib import Path

TRAINING = """
import os, sys, time, torch
from gpu_actuary.exporters.pytorch import monitor
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = torch.nn.MSELoss()
run = monitor(model, optimizer, criterion=criterion, directory="ranks", job_id="restarted")
data = [(torch.randn(4, 4), torch.randn(4, 2)) for _ in range(30)]
def train(batches, pause=0.0):
    for inputs, target in run.batches(batches):
        criterion(model(inputs), target).backward()
        optimizer.step()
        time.sleep(pause)
"""


def test_a_killed_rank_keeps_its_counters_and_redone_steps_are_recompute(tmp_path: Path) -> None:
    ranks = tmp_path / "ranks"
    first = run_script(
        tmp_path,
        TRAINING
        + """
train(data, pause=0.03)
run.evaluation(loss=4.0)
open("done", "w").close()
time.sleep(600)
""",
    )
    try:
        wait_for((tmp_path / "done").exists, seconds=60, what="the first attempt")
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
    dead = snapshot(ranks)
    assert not dead.closed
    assert dead.values["actuary_steps_total"] == 30

    finished(
        run_script(
            tmp_path,
            TRAINING
            + """
run.resume(20)
train(data, pause=0.03)
run.evaluation(loss=1.0)
""",
        )
    )
    taken = snapshot(ranks)
    assert taken.closed
    assert taken.fields["attempt"] == "2"
    assert taken.values["actuary_steps_total"] == 60
    assert taken.values["actuary_redone_steps_total"] == 10
    assert taken.values["actuary_evaluation_initial_loss"] == 4.0
    assert taken.values["actuary_evaluation_loss"] == 1.0
    assert phases(dead)["recompute"] == 0
    assert phases(taken)["recompute"] >= 9 * 0.03
    assert phases(taken)["startup"] > phases(dead)["startup"]


@pytest.mark.parametrize(
    ("ending", "code", "clean"),
    [
        ("", 0, True),
        ("raise RuntimeError('out of memory')", 1, False),
        ("os.kill(os.getpid(), 15)", -15, False),
    ],
)
def test_only_a_training_that_ends_well_is_closed_as_such(
    tmp_path: Path, ending: str, code: int, clean: bool
) -> None:
    process = run_script(tmp_path, f"{TRAINING}\ntrain(data)\n{ending}\n")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == code, output
    taken = snapshot(tmp_path / "ranks")
    assert taken.closed == clean
    assert taken.values["actuary_samples_total"] == 120


def test_a_full_disk_is_said_once_and_the_training_goes_on(tmp_path: Path) -> None:
    output = finished(
        run_script(
            tmp_path,
            "import resource\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
            f"{TRAINING}\ntrain(data)\nprint('trained')\n",
        )
    )
    assert "reports nothing about this training" in output
    assert output.rstrip().endswith("trained")
    assert list((tmp_path / "ranks").iterdir()) == []
