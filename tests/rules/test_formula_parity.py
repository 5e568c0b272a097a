"""Each formula as a rule and as a plain function, over the same random fleets in real servers."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpu_actuary.catalogue.vocabulary import STATES
from gpu_actuary.formulas import balance, efficiency, value
from tests.rules.evaluators import TARGETS, Evaluation, Results, evaluate, timing
from tests.rules.fleets import PRICES, Fleet, Gpu, random_fleet

FLEETS = 40
WINDOW_SECONDS = 10
PUE, ENERGY_PRICE, TARGET_LOSS, WEIGHT, BUSY = 1.3, 0.12, 0.1, 0.5, 0.05

OVERLAY = """
version: actuary/v1
kind: Ledger
name: default
evaluation_interval: {interval}s
scrape_interval: 1s
window: {window}s
---
version: actuary/v1
kind: Inventory
name: default
silence_tolerance: 0s
"""


@pytest.fixture(scope="module")
def fleets() -> list[Fleet]:
    first = int(os.environ.get("ACTUARY_TEST_SEED", "1"))
    return [random_fleet(seed) for seed in range(first, first + FLEETS)]


@pytest.fixture(scope="module")
def evaluations(
    fleets: list[Fleet], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Evaluation]:
    """What each target has recorded after the fleets have settled; all run at the same time."""

    def run(target: str) -> Evaluation:
        times = timing(target, WINDOW_SECONDS)
        specs = OVERLAY.format(interval=times.interval, window=WINDOW_SECONDS)
        return evaluate(target, fleets, specs, times, tmp_path_factory.mktemp(target))

    with ThreadPoolExecutor(len(TARGETS)) as pool:
        return dict(zip(TARGETS, pool.map(run, TARGETS), strict=True))


@pytest.fixture(params=TARGETS)
def evaluation(request: pytest.FixtureRequest, evaluations: dict[str, Evaluation]) -> Evaluation:
    evaluation: Evaluation = evaluations[request.param]
    return evaluation


@pytest.fixture
def recorded(evaluation: Evaluation) -> Results:
    return evaluation.results


@pytest.mark.parametrize("target", ["prometheus", "mimir"])
def test_the_ledger_balances_at_every_evaluation(
    target: str, evaluations: dict[str, Evaluation]
) -> None:
    """Also while GPUs vanish and counters begin anew, and with the ledger in a group of its own."""
    residuals = evaluations[target].residuals
    assert len(residuals) > 5 * FLEETS
    assert max(map(abs, residuals)) < 1e-9


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
