"""What the dashboards ask for: valid PromQL over series and labels that the catalogue has."""

from __future__ import annotations

import re

import promql_parser
import pytest

from gpu_actuary import catalogue

from .reading import (
    BOARDS,
    Asked,
    labels_of,
    labels_out,
    put_in,
    queries,
    selectors,
    variable_queries,
)

EVERY_QUERY = [asked for name in BOARDS for asked in queries(name)]
EVERY_VARIABLE_QUERY = [pair for name in BOARDS for pair in variable_queries(name)]


def _expression(asked: Asked, **chosen: str) -> str:
    return put_in(asked.expression, BOARDS[asked.board], chosen)


def _names(asked: Asked) -> set[str]:
    return {selector.name for selector in selectors(_expression(asked))}


def test_the_overview_shows_every_core_metric_and_asks_for_nothing_else() -> None:
    shown = {name for asked in queries("overview.json") for name in _names(asked)}
    listed = {name for asked, _ in variable_queries("overview.json") for name in _names(asked)}
    core = {series.name for series in catalogue.core()}
    assert shown == core
    assert listed <= core


def test_the_core_metrics_are_at_most_twenty() -> None:
    assert len(catalogue.core()) <= catalogue.MAX_CORE == 20


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_every_selector_names_a_series_of_the_catalogue_and_its_labels(asked: Asked) -> None:
    found = selectors(_expression(asked))
    assert found
    for selector in found:
        known = labels_of(catalogue.get(selector.name))
        assert {m.name for m in selector.matchers.matchers} <= known


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_every_selector_obeys_the_chosen_cluster_and_source(asked: Asked) -> None:
    raw = asked.expression.count("{")
    assert asked.expression.count('cluster=~"$cluster"') == raw - asked.expression.count("${")
    assert asked.expression.count('source=~"$source"') == raw - asked.expression.count("${")


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_aggregations_keep_cluster_and_source_apart(asked: Asked) -> None:
    kept = labels_out(promql_parser.parse(_expression(asked)))
    assert {"cluster", "source"} <= kept


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_legends_use_only_labels_that_the_result_carries(asked: Asked) -> None:
    used = set(re.findall(r"\{\{(\w+)\}\}", asked.legend))
    assert used <= labels_out(promql_parser.parse(_expression(asked)))


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_money_names_its_currency(asked: Asked) -> None:
    monetary = any("money" in catalogue.get(n).unit for n in _names(asked) if "roi" not in n)
    carried = labels_out(promql_parser.parse(_expression(asked)))
    assert not monetary or "currency" in carried
    assert not monetary or asked.kind == "table" or "{{currency}}" in asked.legend


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_simulated_series_say_so_in_their_name(asked: Asked) -> None:
    if asked.kind == "table":
        assert asked.expression.startswith("label_replace(")
        assert asked.expression.endswith(', "source", "real", "source", "")')
    else:
        assert "{{source}}" in asked.legend or "SIMULATED" in asked.legend


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_no_query_turns_missing_into_a_number(asked: Asked) -> None:
    for trick in ("or vector", "vector(", "absent", "clamp", "scalar("):
        assert trick not in asked.expression


@pytest.mark.parametrize(("asked", "label"), EVERY_VARIABLE_QUERY, ids=str)
def test_variables_list_the_values_of_a_label_that_the_series_has(asked: Asked, label: str) -> None:
    (selector,) = selectors(_expression(asked))
    assert label in labels_of(catalogue.get(selector.name))


@pytest.mark.parametrize("window", ["1h", "24h", "7d", "30d"])
def test_every_window_of_the_balance_sheet_is_recorded(window: str) -> None:
    asked = [a for a in queries("balance-sheet.json") if "${window}" in a.expression]
    assert asked
    for query in asked:
        for selector in selectors(_expression(query, window=window)):
            assert selector.name in catalogue.BY_NAME
