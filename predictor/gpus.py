"""Failure probability of each GPU: overrides first, then the model; nothing without fresh inputs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from .overrides import Evidence, decide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .hazard import Hazard
    from .identity import Gpu
    from .inputs import Snapshot

HORIZON_HOURS: Final = 24.0
HORIZON: Final = "24h"
"""Label of the horizon."""

WithheldGpu = Literal["silent", "stale", "unidentified"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Probability 0..1 that the GPU interrupts its job within the horizon, and what says so."""

    probability: float
    reason: str


@dataclass(frozen=True, slots=True)
class GpuEstimates:
    """The estimates of a cycle, and the GPUs that have none, each with the reason why."""

    estimates: Mapping[Gpu, Estimate]
    withheld: Mapping[Gpu, WithheldGpu]


def estimate(snapshot: Snapshot, hazard: Hazard, *, stale_after_seconds: float) -> GpuEstimates:
    """Estimate every GPU of the inventory and every one that is present.

    Without an estimate stay a GPU whose sample is older than ``stale_after_seconds`` (stale), one
    that no source reports while nothing proves its loss (silent), and one without a UUID.
    """
    oldest = snapshot.at - stale_after_seconds
    present = {gpu for gpu, at in snapshot.present.items() if at >= oldest}
    witnesses = Counter(
        (gpu.cluster, gpu.source, gpu.node) for gpu in present - snapshot.seen_by_sidecar_only
    )
    facts: dict[Gpu, Evidence] = {}
    withheld: dict[Gpu, WithheldGpu] = {}
    for gpu in sorted(snapshot.inventory.keys() | snapshot.present.keys()):
        if not gpu.uuid:
            withheld[gpu] = "unidentified"
        elif gpu in present:
            facts[gpu] = _evidence(gpu, snapshot, vanished=False)
        elif gpu in snapshot.present or snapshot.inventory[gpu] < oldest:
            withheld[gpu] = "stale"
        elif gpu in snapshot.seen_by_sidecar_only or not witnesses[gpu[:3]]:
            # A whole node that falls silent may have lost its exporter or its network alone, and a
            # sidecar reports what training uses: neither proves that a device is gone.
            withheld[gpu] = "silent"
        else:
            facts[gpu] = _evidence(gpu, snapshot, vanished=True)

    modelled = [gpu for gpu, evidence in facts.items() if not evidence.vanished]
    model = dict(
        zip(modelled, hazard.probabilities(modelled, snapshot, HORIZON_HOURS), strict=True)
    )
    return GpuEstimates(
        {gpu: _combine(model.get(gpu), hazard.name, evidence) for gpu, evidence in facts.items()},
        withheld,
    )


def _evidence(gpu: Gpu, snapshot: Snapshot, *, vanished: bool) -> Evidence:
    return Evidence(
        condemned=snapshot.condemned.get(gpu, frozenset()),
        vanished=vanished,
        new_xids=snapshot.new_xids.get(gpu, frozenset()),
        remap_pending=gpu in snapshot.remap_pending,
        new_double_bit=gpu in snapshot.new_double_bit,
    )


def _combine(probability: float | None, model: str, evidence: Evidence) -> Estimate:
    override = decide(evidence)
    if override is not None and (probability is None or override.probability >= probability):
        return Estimate(override.probability, override.reason)
    # A vanished GPU, the only one that the model was not asked about, always has an override.
    assert probability is not None
    return Estimate(probability, model)
