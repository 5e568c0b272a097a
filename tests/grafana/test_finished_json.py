"""The committed JSON: current, understood by Grafana, and with none of grafanalib's old habits."""

from __future__ import annotations

import json
import warnings
from importlib.resources import files
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import units

from gpu_actuary.catalogue.vocabulary import STATES
from gpu_actuary.grafana import provision
from gpu_actuary.grafana.boards import all_dashboards
from gpu_actuary.grafana.states import COLOURS, WORDS

from .reading import BOARDS, data_panels, panels, variables

with warnings.catch_warnings():
    # The SDK would rather have us use schema v2, which file provisioning rejects.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.models.dashboard import Dashboard

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = files("gpu_actuary.grafana")
KNOWN_UNITS = {value for value in vars(units).values() if isinstance(value, str)}
REGENERATE = "regenerate with: actuary dashboards -o grafana"

each_board = pytest.mark.parametrize("name", list(BOARDS))


def _lost(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Places where ``theirs`` lacks or changes what ``ours`` says; additions are fine."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from _lost(value, theirs[key], f"{place}/{key}")
            else:
                yield f"{place}/{key} is lost"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _lost(one, other, f"{place}/{index}")
    elif ours != theirs:
        yield f"{place} was {ours!r} and became {theirs!r}"


def _round_trip(board: dict[str, Any]) -> list[str]:
    register_default_plugins()
    return list(_lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board)))))


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _dicts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _dicts(inner)


def test_the_committed_dashboards_are_current() -> None:
    committed = {path.name: path.read_text() for path in (FOLDER / "json").iterdir()}
    assert committed == all_dashboards(), REGENERATE


def test_the_committed_provisioning_is_current() -> None:
    expected = provision.files(provision.PROMETHEUS_URL, provision.DASHBOARDS_PATH)
    for name, text in expected.items():
        assert (FOLDER / "provisioning" / name).read_text() == text, REGENERATE


@each_board
def test_grafanas_own_schema_understands_every_field(name: str) -> None:
    assert _round_trip(BOARDS[name]) == []


def test_the_round_trip_notices_a_field_that_grafana_does_not_know() -> None:
    board = json.loads(all_dashboards()["overview.json"])
    chart = next(panel for panel in board["panels"] if panel["type"] == "timeseries")
    chart["fieldConfig"]["defaults"]["custom"]["wobble"] = 3
    assert len(_round_trip(board)) == 1


@each_board
def test_nothing_is_null_but_the_base_of_thresholds(name: str) -> None:
    for thing in _dicts(BOARDS[name]):
        for key, value in thing.items():
            assert value is not None or (key == "value" and set(thing) == {"color", "value"})


@each_board
def test_thresholds_begin_with_an_open_base_and_rise(name: str) -> None:
    for panel in data_panels(BOARDS[name]):
        first, *rest = [
            step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        ]
        assert first is None
        assert rest == sorted(rest)


@each_board
def test_legacy_keys_of_grafanalib_are_gone(name: str) -> None:
    board = BOARDS[name]
    assert 39 <= board["schemaVersion"] <= 42
    legacy = {"__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style"}
    assert not legacy & set(board)
    legacy = {"error", "span", "height", "editable", "minSpan", "columns", "fontSize", "mappings"}
    for panel in panels(board):
        assert not legacy & set(panel)
        assert panel.get("maxDataPoints", 1000) > 100
        assert "fieldOptions" not in panel["options"]
        for target in panel.get("targets", ()):
            assert not {"intervalFactor", "step", "metric", "target", "query"} & set(target)


@each_board
def test_every_panel_asks_the_chosen_data_source(name: str) -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in data_panels(BOARDS[name]):
        assert panel["datasource"] == chosen
        assert all(target["datasource"] == chosen for target in panel["targets"])


