"""What the training monitor adds to a step.

A plain loop over a model so small that the loop's own cost stands out, and a gloo DDP loop of two
ranks with steps of some tens of milliseconds. Watched and unwatched blocks alternate in the same
process. The clock is the process's CPU time, which other load on the machine hardly touches, and
the best block of each kind counts, because noise only ever adds.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from gpu_actuary.exporters.pytorch import monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_STATISTICS_BLOCK = 6

Pair = tuple[torch.Tensor, torch.Tensor]


class _Training:
    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.criterion = torch.nn.MSELoss()

    def cpu_seconds(self, batches: Iterable[Pair]) -> float:
        """CPU time of one pass over ``batches``."""
        began = time.process_time()
        for inputs, target in batches:
            self.optimizer.zero_grad()
            self.criterion(self.model(inputs), target).backward()
            self.optimizer.step()
        return time.process_time() - began


def _best_step_seconds(
    make: Callable[[], torch.nn.Module],
    data: list[Pair],
    blocks: int,
    folder: Path,
    **settings: bool,
) -> tuple[float, float]:
    """CPU seconds per step without and with the monitor and its ``settings``."""
    plain, watched = _Training(make()), _Training(make())
    run = monitor(
        watched.model,
        watched.optimizer,
        criterion=watched.criterion,
        job_id="step-overhead",
        directory=folder,
        **settings,
    )
    best = [float("inf"), float("inf")]
    for _ in range(blocks):
        best[0] = min(best[0], plain.cpu_seconds(data))
        best[1] = min(best[1], watched.cpu_seconds(run.batches(data)))
    run.close()
    return best[0] / len(data), best[1] / len(data)


def _small_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def _ddp_model() -> torch.nn.Module:
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
    return DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=2)


def _rank(rank: int, folder: str, blocks: int) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    data = [(torch.randn(128, 512), torch.randn(128, 512)) for _ in range(15)]
    plain, watched = _best_step_seconds(_ddp_model, data, blocks, Path(folder) / "ranks")
    # Gradients are measured in one of many steps: a block must be long enough to hold its share.
    long_plain, measured = _best_step_seconds(
        _ddp_model,
        data * _STATISTICS_BLOCK,
        max(blocks // _STATISTICS_BLOCK, 8),
        Path(folder) / "ranks",
        gradient_statistics=True,
    )
    if rank == 0:
        result = json.dumps([plain, watched, long_plain, measured])
        Path(folder, "result.json").write_text(result, encoding="utf-8")
    torch.distributed.destroy_process_group()


def run(quick: bool) -> dict[str, Any]:
    """The benchmark; about 5 minutes, or one minute when ``quick``."""
    torch.set_num_threads(1)
    blocks = 10 if quick else 100
    with tempfile.TemporaryDirectory(prefix="step-overhead-") as folder:
        data = [(torch.randn(8, 16), torch.randn(8, 4)) for _ in range(500)]
        plain, watched = _best_step_seconds(_small_model, data, blocks, Path(folder) / "ranks")
        spawn(_rank, (folder, blocks), nprocs=2)
        ddp = json.loads(Path(folder, "result.json").read_text(encoding="utf-8"))
    return {
        "figures": {
            "added_us_per_step": (watched - plain) * 1e6,
            "ddp_added_percent": (ddp[1] / ddp[0] - 1) * 100,
            "gradient_statistics_added_percent": (ddp[3] / ddp[2] - 1) * 100,
        },
        "conditions": {
            "plain_us_per_step": plain * 1e6,
            "ddp_plain_ms_per_step": ddp[0] * 1e3,
            "torch": torch.__version__,
            "clock": "process CPU time, best block",
        },
    }
