"""What the expositions answer, stage by stage, and what the rules made of it."""

from __future__ import annotations

import os
import re
import time
import warnings
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests import servers
from tests.rules.expositions import SHAPES, gpu, ranks

if TYPE_CHECKING:
    from gpu_actuary.prometheus import PrometheusClient

SAMPLES = Path(
    os.environ.get(
        "ACTUARY_TELEMETRY_SAMPLES",
        Path(__file__).parents[3] / "shared" / "data" / "telemetry",
    )
)
SEQUENCE = ("0000", "0030", "0060", "0090", "0120", "0390", "0420", "1020")
"""The scrapes of the samples' story; one a stage."""

Results = dict[str, dict[tuple[str, ...], float]]
"""Name → (cluster, further labels in the order of LABELS) → value."""

LABELS = ("node", "gpu_uuid", "job_id", "state", "reason", "holder", "signal", "unit")


def samples() -> dict[str, str]:
    """The sample files by name; none, with a warning, where the folder is not at hand."""
    if not SAMPLES.is_dir():
        warnings.warn(
            f"{SAMPLES} is missing: only the test's own expositions are served; name the folder of "
            "sample expositions in ACTUARY_TELEMETRY_SAMPLES",
            stacklevel=2,
        )
        return {}
    return {path.stem: path.read_text() for path in sorted(SAMPLES.glob("*.prom"))}


class Fleet:
    """What all targets answer at the present stage."""

    def __init__(self) -> None:
        self.stage = 0
        self.markers = 0
        self.started = time.time()
        self.files = samples()
        # Two exporters of one GPU: an upgrade that overlaps, and one that names the node anew.
        self.extra = {
            "both/old": gpu("GPU-0", "19", "n", power=300, utilization=50, energy=5e9),
            "both/new": gpu("GPU-0", "19", "n", new=True, power=301, utilization=0.5, energy=5e6),
            "two-nodes/1": gpu("GPU-0", "19", "n", power=300),
            "two-nodes/2": gpu("GPU-0", "19", "dcgm-exporter-x", new=True, power=300),
            "nowhere/1": gpu("GPU-0", "19", "n", power=200),
        }

    def paths(self) -> list[str]:
        sequence = ["sample-sequence/1"] if self.files else []
        files = [f"sample-{name}/1" for name in self.files]
        return [f"{name}/1" for name in (*SHAPES, "ranks", "marker")] + [
            *self.extra,
            *files,
            *sequence,
        ]

    def answers(self, path: str) -> bool:
        """Whether this path is to be scraped with success now."""
        return self.text(path) is not None and path != "unescaped/1"

    def text(self, path: str) -> str | None:
        path = path.strip("/")
        name = path.partition("/")[0]
        if path in self.extra:
            return self.extra[path]
        if name == "marker":
            return "".join(gpu(f"GPU-{n}", str(n), "n") for n in range(self.markers))
        if name == "ranks":
            return ranks(time.time() - self.started)
        if name == "sample-sequence":
            return (SAMPLES / "sequence" / f"t{SEQUENCE[self.stage]}.prom").read_text()
        if name in SHAPES:
            return SHAPES[name](self.stage)
        return self.files[name.removeprefix("sample-")]


def job(path: str, address: str) -> dict[str, object]:
    cluster = path.partition("/")[0]
    labels = {} if cluster == "nowhere" else {"cluster": cluster}
    return {
        "job_name": f"dcgm-{path}",
        "metrics_path": f"/{path}",
        "honor_labels": False,
        "static_configs": [{"targets": [address], "labels": labels}],
    }


def read(client: PrometheusClient) -> Results:
    results: Results = {}
    for sample in client.query('{__name__=~"(gpu|job|cluster):.*|up"}'):
        labels = sample.labels
        key = (labels.get("cluster", ""), *(labels[k] for k in LABELS if k in labels))
        results.setdefault(labels["__name__"], {})[key] = sample.value
    return results


def settle(client: PrometheusClient, fleet: Fleet) -> None:
    """Wait until every target was scraped after now, and a whole round of rules has seen that.

    On a busy machine a scrape may time out where an answer was meant: then it is waited for.
    """

    def scraped_after(moment: float) -> bool:
        targets = client.targets()
        return bool(targets) and all(
            _seconds(t["lastScrape"]) > moment
            and (t["health"] == "up") == fleet.answers(t["scrapePool"].removeprefix("dcgm-"))
            for t in targets
        )

    def counted_markers() -> bool:
        counts = client.query('cluster:inventory_gpus:count{cluster="marker"}')
        return [sample.value for sample in counts] == [fleet.markers]

    def evaluated_after(moment: float) -> bool:
        groups = client.rule_groups()
        return any(g["interval"] == 1 and _seconds(g["lastEvaluation"]) > moment for g in groups)

    while True:
        now = time.time()
        servers.wait_for(partial(scraped_after, now), seconds=60, what="a scrape of every target")
        # A late round looks at a moment in the past: only a GPU that appears now proves it has seen.
        fleet.markers += 1
        servers.wait_for(counted_markers, seconds=60, what="the rules to count a GPU more")
        counted = time.time()
        servers.wait_for(partial(evaluated_after, counted), seconds=60, what="a round of the rules")
        if scraped_after(now):
            return


def _seconds(text: str) -> float:
    """Unix seconds of Prometheus's timestamps, which have nanoseconds."""
    microseconds = re.sub(r"(\.\d{6})\d*", r"\1", text).replace("Z", "+00:00")
    return datetime.fromisoformat(microseconds).timestamp()


def of(results: Results, name: str, cluster: str) -> dict[str, float]:
    """Gpu or state or … → value, of one cluster."""
    found = results.get(name, {}).items()
    return {key[-1]: value for key, value in found if key[0] == cluster}
