"""Installing rules into a real vmalert, which reloads behind its back and refuses in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_actuary.errors import UsageError
from gpu_actuary.generator.apply import ApplyError, apply
from gpu_actuary.generator.render import Rendered, render
from gpu_actuary.generator.targets import server
from gpu_actuary.prometheus import PrometheusClient
from tests.victoria import victoria_metrics, vmalert

from .folders import SETTINGS, builtin, recording, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TWO = 'label_replace(vector(1), "a", "1", "", "") or label_replace(vector(1), "a", "2", "", "")'
ODD_LABELS = f"'vector(1) * on () group_left () ({TWO})'"
"""Parses, but fails whenever it is evaluated: its one-side has two series."""


@pytest.fixture
def rules_dir(tmp_path: Path) -> Path:
    write(
        tmp_path / "rules",
        "theirs.yaml",
        "groups: [{name: theirs, rules: [{record: x, expr: vector(1)}]}]\n",
    )
    return tmp_path / "rules"


@pytest.fixture
def evaluator(tmp_path: Path, rules_dir: Path) -> Iterator[PrometheusClient]:
    with (
        victoria_metrics(tmp_path / "storage") as storage,
        vmalert(
            tmp_path / "vmalert", rules=f"{rules_dir}/*.yaml", datasource=storage.url
        ) as client,
    ):
        yield client


def rendered(tmp_path: Path, expr: str = "sum(up)") -> Rendered:
    folder = builtin(tmp_path, a=recording("a", "cluster:a:sum", expr))
    write(folder, "settings.yaml", SETTINGS.replace("interval: 30s", "interval: 1s"))
    return render(builtin=folder, server=server("vmalert"))


def loaded(client: PrometheusClient) -> dict[str, str]:
    return {r["name"]: r["query"] for g in client.rule_groups() for r in g["rules"]}


def contents(folder: Path) -> dict[str, str]:
    return {f.name: f.read_text() for f in folder.glob("*.yaml")}


def test_rules_are_installed_evaluated_and_beside_those_of_others(
    tmp_path: Path, rules_dir: Path, evaluator: PrometheusClient
) -> None:
    applied = apply(rendered(tmp_path), rules_dir, evaluator, wait_seconds=30)
    assert (applied.rules, applied.pending, applied.unhealthy) == (1, (), ())
    assert loaded(evaluator) == {"x": "vector(1)", "cluster:a:sum": "sum(up)"}
    apply(rendered(tmp_path, "count(up)"), rules_dir, evaluator, wait_seconds=30)
    assert loaded(evaluator)["cluster:a:sum"] == "count(up)"


def test_a_rule_that_cannot_be_evaluated_undoes_everything(
    tmp_path: Path, rules_dir: Path, evaluator: PrometheusClient
) -> None:
    before = contents(rules_dir)
    with pytest.raises(ApplyError, match="1 rule cannot be evaluated:\ncluster:a:sum: "):
        apply(rendered(tmp_path, ODD_LABELS), rules_dir, evaluator, wait_seconds=30)
    assert contents(rules_dir) == before


def test_a_reload_that_another_file_spoils_in_silence_is_noticed(
    tmp_path: Path, rules_dir: Path, evaluator: PrometheusClient
) -> None:
    write(rules_dir, "broken.yaml", "groups: [{name: broken, rules: [{record: x, expr: up(}]}]")
    before = contents(rules_dir)
    with pytest.raises(ApplyError, match="or it refuses another file, see its log"):
        apply(rendered(tmp_path), rules_dir, evaluator, wait_seconds=30)
    assert contents(rules_dir) == before


def test_rules_that_vmalert_refuses_change_nothing(
    tmp_path: Path, rules_dir: Path, evaluator: PrometheusClient
) -> None:
    before = contents(rules_dir)
    newer = rendered(tmp_path, '\'up{"quoted.name"="x"}\'')  # of Prometheus 3, unknown to 1.79
    with pytest.raises(ApplyError, match="vmalert refuses the rules; nothing was changed"):
        apply(newer, rules_dir, evaluator, wait_seconds=30)
    assert contents(rules_dir) == before


def test_every_built_in_rule_is_read_back_as_it_was_written(
    rules_dir: Path, evaluator: PrometheusClient
) -> None:
    applied = apply(render(server=server("vmalert")), rules_dir, evaluator, wait_seconds=0)
    assert applied.rules > 50


@pytest.mark.parametrize(
    ("target", "instead"), [("operator", "kubectl"), ("mimir", "mimirtool rules sync")]
)
def test_a_target_without_rule_files_is_a_usage_error_that_says_what_to_do(
    tmp_path: Path, target: str, instead: str
) -> None:
    with (
        PrometheusClient("http://127.0.0.1:1") as client,
        pytest.raises(UsageError, match=instead),
    ):
        apply(render(server=server(target)), tmp_path, client, wait_seconds=0)
