"""What the catalogue says about one series, and the label sets that all of them share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

MetricType = Literal["counter", "gauge", "histogram", "info"]
Layer = Literal["physical", "task", "pipeline", "algorithm", "business", "economics", "health"]
Owner = Literal["exporters", "rules", "predictor", "ledger", "simulator"]
Per = Literal["cluster", "node", "gpu", "job", "rank", "process"]

# `source` is empty for real data and "simulated" for the simulator. It stands beside `cluster` in
# every label set, so that no sum ever mixes the two and a simulated result stays marked.
CLUSTER = ("cluster", "source")
NODE = (*CLUSTER, "node")
GPU = (*NODE, "gpu_uuid")
JOB = (*CLUSTER, "job_id")
RANK = (*CLUSTER, "node", "job_id", "rank")

LEVELS: dict[str, tuple[str, ...]] = {
    "cluster": CLUSTER,
    "node": NODE,
    "gpu": GPU,
    "job": JOB,
    "rank": RANK,
}
"""The identifying labels of each level of aggregation, as recorded names begin with them."""

EXPORTER_RANK = ("node", "job_id", "rank")
"""What the sidecar writes on a rank's series; `cluster` and `source` come from the scrape
configuration, the only place that can give them to every exporter alike."""
EXPORTER_JOB_NODE = ("node", "job_id")
EXPORTER_GPU = ("node", "gpu_uuid")


@dataclass(frozen=True, slots=True)
class Series:
    """One series of the product.

    ``name`` is the full exposed name (for counters with ``_total``, for histograms without a
    suffix). ``unit`` is the base unit in words, "" for pure counts and ratios. ``per`` says of what
    there is one; ``series_each`` how many series one such thing may produce at most, which is the
    cardinality budget.
    """

    name: str
    type: MetricType
    unit: str
    layer: Layer
    owner: Owner
    per: Per
    help: str
    labels: tuple[str, ...] = ()
    core: bool = False
    series_each: int = 1
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = set(self.values) - set(self.labels)
        if unknown:
            raise ValueError(f"{self.name}: values given for labels it lacks: {sorted(unknown)}")
        if self.type == "counter" and not self.name.endswith("_total"):
            raise ValueError(f"{self.name}: a counter's name ends in _total")
