"""One consistent snapshot of everything that the predictor knows, read from Prometheus."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from gpu_actuary.errors import ActuaryError, PrometheusError, PrometheusUnreachableError

from . import queries
from .identity import Gpu, Job, gpu_of, job_of, natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_actuary.prometheus import PrometheusClient, Sample

Fact = TypeVar("Fact", str, int)
InputErrorReason = Literal["unreachable", "rejected", "empty", "stale"]


class InputError(ActuaryError):
    """A cycle has no inputs to estimate from; ``reason`` is the label under which it is counted."""

    def __init__(self, reason: InputErrorReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """The device of one rank: ``gpu.uuid`` is "" when the rank does not say which."""

    rank: str
    gpu: Gpu


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The inputs of one cycle, all at the server's time ``at`` (Unix seconds).

    ``inventory`` and ``present`` carry the time of the sample that says so. What is missing is
    missing from the mappings: there are no default values.
    """

    at: float
    inventory: Mapping[Gpu, float]
    present: Mapping[Gpu, float]
    seen_by_sidecar_only: frozenset[Gpu]
    condemned: Mapping[Gpu, frozenset[str]]
    new_xids: Mapping[Gpu, frozenset[int]]
    remap_pending: frozenset[Gpu]
    new_double_bit: frozenset[Gpu]
    devices: Mapping[Job, tuple[HeldDevice, ...]]
    world_size: Mapping[Job, int]
    checkpoint_age_seconds: Mapping[Job, float]
    unsaved_seconds: Mapping[Job, float]
    cost_per_hour: Mapping[Gpu, Mapping[str, float]]


def read(client: PrometheusClient, *, stale_after_seconds: float) -> Snapshot:
    """Ask Prometheus everything at one time.

    Raises :class:`InputError` when it does not answer, refuses a question, has no inventory, or
    when nothing about any GPU is younger than ``stale_after_seconds``.
    """
    try:
        return _read(client, stale_after_seconds)
    except PrometheusUnreachableError as error:
        raise InputError("unreachable", str(error)) from error
    except PrometheusError as error:
        raise InputError("rejected", str(error)) from error


def _read(client: PrometheusClient, stale_after_seconds: float) -> Snapshot:
    at = client.query(queries.NOW)[0].value

    def ask(promql: str) -> list[Sample]:
        # NaN and infinities are no figures: the series counts as missing from here on.
        return [s for s in client.query(promql, at=at) if math.isfinite(s.value)]

    inventory = _by_gpu(ask(queries.INVENTORY))
    present = _by_gpu(ask(queries.PRESENT))
    if not inventory and not present:
        raise InputError(
            "empty",
            f"{client.url} has no gpu:inventory:bool and no gpu:present:bool; "
            "are the foundation rules loaded and is anything scraped?",
        )
    newest = max((*inventory.values(), *present.values()))
    if at - newest > stale_after_seconds:
        raise InputError(
            "stale",
            f"the newest inventory of {client.url} is {at - newest:.0f} s old; "
            f"expected at most {stale_after_seconds:.0f} s: does it still evaluate rules?",
        )
    return Snapshot(
        at=at,
        inventory=inventory,
        present=present,
        seen_by_sidecar_only=_seen_by_sidecar_only(ask(queries.SEEN)),
        condemned=_group_by_gpu((s, s.labels.get("reason", "")) for s in ask(queries.CONDEMNED)),
        new_xids=_new_xids(ask(queries.NEW_XID), ask(queries.COUNTED_XID)),
        remap_pending=frozenset(_by_gpu(ask(queries.REMAP_PENDING))),
        new_double_bit=frozenset(_by_gpu(ask(queries.NEW_DOUBLE_BIT))),
        devices=_devices(ask(queries.RANK_GPU), ask(queries.RANK_HOLDS)),
        world_size=_world_size(ask(queries.WORLD_SIZE)),
        checkpoint_age_seconds=_by_job(ask(queries.CHECKPOINT_AGE)),
        unsaved_seconds=_by_job(ask(queries.UNSAVED)),
        cost_per_hour=_cost(ask(queries.COST)),
    )


