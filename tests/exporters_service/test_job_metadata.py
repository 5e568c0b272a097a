"""Team and project of a job, from arguments and from what launchers and schedulers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
import torch

from gpu_actuary.exporters import identity
from gpu_actuary.exporters.pytorch import monitor

from .running import samples, sidecar

if TYPE_CHECKING:
    from pathlib import Path


def test_the_team_is_what_the_user_says_then_the_account_of_slurm() -> None:
    environment = {"ACTUARY_TEAM": "vision", "SLURM_JOB_ACCOUNT": "acc-7"}
    assert identity.team(environment) == "vision"
    assert identity.team({**environment, "ACTUARY_TEAM": " "}) == "acc-7"
    assert identity.team({}) == ""


def test_the_project_is_what_the_user_says() -> None:
    assert identity.project({"ACTUARY_PROJECT": "atlas "}) == "atlas"
    assert identity.project({"SLURM_JOB_ACCOUNT": "acc-7"}) == ""


@pytest.mark.parametrize(
    ("given", "team", "project"),
    [({}, "acc-7", "atlas"), ({"team": "vision", "project": "own"}, "vision", "own")],
)
def test_a_job_under_slurm_carries_its_account_unless_the_call_says_otherwise(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    team: str,
    project: str,
) -> None:
    for name, value in (
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_JOB_ACCOUNT", "acc-7"),
        ("ACTUARY_PROJECT", "atlas"),
        ("POD_NAME", "train-0"),
        ("POD_NAMESPACE", "research"),
    ):
        monkeypatch.setenv(name, value)
    for name in ("ACTUARY_JOB_ID", "ACTUARY_TEAM"):
        monkeypatch.delenv(name, raising=False)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        monitor(model, optimizer, directory=tmp_path, **given),  # type: ignore[arg-type]
        sidecar(tmp_path) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        shown = samples(client)
    (job,) = map(dict, shown["actuary_job_info"])
    assert (job["job_id"], job["team"], job["project"]) == ("4711", team, project)
    (rank,) = map(dict, shown["actuary_rank_info"])
    assert (rank["pod"], rank["namespace"]) == ("train-0", "research")
