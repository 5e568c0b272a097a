from __future__ import annotations

import re

import pytest

from gpu_actuary import catalogue
from gpu_actuary.catalogue import LEVELS, MAX_CORE, Series
from gpu_actuary.catalogue.vocabulary import (
    EQUITY,
    LIABILITIES,
    OUTSIDE_ITERATION,
    PHASES,
    REPORTED_STATES,
    SIDES,
    STATES,
    UNREPORTED_STATES,
)

BUDGETS = {
    ("exporters", "rank"): 65,
    ("exporters", "gpu"): 40,
    ("exporters", "job"): 2,
    ("rules", "gpu"): 50,
    ("rules", "rank"): 15,
    ("rules", "job"): 50,
    ("rules", "node"): 10,
    ("predictor", "gpu"): 3,
    ("predictor", "job"): 4,
}
"""Series that one thing may cost. A fleet of 10,000 GPUs pays each of them 10,000 times."""

SUFFIXES = {
    "seconds": "_seconds",
    "seconds since the epoch": "_timestamp_seconds",
    "bytes": "_bytes",
    "per hour": "_per_hour",
}


def named(series: Series) -> str:
    return series.name


exposed = [s for s in catalogue.ALL if s.owner != "rules"]
recorded = [s for s in catalogue.ALL if s.owner == "rules"]


def test_a_person_can_look_at_all_core_metrics() -> None:
    assert 0 < len(catalogue.core()) <= MAX_CORE == 20


def test_core_metrics_cover_the_layers_of_the_product() -> None:
    layers = {series.layer for series in catalogue.core()}
    assert {"physical", "task", "pipeline", "algorithm", "business", "economics"} <= layers


@pytest.mark.parametrize("series", exposed, ids=named)
def test_exposed_names_follow_the_conventions(series: Series) -> None:
    assert re.fullmatch(r"actuary_[a-z][a-z0-9_]*[a-z0-9]", series.name)
    assert (series.type == "counter") == series.name.endswith("_total")
    assert (series.type == "info") == series.name.endswith("_info")
    base = series.name.removesuffix("_total")
    assert not base.endswith(("_count", "_sum", "_bucket"))
    for unit, suffix in SUFFIXES.items():
        if series.unit == unit:
            assert base.endswith(suffix)


@pytest.mark.parametrize("series", recorded, ids=named)
def test_recorded_names_say_level_metric_and_operation(series: Series) -> None:
    level, metric, operation = series.name.split(":")
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_]*", operation)
    assert series.labels[: len(LEVELS[level])] == LEVELS[level]
    assert series.per == level


@pytest.mark.parametrize("series", catalogue.ALL, ids=named)
def test_every_series_is_described(series: Series) -> None:
    assert len(series.help) > 10
    assert series.help.endswith(".")
    assert series.series_each >= 1
    assert len(set(series.labels)) == len(series.labels)
    for label in series.labels:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", label)
        assert label not in ("job", "instance"), "these are Prometheus's own"
    for label, values in series.values.items():
        assert len(set(values)) == len(values), label


@pytest.mark.parametrize(("owner", "per"), BUDGETS)
def test_nothing_costs_more_series_than_its_budget(owner: str, per: str) -> None:
    cost = sum(s.series_each for s in catalogue.owned_by(owner) if s.per == per)
    assert 0 < cost <= BUDGETS[owner, per]


def test_every_kind_of_thing_that_grows_with_the_fleet_has_a_budget() -> None:
    growing = {(s.owner, s.per) for s in catalogue.ALL if s.per in ("rank", "gpu", "job")}
    assert growing <= set(BUDGETS)


def test_a_name_that_is_not_in_the_catalogue_is_named() -> None:
    assert catalogue.get("actuary_loss").type == "gauge"
    with pytest.raises(KeyError, match="actuary_lost is not in the metric catalogue"):
        catalogue.get("actuary_lost")


def test_a_series_with_values_for_a_label_that_it_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="labels it lacks"):
        Series("a", "gauge", "", "health", "rules", "process", "x", values={"phase": ("b",)})
    with pytest.raises(ValueError, match="ends in _total"):
        Series("a", "counter", "", "health", "rules", "process", "x")


def test_every_phase_belongs_to_exactly_one_state_and_every_state_to_one_side() -> None:
    phases = [phase for group in REPORTED_STATES.values() for phase in group]
    assert sorted(phases) == sorted(PHASES)
    assert set(OUTSIDE_ITERATION) < set(PHASES)
    assert len(STATES) == len(set(STATES)) == len(REPORTED_STATES) + len(UNREPORTED_STATES)
    assert set(SIDES) == set(STATES)
    assert not set(LIABILITIES) & set(EQUITY)
