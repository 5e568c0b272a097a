"""Each formula as a rule and as a plain function, over the same random fleets in a real Prometheus."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from gpu_actuary.catalogue.vocabulary import STATES
from gpu_actuary.formulas import balance, efficiency, value
from tests import servers
from tests.rules.fleets import PRICES, Fleet, Gpu, exposition, random_fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLEETS = 60
WINDOW_SECONDS = 10
VANISH_AFTER = 6.0
SETTLED_SECONDS = VANISH_AFTER + 2 * WINDOW_SECONDS + 6
PUE, ENERGY_PRICE, TARGET_LOSS, WEIGHT, BUSY = 1.3, 0.12, 0.1, 0.5, 0.05

OVERLAY = f"""
version: actuary/v1
kind: Ledger
name: default
evaluation_interval: 1s
scrape_interval: 1s
window: {WINDOW_SECONDS}s
---
version: actuary/v1
kind: Inventory
name: default
silence_tolerance: 0s
"""

Results = dict[str, dict[tuple[str, ...], float]]


@pytest.fixture(scope="module")
def fleets() -> list[Fleet]:
    first = int(os.environ.get("ACTUARY_TEST_SEED", "1"))
    return [random_fleet(seed) for seed in range(first, first + FLEETS)]


@pytest.fixture(scope="module")
def recorded(fleets: list[Fleet], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Every recorded series after the fleets have settled: name → (cluster, …) → value."""
    folder: Path = tmp_path_factory.mktemp("parity")
    (folder / "specs").mkdir()
    (folder / "specs" / "ledger.yaml").write_text(OVERLAY)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "gpu_actuary",
            "render",
            "-i",
            folder / "specs",
            "-o",
            folder / "out",
        ],
        check=True,
    )
    start = time.time()

    def text(_: str) -> str:
        now_ms = int(time.time() * 1000)
        return exposition(fleets, now_ms / 1000 - start, now_ms, VANISH_AFTER)

    with servers.exposition(text) as address:
        scrape = {
            "job_name": "fleet",
            "honor_labels": True,
            "static_configs": [{"targets": [address]}],
        }
        rules = sorted((folder / "out" / "rules").glob("*.yaml"))
        # Samples with a time of their own get no stale marker in Prometheus 2.42: a short lookback
        # makes a GPU vanish when its samples stop.
        with servers.prometheus(
            folder / "prometheus",
            scrape=[scrape],
            rule_files=rules,
            flags=["--query.lookback-delta=3s"],
        ) as client:
            servers.wait_for(
                lambda: time.time() - start > SETTLED_SECONDS,
                seconds=60,
                what="the fleets to settle",
            )
            unhealthy = [
                (rule["name"], rule["lastError"])
                for group in client.rule_groups()
                for rule in group["rules"]
                if rule["health"] == "err"
            ]
            assert unhealthy == []
            results: Results = {}
            for sample in client.query('{__name__=~"(gpu|job|cluster):.*"}'):
                labels = dict(sample.labels)
                name = labels.pop("__name__")
                rest = [
                    labels[k] for k in ("job_id", "gpu_uuid", "state", "formula") if k in labels
                ]
                key = (labels.pop("cluster"), *rest)
                results.setdefault(name, {})[key] = sample.value
            yield results


def _expect(results: Results, name: str, key: tuple[str, ...], expected: float | None) -> None:
    got = results.get(name, {}).get(key)
    if expected is None:
        assert got is None, f"{name}{key}: a rule gave {got}, the formula nothing"
    else:
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-9), f"{name}{key}"


def test_every_gpu_second_is_in_exactly_one_state(fleets: list[Fleet], recorded: Results) -> None:
    """The identity, over restarts, vanished and shared GPUs, duplicates and both generations."""
    for fleet in fleets:
        inventory = recorded["cluster:inventory_gpus:count"][fleet.cluster,]
        assert inventory == len(fleet.gpus), fleet.cluster
        states = {
            state: recorded["cluster:ledger_gpus:rate"][fleet.cluster, state] for state in STATES
        }
        assert sum(states.values()) == pytest.approx(inventory, rel=1e-9), fleet.cluster
        assert min(states.values()) >= 0
        assert recorded["cluster:ledger_residual:ratio"][fleet.cluster,] == pytest.approx(
            0, abs=1e-9
        )
        for gpu in fleet.gpus:
            shares = [
                share
                for (cluster, uuid, _), share in recorded["gpu:ledger_share:rate"].items()
                if (cluster, uuid) == (fleet.cluster, gpu.uuid)
            ]
            assert sum(shares) == pytest.approx(1, rel=1e-9), (fleet.cluster, gpu.uuid)