def _by_gpu(samples: Iterable[Sample]) -> dict[Gpu, float]:
    return {gpu_of(s.labels): s.value for s in samples}


def _by_job(samples: Iterable[Sample]) -> dict[Job, float]:
    return {job_of(s.labels): s.value for s in samples}


def _group_by_gpu(pairs: Iterable[tuple[Sample, Fact]]) -> dict[Gpu, frozenset[Fact]]:
    groups: defaultdict[Gpu, set[Fact]] = defaultdict(set)
    for sample, value in pairs:
        groups[gpu_of(sample.labels)].add(value)
    return {gpu: frozenset(values) for gpu, values in groups.items()}


def _seen_by_sidecar_only(samples: Iterable[Sample]) -> frozenset[Gpu]:
    newest: dict[Gpu, tuple[float, bool]] = {}
    for sample in samples:
        gpu = gpu_of(sample.labels)
        # At the same time DCGM's sighting wins: True sorts after False.
        sighting = (sample.value, sample.labels.get("slot") != gpu.uuid)
        newest[gpu] = max(newest.get(gpu, sighting), sighting)
    return frozenset(gpu for gpu, (_, by_dcgm) in newest.items() if not by_dcgm)


def _new_xids(last: Iterable[Sample], counted: Iterable[Sample]) -> dict[Gpu, frozenset[int]]:
    codes = [(s, int(s.value)) for s in last]
    for sample in counted:
        code = natural(sample.labels.get("xid", ""))
        if code is not None:
            codes.append((sample, code))
    return _group_by_gpu(codes)


def _devices(
    infos: Iterable[Sample], holding: Iterable[Sample]
) -> dict[Job, tuple[HeldDevice, ...]]:
    """One device per rank of a job, the newest of a living rank before that of a dead one.

    A rank that was restarted elsewhere is still known at its old place for a while; a job never
    holds two devices for one rank.
    """
    alive = {_rank_key(s.labels): s.value for s in holding}
    chosen: dict[tuple[Job, str], tuple[tuple[float, bool, float, str], HeldDevice]] = {}
    for info in infos:
        state = alive.get(_rank_key(info.labels))
        job, rank = job_of(info.labels), info.labels.get("rank", "")
        if state is None or not job.job_id:
            continue
        gpu = gpu_of(info.labels)
        preference = (state, gpu.uuid != "", info.value, gpu.uuid)
        known = chosen.get((job, rank))
        if known is None or preference > known[0]:
            chosen[job, rank] = (preference, HeldDevice(rank, gpu))
    by_job: defaultdict[Job, list[HeldDevice]] = defaultdict(list)
    for (job, _), (_, device) in chosen.items():
        by_job[job].append(device)
    return {job: tuple(devices) for job, devices in by_job.items()}


def _rank_key(labels: Mapping[str, str]) -> tuple[Job, str, str]:
    return job_of(labels), labels.get("node", ""), labels.get("rank", "")


def _world_size(samples: Iterable[Sample]) -> dict[Job, int]:
    """World size of each job's latest attempt; jobs that do not say are left out."""
    latest: dict[Job, tuple[int, int]] = {}
    for sample in samples:
        size = natural(sample.labels.get("world_size", ""))
        if not size:
            continue
        job = job_of(sample.labels)
        candidate = (natural(sample.labels.get("attempt", "")) or 0, size)
        latest[job] = max(latest.get(job, candidate), candidate)
    return {job: size for job, (_, size) in latest.items()}


def _cost(samples: Iterable[Sample]) -> dict[Gpu, dict[str, float]]:
    costs: defaultdict[Gpu, dict[str, float]] = defaultdict(dict)
    for sample in samples:
        costs[gpu_of(sample.labels)][sample.labels.get("currency", "")] = sample.value
    return dict(costs)
