"""What must hold for any input: the risk formulas, the override table, the option parsers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.errors import UsageError
from gpu_actuary.formulas.risk import (
    elastic_budget,
    failure_probability,
    interruption_loss,
    job_failure_probability,
)
from gpu_actuary.predictor.gpus import estimate
from gpu_actuary.predictor.hazard import PriorHazard
from gpu_actuary.predictor.identity import Gpu
from gpu_actuary.predictor.inputs import Snapshot
from gpu_actuary.predictor.options import parse_headers
from gpu_actuary.predictor.overrides import CERTAIN, OVERRIDES, Evidence, decide

probabilities = st.floats(min_value=0, max_value=1)
amounts = st.floats(min_value=0, max_value=1e9)


@given(st.lists(probabilities, max_size=50), probabilities)
def test_another_gpu_never_lowers_the_probability_of_a_job(ps: list[float], p: float) -> None:
    before, after = job_failure_probability(ps), job_failure_probability([*ps, p])
    assert 0 <= before <= 1
    assert 0 <= after <= 1
    assert after >= before or math.isclose(after, before, rel_tol=1e-12)


@given(st.lists(probabilities, min_size=1, max_size=50))
def test_a_job_is_at_least_as_likely_to_fail_as_its_worst_gpu_and_at_most_as_their_sum(
    ps: list[float],
) -> None:
    together = job_failure_probability(ps)
    assert together >= max(ps) * (1 - 1e-12)
    assert together <= min(1.0, math.fsum(ps)) * (1 + 1e-12)


@given(st.lists(st.fractions(min_value=0, max_value=1, max_denominator=1000), max_size=8))
def test_the_probability_of_a_job_is_the_exact_product(ps: list[Fraction]) -> None:
    survival = math.prod((1 - p for p in ps), start=Fraction(1))
    assert job_failure_probability(map(float, ps)) == pytest.approx(float(1 - survival), rel=1e-9)


@pytest.mark.parametrize("p", [1e-9, 1e-12, 1e-15, 1e-18])
def test_ten_thousand_tiny_probabilities_keep_their_digits(p: float) -> None:
    exact = 1 - (1 - Fraction(p)) ** 10_000
    assert job_failure_probability([p] * 10_000) == pytest.approx(float(exact), rel=1e-12)


@given(st.floats(min_value=0, max_value=10), st.floats(min_value=0, max_value=10))
def test_failure_probability_grows_with_the_hazard_and_stays_below_it(
    one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert 0 <= failure_probability(low) <= failure_probability(high) <= 1
    assert failure_probability(high) <= high * (1 + 1e-12)


@given(amounts, amounts, amounts, st.floats(min_value=0, max_value=1e6), probabilities)
def test_a_budget_never_exceeds_the_loss_and_is_all_of_it_when_the_loss_is_certain(
    hours: float, restart: float, gpus: float, cost: float, p: float
) -> None:
    loss = interruption_loss(hours, restart, gpus, cost)
    assert 0 <= elastic_budget(p, loss, 1.0) <= loss
    assert elastic_budget(1.0, loss, 1.0) == loss


evidence = st.builds(
    Evidence,
    condemned=st.frozensets(st.sampled_from(["row_remap_failure", "xid_64", "other"])),
    vanished=st.booleans(),
    new_xids=st.frozensets(st.integers(min_value=1, max_value=160)),
    remap_pending=st.booleans(),
    new_double_bit=st.booleans(),
)


@given(evidence)
def test_a_certain_fact_always_comes_before_an_elevated_one(facts: Evidence) -> None:
    applying = [override for override in OVERRIDES if override.applies(facts)]
    chosen = decide(facts)
    if chosen is None:
        assert applying == []
    else:
        assert chosen.probability == max(override.probability for override in applying)


@given(st.frozensets(st.sampled_from([13, 31, 94])))
def test_xids_of_the_application_decide_nothing(codes: frozenset[int]) -> None:
    assert decide(Evidence(new_xids=codes)) is None


def snapshot(**known: object) -> Snapshot:
    nothing: dict[str, object] = {
        "at": 1000.0,
        "inventory": {},
        "present": {},
        "seen_by_sidecar_only": frozenset(),
        "condemned": {},
        "new_xids": {},
        "remap_pending": frozenset(),
        "new_double_bit": frozenset(),
        "devices": {},
        "world_size": {},
        "checkpoint_age_seconds": {},
        "unsaved_seconds": {},
        "cost_per_hour": {},
    }
    return Snapshot(**{**nothing, **known})  # type: ignore[arg-type]  # names are checked by the call


@given(st.floats(min_value=0, max_value=10), st.booleans())
def test_an_elevated_fact_never_lowers_what_the_model_says(hazard: float, pending: bool) -> None:
    gpu = Gpu("c", "", "n", "G")
    known = snapshot(
        inventory={gpu: 1000.0},
        present={gpu: 1000.0},
        remap_pending=frozenset({gpu} if pending else ()),
    )
    result = estimate(known, PriorHazard(hazard), stale_after_seconds=60).estimates[gpu]
    model = failure_probability(hazard)
    assert result.probability == (max(model, 0.006) if pending else model)
    assert (result.reason == "row_remap_pending") == (pending and model <= 0.006)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("uvw"), st.integers(0, 3)), max_size=12
    )
)
def test_every_gpu_is_either_estimated_or_withheld_and_a_silent_node_is_never_lost(
    gpus: list[tuple[str, str, int]],
) -> None:
    inventory = {Gpu("c", "", node, uuid): 1000.0 for node, uuid, _ in gpus}
    present = {Gpu("c", "", node, uuid): 1000.0 for node, uuid, state in gpus if state == 0}
    result = estimate(
        snapshot(inventory=inventory, present=present), PriorHazard(1e-3), stale_after_seconds=60
    )
    assert result.estimates.keys() | result.withheld.keys() == inventory.keys()
    assert not result.estimates.keys() & result.withheld.keys()
    reporting = {gpu.node for gpu in present}
    for gpu in inventory.keys() - present.keys():
        if gpu.node in reporting:
            assert result.estimates[gpu].probability == CERTAIN
        else:
            assert result.withheld[gpu] == "silent"


@given(st.text(max_size=20))
def test_a_header_is_sendable_or_a_clear_error_that_keeps_its_value(text: str) -> None:
    try:
        headers = parse_headers([text])
    except UsageError as error:
        assert "--header number 1" in str(error)
    else:
        (pair,) = headers.items()
        assert "=".join(pair) == text
        assert "".join(pair).isascii()
