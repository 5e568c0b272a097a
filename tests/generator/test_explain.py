from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_actuary.errors import UsageError
from gpu_actuary.generator.explain import as_data, as_text, explain
from gpu_actuary.generator.render import render

from .folders import builtin, recording, write

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_actuary.generator.render import Rendered


@pytest.fixture
def rendered(tmp_path: Path) -> Rendered:
    folder = builtin(
        tmp_path,
        cost=recording("cost", "cluster:cost:sum", "sum(up) * << economics.energy.pue >>"),
    )
    mine = "version: actuary/v1\nkind: Economics\nname: default\nenergy:\n  pue: 1.1\n"
    write(tmp_path / "user", "mine.yaml", mine)
    return render(tmp_path / "user", builtin=folder)


def test_each_value_of_a_setting_says_where_it_comes_from(
    tmp_path: Path, rendered: Rendered
) -> None:
    [explanation] = explain(rendered, "Economics/default")
    places = {value.path: (value.value, value.place) for value in explanation.values}
    assert places["energy.pue"] == (1.1, f"{tmp_path}/user/mine.yaml:5")
    assert places["energy.price_per_kwh"] == (0.12, f"{tmp_path}/builtin/settings.yaml:5")
    assert places["stage"] == ("foundation", "default")


@pytest.mark.parametrize("name", ["cost", "Recording/cost", "cluster:cost:sum"])
def test_a_spec_is_found_by_its_name_and_by_what_it_records(rendered: Rendered, name: str) -> None:
    [explanation] = explain(rendered, name)
    assert [rule.expression.text for rule in explanation.rules] == ["sum(up) * 1.1"]
    assert "record cluster:cost:sum, every 30s\n    sum(up) * 1.1" in as_text(explanation)
    assert as_data(explanation)["rules"] == [
        {"record": "cluster:cost:sum", "interval": "30s", "expr": "sum(up) * 1.1", "labels": {}}
    ]


def test_a_name_that_several_kinds_share_shows_all_of_them(rendered: Rendered) -> None:
    kinds = [explanation.entry.spec.kind for explanation in explain(rendered, "default")]
    assert kinds == ["Economics", "Inventory", "Ledger", "Route"]


def test_an_unknown_name_is_a_usage_error_with_a_suggestion(rendered: Rendered) -> None:
    with pytest.raises(UsageError, match=r"'cluster:cost:sun' \(did you mean 'cluster:cost:sum'\?"):
        explain(rendered, "cluster:cost:sun")