@each_board
def test_every_panel_has_title_description_queries_and_a_known_unit(name: str) -> None:
    for panel in panels(BOARDS[name]):
        assert panel["title"]
        assert panel["description"]
    for panel in data_panels(BOARDS[name]):
        assert panel["targets"], panel["title"]
        config = panel["fieldConfig"]
        overridden = [
            item["value"]
            for rule in config["overrides"]
            for item in rule["properties"]
            if item["id"] == "unit"
        ]
        assert {config["defaults"]["unit"], *overridden} <= KNOWN_UNITS, panel["title"]


@each_board
def test_descriptions_say_what_is_meant_what_is_good_and_what_to_do(name: str) -> None:
    verdicts = ("good", "better", "must")
    for panel in data_panels(BOARDS[name]):
        words = panel["description"].lower()
        assert any(verdict in words for verdict in verdicts), panel["title"]
        assert len(words) > 100, panel["title"]


@each_board
def test_missing_data_says_so(name: str) -> None:
    for panel in data_panels(BOARDS[name]):
        defaults = panel["fieldConfig"]["defaults"]
        note = panel["title"] == "Simulated GPUs on this page"
        assert defaults["noValue"] == ("None" if note else "No data")
        assert defaults.get("custom", {}).get("spanNulls", False) is False


@each_board
def test_panels_do_not_overlap_and_fit_the_grid(name: str) -> None:
    boxes = [(panel["title"], panel["gridPos"]) for panel in BOARDS[name]["panels"]]
    for title, box in boxes:
        assert 0 <= box["x"] < box["x"] + box["w"] <= 24, title
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, f"{one} overlaps {other}"


@each_board
def test_panels_have_ids_of_their_own(name: str) -> None:
    ids = [panel["id"] for panel in BOARDS[name]["panels"]]
    assert len(set(ids)) == len(ids)


@each_board
def test_dashboards_refresh_each_minute_in_the_readers_time_zone_with_a_shared_crosshair(
    name: str,
) -> None:
    board = BOARDS[name]
    assert (board["refresh"], board["timezone"], board["graphTooltip"]) == ("1m", "browser", 1)


@each_board
def test_links_to_the_other_dashboards_keep_time_and_variables(name: str) -> None:
    (link,) = BOARDS[name]["links"]
    assert link["type"] == "dashboards"
    assert link["keepTime"]
    assert link["includeVars"]
    assert all(set(link["tags"]) <= set(board["tags"]) for board in BOARDS.values())


@each_board
def test_variables_come_in_the_order_in_which_they_depend_on_each_other(name: str) -> None:
    board = BOARDS[name]
    assert list(variables(board))[:4] == ["datasource", "source", "cluster", "job_id"]
    assert variables(board)["datasource"]["label"] == "Data source"
    for variable in ("cluster", "job_id"):
        assert variables(board)[variable]["includeAll"]
        assert variables(board)[variable]["multi"]


def test_dashboards_keep_the_uids_that_bookmarks_hold() -> None:
    assert {name: board["uid"] for name, board in BOARDS.items()} == {
        "overview.json": "gpu-actuary-overview",
        "balance-sheet.json": "gpu-actuary-balance-sheet",
    }


def test_provisioning_survives_addresses_and_paths_with_special_characters() -> None:
    written = provision.files('http://p:9090/a?b="c": $d', "/srv/#1: 'x'")
    (source,) = yaml.safe_load(written["datasources/gpu-actuary.yaml"])["datasources"]
    (provider,) = yaml.safe_load(written["dashboards/gpu-actuary.yaml"])["providers"]
    assert source["url"] == 'http://p:9090/a?b="c": $$d'
    assert provider["options"]["path"] == "/srv/#1: 'x'"


def test_every_ledger_state_has_words_and_a_colour_of_its_own() -> None:
    assert set(WORDS) == set(COLOURS) == set(STATES)
    assert len(set(WORDS.values())) == len(set(COLOURS.values())) == len(STATES)
