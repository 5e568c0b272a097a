"""The servers that evaluate rules for real: Prometheus, and vmalert with VictoriaMetrics.

Each scrapes random fleets, evaluates what is rendered for a target, and is asked for every record
once the fleets have settled. No Mimir is at hand: its groups are evaluated by a Prometheus, which
evaluates groups by themselves as well, and without the common moments that Mimir gives them.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from gpu_actuary.generator.output import write_files
from gpu_actuary.generator.render import render
from gpu_actuary.generator.targets import server
from tests import servers
from tests.rules.fleets import exposition
from tests.victoria import victoria_metrics, vmalert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from gpu_actuary.prometheus import PrometheusClient
    from tests.rules.fleets import Fleet

TARGETS = ("prometheus", "mimir", *(["vmalert"] if os.environ.get("ACTUARY_TEST_VMALERT") else []))
"""vmalert writes without waiting, and on a busy machine loses rounds: it runs when asked for."""

Results = dict[str, dict[tuple[str, ...], float]]
"""name → (cluster, and what else tells its series apart) → value."""

RECORDS = '{__name__=~"(gpu|job|cluster):.*"}'
LOOKBACK = "8s"
"""Samples with a time of their own get no stale marker: a short lookback makes a GPU vanish."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: between evaluations, until GPUs vanish, and until every record has settled."""

    interval: int
    vanish_after: float
    settled_after: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was recorded in the end, and every sample of the residual on the way there."""

    results: Results
    residuals: tuple[float, ...]


def timing(target: str, window: float) -> Timing:
    """How long ``target`` needs; on vmalert each step of the rules takes a round of its own."""
    if target == "vmalert":
        return Timing(2, 10, 10 + 2 * window + 10 * 2 + 8)
    return Timing(2, 10, 10 + 2 * window + 10)


def evaluate(
    target: str, fleets: list[Fleet], specs: str, timing: Timing, folder: Path
) -> Evaluation:
    """Evaluate what is rendered for ``target`` from ``specs`` over the built-in ones."""
    (folder / "specs").mkdir()
    (folder / "specs" / "settings.yaml").write_text(specs)
    rendered = render(folder / "specs", server=server(target))
    files = rendered.rule_files() if target == "vmalert" else rendered.plain_rule_files()
    write_files(folder / "rules", files)
    start = time.time()

    def text(_: str) -> str:
        now_ms = int(time.time() * 1000)
        return exposition(fleets, now_ms / 1000 - start, now_ms, timing.vanish_after)

    run = _vmalert if target == "vmalert" else _prometheus
    with servers.exposition(text) as address, run(folder, address) as (rules, storage):
        servers.wait_for(
            lambda: time.time() - start > timing.settled_after,
            seconds=timing.settled_after + 60,
            what="the fleets to settle",
        )
        failures = [
            (rule["name"], rule["lastError"])
            for group in rules.rule_groups()
            for rule in group["rules"]
            if rule.get("lastError")
        ]
        assert failures == []
        residuals = storage.stored("cluster:ledger_residual:ratio", start=start, end=time.time())
        return Evaluation(
            _complete(storage, _last if target == "vmalert" else _now, timing.interval),
            tuple(v for series in residuals for _, v in series.points if not math.isnan(v)),
        )


def _scrape(address: str) -> dict[str, object]:
    return {
        "job_name": "fleet",
        "honor_labels": True,
        "static_configs": [{"targets": [address]}],
    }


@contextlib.contextmanager
def _prometheus(folder: Path, address: str) -> Iterator[tuple[PrometheusClient, PrometheusClient]]:
    with servers.prometheus(
        folder / "prometheus",
        scrape=[_scrape(address)],
        rule_files=sorted((folder / "rules").glob("*.yaml")),
        flags=[f"--query.lookback-delta={LOOKBACK}"],
    ) as client:
        yield client, client


@contextlib.contextmanager
def _vmalert(folder: Path, address: str) -> Iterator[tuple[PrometheusClient, PrometheusClient]]:
    with (
        victoria_metrics(folder / "storage", scrape=[_scrape(address)]) as storage,
        _at_once(storage),
        vmalert(
            folder / "vmalert",
            rules=f"{folder}/rules/*.yaml",
            datasource=storage.url,
            flags=["-remoteWrite.flushInterval=100ms", f"-datasource.queryStep={LOOKBACK}"],
        ) as rules,
    ):
        yield rules, storage


@contextlib.contextmanager
def _at_once(storage: PrometheusClient) -> Iterator[None]:
    """Make new series visible at once: VictoriaMetrics takes up to 10 s, too long for a test."""
    ended = threading.Event()

    def flush() -> None:
        while not ended.wait(0.3):
            httpx.get(f"{storage.url}/internal/force_flush", trust_env=False)

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _complete(
    storage: PrometheusClient,
    fetch: Callable[[PrometheusClient], Iterator[tuple[Mapping[str, str], float]]],
    pause: float,
) -> Results:
    """The records once two looks find the same series: a busy machine may lose a round."""
    for _ in range(20):
        before = _results(fetch(storage))
        time.sleep(pause)
        now = _results(fetch(storage))
        if {name: set(now[name]) for name in now} == {name: set(before[name]) for name in before}:
            return now
    raise AssertionError("the records come and go")


def _now(storage: PrometheusClient) -> Iterator[tuple[Mapping[str, str], float]]:
    """Each record as Prometheus answers now."""
    for sample in storage.query(RECORDS):
        yield sample.labels, sample.value


def _last(storage: PrometheusClient) -> Iterator[tuple[Mapping[str, str], float]]:
    """The last sample of each record: VictoriaMetrics would answer for 30 s ago.

    Not where that is a stale marker, which says that the series has ended.
    """
    now = time.time()
    for series in storage.stored(RECORDS, start=now - 10, end=now):
        if series.points and not math.isnan(series.points[-1][1]):
            yield series.labels, series.points[-1][1]


def _results(samples: Iterator[tuple[Mapping[str, str], float]]) -> Results:
    results: Results = {}
    for labels, value in samples:
        rest = [labels[k] for k in ("job_id", "gpu_uuid", "state", "formula") if k in labels]
        results.setdefault(labels["__name__"], {})[labels["cluster"], *rest] = value
    return results