def test_ledger_shares_equal_the_plain_function(fleets: list[Fleet], recorded: Results) -> None:
    for fleet in (f for f in fleets if f.steady):
        for gpu in fleet.gpus:
            phases: dict[str, float] = {}
            for rank in gpu.ranks:
                for phase, slope in rank.phases.items():
                    phases[phase] = phases.get(phase, 0) + slope
            shares = balance.ledger_shares(
                phases,
                present=not gpu.vanishes,
                condemned=gpu.condemned,  # also when vanished: the last word holds
                busy=gpu.utilization > BUSY,
                allocated=gpu.allocated,
            )
            for state in STATES:
                got = recorded["gpu:ledger_share:rate"].get((fleet.cluster, gpu.uuid, state), 0.0)
                assert got == pytest.approx(shares.get(state, 0.0), abs=1e-7), (
                    fleet.cluster,
                    gpu,
                    state,
                )


def test_ledger_cost_is_the_share_times_the_price(fleets: list[Fleet], recorded: Results) -> None:
    for fleet in fleets:
        total = sum(PRICES[gpu.model] for gpu in fleet.gpus)
        cost = sum(
            money
            for (cluster, _), money in recorded["cluster:ledger_cost:money_per_hour"].items()
            if cluster == fleet.cluster
        )
        assert cost == pytest.approx(total, rel=1e-9), fleet.cluster
        assets = recorded["cluster:inventory_cost:money_per_hour"][fleet.cluster,]
        assert assets == pytest.approx(total, rel=1e-9), fleet.cluster


def test_efficiency_equals_the_plain_functions(fleets: list[Fleet], recorded: Results) -> None:
    for fleet in (f for f in fleets if f.steady):
        for job in fleet.jobs:
            key = (fleet.cluster, job)
            ranks = fleet.ranks(job)
            timed = [r for r in ranks if "comm_exposed" in r.phases]
            eta = efficiency.communication_efficiency(
                sum(r.phases["comm_exposed"] for r in timed), sum(r.iteration for r in timed)
            )
            _expect(recorded, "job:communication_efficiency:ratio", key, eta)
            measured = [r for r in ranks if r.flops is not None and r.peak is not None]
            mfu = efficiency.mfu(
                sum(r.flops or 0 for r in measured), sum(r.wall * (r.peak or 0) for r in measured)
            )
            _expect(recorded, "job:mfu:ratio", key, mfu)
            if mfu is not None and eta is not None:
                _expect(
                    recorded,
                    "job:effective_utilization:ratio",
                    key,
                    efficiency.effective_utilization(mfu, eta),
                )
                _expect(recorded, "job:mfu_compute:ratio", key, efficiency.mfu_compute(mfu, eta))


def test_value_equals_the_plain_functions(fleets: list[Fleet], recorded: Results) -> None:
    compared = 0
    for fleet in (f for f in fleets if f.steady):
        for job in fleet.jobs:
            key = (fleet.cluster, job)
            evaluation = fleet.evaluations[job]
            ranks = fleet.ranks(job)
            progress = (
                value.quality_progress(evaluation.loss, evaluation.initial_loss, TARGET_LOSS)
                if evaluation.loss is not None and evaluation.initial_loss is not None
                else None
            )
            _expect(recorded, "job:quality_progress:ratio", key, progress)
            quality = value.quality(evaluation.accuracy, progress, WEIGHT)
            if evaluation.own_quality is not None:
                quality = evaluation.own_quality
            _expect(recorded, "job:quality:ratio", key, quality)
            speed = value.convergence_speed(sum(r.loss_slope for r in ranks) / len(ranks))
            _expect(recorded, "job:convergence:per_hour", key, speed)

            shares = _job_shares(fleet, job)
            powers = [gpu.power if not gpu.vanishes else None for gpu, _ in shares]
            energy = (
                sum((g.power or 0) * s for g, s in shares) / 1000 * PUE * ENERGY_PRICE
                if None not in powers
                else None
            )
            _expect(recorded, "job:energy_cost:money_per_hour", key, energy)
            cost = sum(PRICES[gpu.model] * share for gpu, share in shares)
            _expect(recorded, "job:cost:money_per_hour", key, cost)
            if quality is None or speed is None:
                continue
            gpus = sum(share for _, share in shares)
            roi = value.roi(quality, speed, gpus, energy) if energy is not None else None
            _expect(recorded, "job:roi:ratio", key, roi)
            _expect(
                recorded,
                "job:roi_per_money:ratio",
                key,
                value.roi_per_money(quality, speed, cost),
            )
            compared += roi is not None
    assert compared > 5, "the random fleets hold too few jobs with an ROI to prove anything"


def _job_shares(fleet: Fleet, job: str) -> list[tuple[Gpu, float]]:
    shares = []
    for gpu in fleet.gpus:
        jobs = {rank.job for rank in gpu.ranks}
        if job in jobs:
            shares.append((gpu, 1 / len(jobs)))
    return shares
