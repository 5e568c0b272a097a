"""Every panel against a real Prometheus that holds every series it asks for."""

from __future__ import annotations

import itertools
import re
import time
from typing import TYPE_CHECKING

import pytest

from gpu_actuary.catalogue.vocabulary import EQUITY, LIABILITIES
from tests import servers

from .reading import BOARDS, Asked, put_in, queries, selectors, variable_queries
from .synthetic import (
    BUDGET,
    HOURS,
    JOBS,
    PRICE,
    STEP_SECONDS,
    STEPS,
    write_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_actuary.prometheus import PrometheusClient

WINDOWS = ("1h", "24h", "7d", "30d")
EVERY_QUERY = [asked for name in BOARDS for asked in queries(name)]
REAL, SIMULATED, ALL = "^$", "simulated", ".*"


@pytest.fixture(scope="module")
def now() -> float:
    return time.time()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, now: float) -> Iterator[PrometheusClient]:
    folder: Path = tmp_path_factory.mktemp("grafana")
    names = {
        selector.name
        for asked, window in itertools.product(EVERY_QUERY, WINDOWS)
        for selector in selectors(put_in(asked.expression, BOARDS[asked.board], {"window": window}))
    }
    write_blocks(names, folder / "data", now)
    with servers.prometheus(folder) as client:
        yield client


Answer = list[tuple[dict[str, str], float]]


def _ask(store: PrometheusClient, now: float, asked: Asked, **chosen: str | list[str]) -> Answer:
    promql = put_in(asked.expression, BOARDS[asked.board], chosen)
    if asked.instant:
        return [(dict(s.labels), s.value) for s in store.query(promql, at=now)]
    start = now - STEP_SECONDS * (STEPS - 1)
    series = store.query_range(promql, start=start, end=now, step=STEP_SECONDS)
    return [(dict(s.labels), s.points[-1][1]) for s in series]


def _panel(board: str, title: str, column: int = 0) -> Asked:
    found = [asked for asked in queries(board) if asked.panel == title]
    assert found, f"{board} has no panel {title}"
    return found[column]


def _balance(title: str) -> Asked:
    return _panel("balance-sheet.json", title)


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_every_query_is_answered_for_both_clusters(
    store: PrometheusClient, now: float, asked: Asked
) -> None:
    expected = {"beta"} if asked.panel.startswith("Simulated") else {"alpha", "beta"}
    for window in WINDOWS if "${window}" in asked.expression else WINDOWS[:1]:
        answer = _ask(store, now, asked, window=window)
        assert {labels["cluster"] for labels, _ in answer} == expected


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_real_leaves_simulated_data_out_and_simulated_leaves_real_data_out(
    store: PrometheusClient, now: float, asked: Asked
) -> None:
    real = {labels["cluster"] for labels, _ in _ask(store, now, asked, source=REAL)}
    simulated = {labels["cluster"] for labels, _ in _ask(store, now, asked, source=SIMULATED)}
    assert real == (set() if asked.panel.startswith("Simulated") else {"alpha"})
    assert simulated == {"beta"}


@pytest.mark.parametrize("asked", EVERY_QUERY, ids=str)
def test_every_label_of_a_legend_has_a_value(
    store: PrometheusClient, now: float, asked: Asked
) -> None:
    for labels, _ in _ask(store, now, asked):
        for name in set(re.findall(r"\{\{(\w+)\}\}", asked.legend)) - {"source"}:
            assert labels.get(name), f"{asked.legend} in {asked}"


def test_names_of_series_on_one_panel_are_distinct(store: PrometheusClient, now: float) -> None:
    for asked in EVERY_QUERY:
        if asked.kind != "table":
            names = [
                re.sub(r"\{\{(\w+)\}\}", lambda m, have=labels: have.get(m[1], ""), asked.legend)
                for labels, _ in _ask(store, now, asked, cluster=["alpha"])
            ]
            assert len(set(names)) == len(names), str(asked)


