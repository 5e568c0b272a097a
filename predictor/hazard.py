"""Models of a GPU's failure: what the service asks when no deterministic fact decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpu_actuary.formulas.risk import failure_probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .identity import Gpu
    from .inputs import Snapshot


class Hazard(Protocol):
    """A model of failure, asked once a cycle for all GPUs whose inputs are fresh."""

    @property
    def name(self) -> str:
        """Name of the model, as its results and ``actuary_predictor_build_info`` show it."""

    @property
    def trained_on(self) -> str:
        """ "real", "synthetic", or "none" for a model that was not trained."""

    @property
    def base_per_day(self) -> float:
        """Prior hazard in failures per GPU-day."""

    def probabilities(
        self, gpus: Sequence[Gpu], snapshot: Snapshot, horizon_hours: float
    ) -> Sequence[float]:
        """Failure probability of each of ``gpus`` within the horizon, in their order, in 0..1."""


class PriorHazard:
    """The same published hazard for every GPU: honest where nothing has been learnt yet.

    The default is the fleet rate of Llama 3 (see :mod:`gpu_actuary.formulas.risk`). It counts
    every unexpected interruption, not faulty GPUs alone, because every one costs the work since
    the last checkpoint.
    """

    name = "prior"
    trained_on = "none"

    def __init__(self, per_day: float) -> None:
        self.base_per_day = per_day

    def probabilities(
        self,
        gpus: Sequence[Gpu],
        snapshot: Snapshot,  # noqa: ARG002  # part of the protocol; a constant needs no features
        horizon_hours: float,
    ) -> Sequence[float]:
        """p = 1 − exp(−hazard × horizon), for each GPU the same."""
        return [failure_probability(self.base_per_day, horizon_hours)] * len(gpus)
