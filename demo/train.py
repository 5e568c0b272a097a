"""A real two-rank training on the CPU, followed by GPU Actuary's monitor.

Started by torch's elastic launcher (``python -m torch.distributed.run --module demo.train``), which
starts both ranks again when one dies; they go on from the last checkpoint.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from gpu_actuary.exporters.pytorch import Run, monitor

from . import digits, network
from .processes import die_with_parent
from .settings import JOB_ID

BATCH = 48
LEARNING_RATE = 5e-5
CHECKPOINT_STEPS = 120
EVALUATION_STEPS = 60


def main() -> None:
    """Train until ``--seconds`` have passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for checkpoint and pid files")
    parser.add_argument("--seconds", type=float, default=3600.0, help="when to end by itself")
    arguments = parser.parse_args()
    die_with_parent()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    (arguments.folder / f"rank-{rank}.pid").write_text(f"{os.getpid()}\n")
    try:
        train(arguments.folder / "checkpoint.pt", time.monotonic() + arguments.seconds, rank)
    finally:
        dist.destroy_process_group()


def train(checkpoint: Path, deadline: float, rank: int) -> None:
    """The training loop: resume, train, evaluate, save."""
    images, labels = digits.load()
    validation = images[: digits.VALIDATION_IMAGES], labels[: digits.VALIDATION_IMAGES]
    dataset = digits.AugmentedDigits(
        images[digits.VALIDATION_IMAGES :], labels[digits.VALIDATION_IMAGES :], seed=time.time_ns()
    )
    sampler: DistributedSampler[tuple[torch.Tensor, torch.Tensor]] = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler, drop_last=True)

    model = DistributedDataParallel(network.build())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    step = load(checkpoint, model, optimizer)

    run = monitor(
        model,
        optimizer,
        criterion=criterion,
        job_id=JOB_ID,
        team="demo",
        project="digits",
        model_name="small-cnn",
        flops_per_sample=network.flops_per_sample(),
        peak_flops=network.measured_peak_flops(),
    )
    run.resume(step)
    if step == 0:
        evaluate(run, model, *validation)
    epoch = 0
    while agree(time.monotonic() < deadline):
        sampler.set_epoch(step + epoch)
        epoch += 1
        for batch, targets in run.batches(loader):
            optimizer.zero_grad()
            criterion(model(batch), targets).backward()
            optimizer.step()
            step += 1
            if step % EVALUATION_STEPS == 0:
                evaluate(run, model, *validation)
            if step % CHECKPOINT_STEPS == 0 and rank == 0:
                with run.checkpoint(checkpoint):
                    save(checkpoint, model, optimizer, step)
    run.close()


def agree(wish: bool) -> bool:
    """Whether all ranks wish it, so that none waits for one that has left the loop."""
    wishes = torch.tensor(int(wish))
    dist.all_reduce(wishes, op=dist.ReduceOp.MIN)
    return bool(wishes.item())


@torch.no_grad()
def evaluate(
    run: Run, model: DistributedDataParallel, images: torch.Tensor, labels: torch.Tensor
) -> None:
    """Report accuracy and loss on the images that the training never sees."""
    with run.evaluating():
        model.eval()
        logits = model.module(images)
        model.train()
        accuracy = (logits.argmax(dim=1) == labels).float().mean().item()
        loss = nn.functional.cross_entropy(logits, labels).item()
    run.evaluation(accuracy=accuracy, loss=loss)


def save(
    path: Path, model: DistributedDataParallel, optimizer: torch.optim.Optimizer, step: int
) -> None:
    """Write a checkpoint that is either whole and on the disk, or not there at all."""
    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path, model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> int:
    """Load the checkpoint if there is one; returns the number of steps that it holds."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


if __name__ == "__main__":
    main()
