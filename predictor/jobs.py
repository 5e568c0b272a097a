"""What a job stands to lose: its failure probability, interruption loss and elastic budget.

A job gets a figure only when everything that the figure needs is known: a GPU without a
probability is not a GPU that cannot fail, and a GPU without a price is not free. What is missing is
left out and named by a reason.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpu_actuary.formulas.risk import elastic_budget, interruption_loss, job_failure_probability

from .identity import natural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .gpus import GpuEstimates
    from .identity import Gpu, Job
    from .inputs import HeldDevice, Snapshot

WithheldJob = Literal[
    "ranks_missing",
    "gpu_unknown",
    "gpu_without_estimate",
    "cost_missing",
    "mixed_currency",
    "checkpoint_age_missing",
    "out_of_range",
]


@dataclass(frozen=True, slots=True)
class Money:
    """An amount with its currency."""

    amount: float
    currency: str


@dataclass(frozen=True, slots=True)
class JobRisk:
    """The figures of one job; None where something is missing, which ``withheld`` explains.

    ``withheld`` maps each reason to a detail for people.
    """

    probability: float | None
    loss: Money | None
    budget: Money | None
    withheld: Mapping[WithheldJob, str]


class _Withheld(Exception):  # noqa: N818  # no error: a figure that cannot be given
    def __init__(self, reason: WithheldJob, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def assess(
    snapshot: Snapshot,
    gpus: GpuEstimates,
    *,
    restart_hours: float,
    recovery_coefficient: float,
) -> dict[Job, JobRisk]:
    """The risk of every job that holds a device."""
    known = _Devices(gpus)
    held: dict[Job, tuple[Gpu, ...]] = {}
    risks: dict[Job, JobRisk] = {}
    for job, devices in snapshot.devices.items():
        try:
            held[job] = _held_gpus(devices, snapshot.world_size.get(job), known)
        except _Withheld as missing:
            risks[job] = JobRisk(None, None, None, {missing.reason: str(missing)})
    # Jobs that share a GPU share its cost evenly, so that the budgets of all add up.
    holders = Counter(gpu for held_gpus in held.values() for gpu in held_gpus)
    for job, held_gpus in held.items():
        withheld: dict[WithheldJob, str] = {}
        probability = loss = budget = None
        try:
            probability = _probability(held_gpus, gpus)
        except _Withheld as missing:
            withheld[missing.reason] = str(missing)
        try:
            loss = _loss(job, held_gpus, holders, snapshot, restart_hours)
        except _Withheld as missing:
            withheld[missing.reason] = str(missing)
        if probability is not None and loss is not None:
            amount = elastic_budget(probability, loss.amount, recovery_coefficient)
            if math.isfinite(amount):
                budget = Money(amount, loss.currency)
            else:
                withheld["out_of_range"] = f"the budget is {amount}"
        risks[job] = JobRisk(probability, loss, budget, withheld)
    return risks


class _Devices:
    """Finds the GPU of the inventory that a rank means.

    A UUID is unique in the world, but the sidecar and DCGM may call one node by two names.
    """

    def __init__(self, gpus: GpuEstimates) -> None:
        self._known = {gpu for gpu in (*gpus.estimates, *gpus.withheld) if gpu.uuid}
        self._by_uuid: defaultdict[tuple[str, str, str], list[Gpu]] = defaultdict(list)
        for gpu in self._known:
            self._by_uuid[gpu.cluster, gpu.source, gpu.uuid].append(gpu)

    def find(self, gpu: Gpu) -> Gpu | None:
        if gpu in self._known:
            return gpu
        candidates = self._by_uuid.get((gpu.cluster, gpu.source, gpu.uuid), [])
        return candidates[0] if len(candidates) == 1 else None


def _held_gpus(
    devices: Sequence[HeldDevice], world_size: int | None, known: _Devices
) -> tuple[Gpu, ...]:
    """The distinct GPUs of a job. Part of a job is not the job: every rank must be there."""
    if world_size is not None:
        # Ranks beyond the world size are left over from an earlier, larger attempt.
        numbered = ((natural(device.rank), device) for device in devices)
        devices = [device for rank, device in numbered if rank is not None and rank < world_size]
        if len(devices) < world_size:
            raise _Withheld("ranks_missing", f"{len(devices)} of {world_size} ranks report")
    held: set[Gpu] = set()
    for device in devices:
        gpu = known.find(device.gpu)
        if gpu is None:
            raise _Withheld(
                "gpu_unknown",
                f"rank {device.rank} on node {device.gpu.node!r} holds device "
                f"{device.gpu.uuid!r}, which is not in the inventory",
            )
        held.add(gpu)
    return tuple(sorted(held))


def _probability(held: Sequence[Gpu], gpus: GpuEstimates) -> float:
    for gpu in held:
        if gpu not in gpus.estimates:
            raise _Withheld(
                "gpu_without_estimate",
                f"GPU {gpu.uuid} on node {gpu.node!r} has no probability ({gpus.withheld[gpu]})",
            )
    return job_failure_probability(gpus.estimates[gpu].probability for gpu in held)


def _loss(
    job: Job,
    held: Sequence[Gpu],
    holders: Mapping[Gpu, int],
    snapshot: Snapshot,
    restart_hours: float,
) -> Money:
    seconds = snapshot.checkpoint_age_seconds.get(job, snapshot.unsaved_seconds.get(job))
    if seconds is None:
        raise _Withheld(
            "checkpoint_age_missing", "neither a checkpoint age nor a run time is recorded"
        )
    currency, shares, cost_per_hour = _cost(held, holders, snapshot)
    if seconds < 0 or cost_per_hour < 0:
        raise _Withheld(
            "out_of_range", f"{seconds:g} s at risk at {cost_per_hour:g} {currency} per hour"
        )
    amount = interruption_loss(seconds / 3600, restart_hours, shares, cost_per_hour / shares)
    if not math.isfinite(amount):
        raise _Withheld("out_of_range", f"the interruption loss is {amount}")
    return Money(amount, currency)


def _cost(
    held: Sequence[Gpu], holders: Mapping[Gpu, int], snapshot: Snapshot
) -> tuple[str, float, float]:
    """Currency, GPUs (a shared one counts in part) and their cost per hour together."""
    currencies: set[str] = set()
    for gpu in held:
        if gpu not in snapshot.cost_per_hour:
            raise _Withheld("cost_missing", f"GPU {gpu.uuid} on node {gpu.node!r} has no cost")
        currencies.update(snapshot.cost_per_hour[gpu])
    if len(currencies) > 1:
        raise _Withheld(
            "mixed_currency",
            f"its GPUs are priced in {', '.join(sorted(currencies))}; expected one currency",
        )
    (currency,) = currencies
    shares = math.fsum(1 / holders[gpu] for gpu in held)
    cost = math.fsum(snapshot.cost_per_hour[gpu][currency] / holders[gpu] for gpu in held)
    return currency, shares, cost
