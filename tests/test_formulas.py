"""The formulas as plain functions: identities over random inputs, and values computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.catalogue.vocabulary import PHASES, STATES
from gpu_actuary.formulas.balance import balance_sheet, ledger_shares
from gpu_actuary.formulas.efficiency import (
    communication_efficiency,
    effective_utilization,
    mfu,
    mfu_compute,
)
from gpu_actuary.formulas.risk import (
    PRIOR_HAZARD_PER_GPU_DAY,
    elastic_budget,
    failure_probability,
    interruption_loss,
    job_failure_probability,
)
from gpu_actuary.formulas.value import (
    convergence_speed,
    quality,
    quality_progress,
    roi,
    roi_index,
    roi_per_money,
)

seconds = st.floats(min_value=0, max_value=1e6)
shares = st.floats(min_value=0, max_value=1)
probabilities = st.lists(shares, max_size=50)
phase_seconds = st.dictionaries(st.sampled_from(PHASES), st.floats(0, 4))


@given(seconds, seconds)
def test_efficiency_is_a_share_and_absent_without_iterations(exposed: float, rest: float) -> None:
    value = communication_efficiency(exposed, exposed + rest)
    if exposed + rest == 0:
        assert value is None
    else:
        assert value is not None
        assert 0 <= value <= 1


def test_efficiency_by_hand() -> None:
    assert communication_efficiency(15, 100) == pytest.approx(0.85)
    assert communication_efficiency(101, 100) is None
    assert communication_efficiency(-1, 100) is None
    assert communication_efficiency(math.nan, 100) is None


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=8))
def test_efficiency_of_a_job_lies_between_those_of_its_ranks(
    ranks: list[tuple[float, float]],
) -> None:
    pairs = [(exposed, exposed + rest + 1) for exposed, rest in ranks]
    each = [communication_efficiency(*pair) for pair in pairs]
    whole = communication_efficiency(sum(e for e, _ in pairs), sum(i for _, i in pairs))
    known = [value for value in each if value is not None]
    assert len(known) == len(pairs)
    assert whole is not None
    assert min(known) - 1e-9 <= whole <= max(known) + 1e-9


def test_mfu_by_hand() -> None:
    assert mfu(model_flops=4e14 * 10, peak_flop_seconds=1e15 * 10) == pytest.approx(0.4)
    assert mfu(1, 0) is None
    assert mfu(11, 10) is None
    assert effective_utilization(0.4, 0.85) == pytest.approx(0.34)
    assert mfu_compute(0.4, 0.8) == pytest.approx(0.5)
    assert mfu_compute(0.4, 0) is None
    assert mfu_compute(0.9, 0.5) is None


@given(st.floats(), st.floats(), st.floats())
def test_progress_is_a_share_or_absent(loss: float, initial: float, target: float) -> None:
    value = quality_progress(loss, initial, target)
    assert value is None or 0 <= value <= 1


def test_quality_by_hand_and_from_what_exists() -> None:
    assert quality_progress(1.1, 2.1, 0.1) == pytest.approx(0.5)
    assert quality_progress(3, 2.1, 0.1) == 0
    assert quality_progress(0.05, 2.1, 0.1) == 1
    assert quality_progress(1, 0.1, 0.1) is None
    assert quality(0.9, 0.5, 0.5) == pytest.approx(0.7)
    assert quality(None, 0.5, 0.5) == 0.5
    assert quality(0.9, None, 0.5) == 0.9
    assert quality(None, None, 0.5) is None
    assert quality(90, 0.5, 0.5) is None
    with pytest.raises(ValueError, match="weight"):
        quality(0.9, 0.5, 1.5)


@given(shares, shares, shares)
def test_quality_lies_between_its_parts(accuracy: float, progress: float, weight: float) -> None:
    value = quality(accuracy, progress, weight)
    assert value is not None
    assert min(accuracy, progress) - 1e-12 <= value <= max(accuracy, progress) + 1e-12


def test_convergence_speed_is_never_negative() -> None:
    assert convergence_speed(-0.39) == 0.39
    assert convergence_speed(0.5) == 0
    assert convergence_speed(math.nan) is None
    assert convergence_speed(-math.inf) is None


def test_roi_by_hand() -> None:
    assert roi(0.8, 0.39, gpus=2, energy_cost_per_hour=0.156) == pytest.approx(1)
    assert roi(0.8, 0.39, gpus=2, energy_cost_per_hour=0) is None
    assert roi(0.8, 0.39, gpus=0, energy_cost_per_hour=1) is None
    assert roi_per_money(0.8, 0.39, full_cost_per_hour=5) == pytest.approx(0.0624)
    assert roi_per_money(0.8, 0.39, full_cost_per_hour=0) is None
    assert roi_index(2, 4) == 0.5
    assert roi_index(2, 0) is None


@given(phase_seconds, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_every_gpu_second_is_in_exactly_one_state(
    reported: dict[str, float], present: bool, condemned: bool, busy: bool, allocated: bool
) -> None:
    split = ledger_shares(
        reported, present=present, condemned=condemned, busy=busy, allocated=allocated
    )
    assert set(split) <= set(STATES)
    assert all(share > 0 for share in split.values())
    assert sum(split.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("reported", "facts", "expected"),
    [
        ({"forward": 0.5, "backward": 0.2}, {}, {"compute": 0.7, "idle_free": 0.3}),
        ({"forward": 0.5}, {"allocated": True}, {"compute": 0.5, "idle_allocated": 0.5}),
        ({"forward": 1.5, "data_wait": 0.5}, {}, {"compute": 0.75, "data_wait": 0.25}),
        ({}, {"busy": True, "allocated": True}, {"uninstrumented": 1}),
        ({"forward": 0.5}, {"busy": True}, {"compute": 0.5, "idle_free": 0.5}),
        ({}, {"present": False}, {"unhealthy": 1}),
        ({"forward": 1}, {"condemned": True}, {"unhealthy": 1}),
        ({}, {}, {"idle_free": 1}),
    ],
)
def test_the_ledger_by_hand(
    reported: dict[str, float], facts: dict[str, bool], expected: dict[str, float]
) -> None:
    assert ledger_shares(reported, **{"present": True, **facts}) == pytest.approx(expected)


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(KeyError):
        ledger_shares({"dreaming": 1}, present=True)


@given(st.dictionaries(st.sampled_from(STATES), st.floats(0, 1e9)))
def test_assets_are_liabilities_plus_equity(by_state: dict[str, float]) -> None:
    sheet = balance_sheet(by_state, sum(by_state.values()))
    assert set(sheet.liabilities) | set(sheet.equity) == set(STATES)
    assert sheet.total_liabilities + sheet.total_equity == pytest.approx(sheet.assets)
    assert sheet.residual == pytest.approx(0, abs=1e-6 * max(1.0, sheet.assets))


def test_what_the_ledger_misses_is_the_residual() -> None:
    sheet = balance_sheet({"compute": 5, "data_wait": 2}, assets=8)
    assert (sheet.total_equity, sheet.total_liabilities, sheet.residual) == (5, 2, 1)
    with pytest.raises(ValueError, match="unknown ledger states: dreaming, flying"):
        balance_sheet({"flying": 1, "dreaming": 1}, assets=2)


def test_failure_by_hand() -> None:
    assert failure_probability(0, 24) == 0
    assert failure_probability(1, 24) == pytest.approx(1 - math.exp(-1))
    # Llama 3: 16,384 GPUs were interrupted 419 times in 54 days, about every three hours.
    p = failure_probability(PRIOR_HAZARD_PER_GPU_DAY, 3)
    assert job_failure_probability([p] * 16_384) == pytest.approx(0.62, abs=0.01)
    assert interruption_loss(0.5, 0.25, gpus=8, cost_per_gpu_hour=2.5) == pytest.approx(15)
    assert elastic_budget(0.1, 15, 1.2) == pytest.approx(1.8)


@given(probabilities)
def test_a_job_fails_at_least_as_likely_as_its_worst_gpu(each: list[float]) -> None:
    whole = job_failure_probability(each)
    assert 0 <= whole <= 1
    assert whole >= max(each, default=0) - 1e-12
    assert whole <= sum(each) + 1e-9
    assert whole == pytest.approx(1 - math.prod(1 - p for p in each), abs=1e-9)


def test_thousands_of_small_probabilities_lose_no_digits() -> None:
    assert job_failure_probability([1e-18] * 1000) == pytest.approx(1e-15, rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: failure_probability(-1),
        lambda: job_failure_probability([1.1]),
        lambda: job_failure_probability([math.nan]),
        lambda: interruption_loss(-1, 0, 1, 1),
        lambda: elastic_budget(1.1, 1, 1),
        lambda: elastic_budget(0.5, -1, 1),
    ],
)
def test_impossible_inputs_of_the_risk_formulas_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=r"negative|probability"):
        call()