def test_one_cluster_and_one_job_can_be_chosen_even_with_special_characters(
    store: PrometheusClient, now: float
) -> None:
    loss = _panel("overview.json", "Training loss")
    answer = _ask(store, now, loss, cluster=["beta"], job_id=[JOBS[1]])
    assert [(labels["cluster"], labels["job_id"]) for labels, _ in answer] == [("beta", JOBS[1])]
    both = _ask(store, now, loss, cluster=["alpha", "beta"], job_id=list(JOBS))
    assert len(both) == 4


@pytest.mark.parametrize(("unit", "factor"), [("GPU-hours", 1.0), ("money", PRICE)])
def test_assets_are_liabilities_plus_equity(
    store: PrometheusClient, now: float, unit: str, factor: float
) -> None:
    def total(title: str) -> float:
        ((_, value),) = _ask(store, now, _balance(f"{title} ({unit})"), source=REAL)
        return value

    equity = [total(f"Equity, {kind}") for kind in ("proven", "available", "unproven")]
    assert total("Assets") == factor * sum(HOURS.values())
    assert total("Liabilities") == factor * sum(HOURS[state] for state in LIABILITIES)
    assert sum(equity) == factor * sum(HOURS[state] for state in EQUITY)
    assert total("Assets") == total("Liabilities") + sum(equity)


def test_money_of_different_currencies_is_never_added(store: PrometheusClient, now: float) -> None:
    answer = _ask(store, now, _balance("Assets (money)"))
    assert {labels["currency"] for labels, _ in answer} == {"EUR", "USD"}


def test_contingent_liabilities_count_each_job_once_though_two_predictors_publish_it(
    store: PrometheusClient, now: float
) -> None:
    answer = _ask(store, now, _balance("Contingent liabilities (money)"), source=REAL)
    assert [value for _, value in answer] == [BUDGET * len(JOBS)]


def test_contingent_liabilities_of_the_cluster_ignore_the_chosen_job(
    store: PrometheusClient, now: float
) -> None:
    panel = _balance("Contingent liabilities (money)")
    assert _ask(store, now, panel, job_id=[JOBS[0]]) == _ask(store, now, panel)


def test_shares_of_the_statement_sum_to_one(store: PrometheusClient, now: float) -> None:
    shares = _ask(store, now, _panel("balance-sheet.json", "Statement", 1), source=REAL)
    assert sum(value for _, value in shares) == pytest.approx(1)
    assert {labels["source"] for labels, _ in shares} == {"real"}


def test_bars_come_largest_first(store: PrometheusClient, now: float) -> None:
    values = [v for _, v in _ask(store, now, _balance("Where the GPU-hours went"), source=REAL)]
    assert values == sorted(HOURS.values(), reverse=True)


def test_proven_share_is_computing_and_evaluating_over_everything(
    store: PrometheusClient, now: float
) -> None:
    panel = _panel("overview.json", "Share of GPU time that is proven work")
    ((_, share),) = _ask(store, now, panel, source=REAL)
    proven = HOURS["compute"] + HOURS["evaluation"]
    assert share == pytest.approx(proven / sum(HOURS.values()))


def test_a_series_that_ended_is_missing_and_not_zero(store: PrometheusClient, now: float) -> None:
    for asked in EVERY_QUERY:
        promql = put_in(asked.expression, BOARDS[asked.board])
        assert store.query(promql, at=now + 600) == [], str(asked)


def test_variables_offer_what_is_there(store: PrometheusClient, now: float) -> None:
    offered = {}
    for name in BOARDS:
        for asked, label in variable_queries(name):
            samples = store.query(put_in(asked.expression, BOARDS[name]), at=now)
            offered[name, label] = {sample.labels[label] for sample in samples}
    assert {label: values for (_, label), values in offered.items()} == {
        "cluster": {"alpha", "beta"},
        "job_id": set(JOBS),
    }
