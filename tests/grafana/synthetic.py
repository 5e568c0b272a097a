"""Samples for every series of the catalogue that a dashboard asks for, in a real Prometheus.

Two clusters: ``alpha`` is real (no ``source``) and pays in EUR, ``beta`` is simulated and pays in
USD. Two replicas of the predictor publish the same series. Values of the ledger and of the balance
sheet are chosen so that their sums are known.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from typing import TYPE_CHECKING

from gpu_actuary import catalogue
from gpu_actuary.catalogue.vocabulary import SIDES, STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from gpu_actuary.catalogue import Series

CLUSTERS = ({"cluster": "alpha"}, {"cluster": "beta", "source": "simulated"})
CURRENCIES = {"alpha": "EUR", "beta": "USD"}
STEP_SECONDS, STEPS = 15, 20
HOURS = {state: float(2**index) for index, state in enumerate(STATES)}
"""GPU-hours of each state: powers of two, so that any sum tells which states are in it."""
PRICE = 3.0
BUDGET = 7.0
JOBS = ("alpha-7b", "beta.2 (retry)")
OTHER_VALUES = {
    "horizon": ("24h",),
    "job_id": JOBS,
    "node": ("n1", "n2"),
    "gpu_uuid": ("GPU-1", "GPU-2"),
    "rank": ("0", "1"),
    "reason": ("hazard",),
}


def _identities(series: Series) -> Iterator[dict[str, str]]:
    """The label sets of the series in both clusters; ``side`` follows from ``state``."""
    replicas = ("a:9420", "b:9420") if series.owner == "predictor" else ("",)
    free = [name for name in series.labels if name not in ("cluster", "source", "side", "currency")]
    choices = [series.values.get(name) or OTHER_VALUES[name] for name in free]
    for place, replica, *values in itertools.product(CLUSTERS, replicas, *choices):
        labels = {**place, **dict(zip(free, values, strict=True))}
        if "side" in series.labels:
            labels["side"] = SIDES[labels["state"]]
        if "currency" in series.labels:
            labels["currency"] = CURRENCIES[labels["cluster"]]
        if replica:
            labels["instance"] = replica
        yield labels


def _value(series: Series, labels: dict[str, str]) -> float:
    if "state" in labels:
        return HOURS[labels["state"]] * (PRICE if "money" in series.name else 1.0)
    if series.name == "actuary_elastic_budget":
        return BUDGET
    return 0.5


def open_metrics(names: Iterable[str], now: float) -> str:
    """OpenMetrics text of the named series for the last minutes before ``now``."""
    lines = []
    for name in sorted(names):
        series = catalogue.get(name)
        lines.append(f"# TYPE {name} gauge")
        for labels in _identities(series):
            written = ",".join(f'{key}="{value}"' for key, value in labels.items())
            lines += [
                f"{name}{{{written}}} {_value(series, labels)} {now - STEP_SECONDS * step:.3f}"
                for step in reversed(range(STEPS))
            ]
    return "\n".join([*lines, "# EOF", ""])


def write_blocks(names: Iterable[str], folder: Path, now: float) -> None:
    """Write the samples as Prometheus blocks into ``folder``."""
    promtool = shutil.which("promtool")
    assert promtool, "promtool is not installed: make tools"
    folder.mkdir(parents=True)
    source = folder.parent / "samples.om"
    source.write_text(open_metrics(names, now))
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(source), str(folder)],
        check=True,
        capture_output=True,
        timeout=60,
    )
