"""Making rank files and small trainings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gpu_actuary.exporters.layout import METADATA_FIELDS, SLOT
from gpu_actuary.exporters.rankfile import RankFile, open_rank_file

if TYPE_CHECKING:
    from pathlib import Path


def described(**fields: str) -> dict[str, str]:
    """Metadata of a rank; what is not named is empty."""
    filled = dict.fromkeys(METADATA_FIELDS, "")
    return {**filled, "job_id": "job", "rank": "0", "local_rank": "0", "device": "cpu", **fields}


def rank_file(directory: Path, *, closed: bool | None = None, **fields: str) -> RankFile:
    """A rank file with ten steps; ``closed`` ends it, cleanly or not."""
    file = open_rank_file(directory, described(**fields))
    file.values[SLOT["actuary_steps_total"]] = 10.0
    file.values[SLOT["actuary_loss"]] = 2.5
    file.publish()
    if closed is not None:
        file.close(clean=closed)
    return file


class Training:
    """A model of a few parameters, its data, and a loop over it."""

    def __init__(self, batches: int = 12) -> None:
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.criterion = torch.nn.MSELoss()
        self.data = [(torch.randn(4, 6), torch.randn(4, 3)) for _ in range(batches)]

    def step(self, inputs: torch.Tensor, target: torch.Tensor) -> None:
        """Forward, backward, optimizer."""
        self.optimizer.zero_grad()
        self.criterion(self.model(inputs), target).backward()
        self.optimizer.step()
