"""From grafanalib's output to the JSON that Grafana 11 to 13 expects.

grafanalib 0.7.1 writes the dashboard schema of 2015 with some newer panels in it. Everything that
has to change because of that changes here, and nowhere else.
"""

from __future__ import annotations

import json
from typing import Any, Final

SCHEMA_VERSION: Final = 39
"""The schema of Grafana 11.0, the oldest that we serve; newer ones read it and move it forward."""

PLUGIN_VERSION: Final = "11.0.0"
"""Tells Grafana's core panels that their options need none of the migrations from before 11."""

DATA_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

_DASHBOARD_KEYS: Final = (
    "uid",
    "title",
    "description",
    "tags",
    "editable",
    "graphTooltip",
    "links",
    "panels",
    "refresh",
    "templating",
    "time",
    "timezone",
)
_LEGACY_PANEL_KEYS: Final = frozenset(
    (
        *("cacheTimeout", "color", "columns", "editable", "error", "fontSize", "height"),
        *("hideTimeOverride", "mappings", "minSpan", "span"),
    )
)
_ROW_KEYS: Final = ("id", "type", "title", "gridPos", "collapsed", "panels", "repeat")
_VARIABLE_KEYS: Final = (
    *("name", "label", "type", "query", "datasource", "current", "options", "hide"),
    *("includeAll", "multi", "allValue", "refresh", "regex", "sort"),
)
_GRAFANALIB_MAX_DATA_POINTS: Final = 100


def finish(dashboard: Any) -> dict[str, Any]:
    """The finished JSON object of a ``grafanalib.core.Dashboard``."""
    raw = json.loads(json.dumps(dashboard.auto_panel_ids(), default=_encode))
    finished = {key: raw[key] for key in _DASHBOARD_KEYS}
    finished["schemaVersion"] = SCHEMA_VERSION
    finished["annotations"] = {"list": []}
    finished["panels"] = [_panel(panel) for panel in raw["panels"]]
    finished["templating"] = {"list": [_variable(v) for v in raw["templating"]["list"]]}
    cleaned: dict[str, Any] = _without_nulls(finished)
    return cleaned


def as_text(dashboard: Any) -> str:
    """The finished JSON as it is kept in files."""
    return json.dumps(finish(dashboard), indent=2, ensure_ascii=False) + "\n"


def _encode(thing: Any) -> Any:
    return thing.to_json_data()


def _panel(raw: dict[str, Any]) -> dict[str, Any]:
    if raw["type"] == "row":
        row = {key: raw[key] for key in _ROW_KEYS}
        row["panels"] = [_panel(inner) for inner in raw["panels"]]
        return row
    panel = {key: value for key, value in raw.items() if key not in _LEGACY_PANEL_KEYS}
    panel["pluginVersion"] = PLUGIN_VERSION
    if panel["maxDataPoints"] == _GRAFANALIB_MAX_DATA_POINTS:
        # Never asked for: as a cap it would make every graph coarse.
        del panel["maxDataPoints"]
    match panel["type"]:
        case "text":
            del panel["fieldConfig"], panel["targets"]
            return panel
        case "bargauge":
            _bar_gauge(panel)
        case "table":
            _table(panel)
        case "timeseries":
            _time_series(panel)
    panel["datasource"] = DATA_SOURCE
    panel["targets"] = [_target(target) for target in raw["targets"]]
    thresholds = panel["fieldConfig"]["defaults"]["thresholds"]
    thresholds["steps"] = [_threshold(step) for step in thresholds["steps"]]
    return panel


def _target(raw: dict[str, Any]) -> dict[str, Any]:
    target = {
        "refId": raw["refId"],
        "datasource": DATA_SOURCE,
        "editorMode": "code",
        "expr": raw["expr"],
        "format": raw["format"],
        "instant": raw["instant"],
        "range": not raw["instant"],
        "legendFormat": raw["legendFormat"],
    }
    if raw["interval"]:
        target["interval"] = raw["interval"]
    return target


def _threshold(raw: dict[str, Any]) -> dict[str, Any]:
    base = raw["value"] in ("null", None)
    return {"color": raw["color"], "value": None if base else raw["value"]}


def _bar_gauge(panel: dict[str, Any]) -> None:
    """Move the options of Grafana 6 to where they have been since Grafana 7."""
    options = panel["options"]
    old = options.pop("fieldOptions")
    del options["showThresholdLabels"], options["showThresholdMarkers"]
    options["reduceOptions"] = {"calcs": old["calcs"], "fields": "", "values": old["values"]}
    defaults = panel["fieldConfig"]["defaults"]
    # grafanalib puts a bar gauge's thresholds here and leaves the modern place to the panel's own.
    defaults["thresholds"] = {"mode": "absolute", "steps": old["thresholds"]}
    defaults["color"] = {"mode": "thresholds"}
    for key in ("decimals", "max", "min", "unit"):
        defaults[key] = old["defaults"][key]


def _table(panel: dict[str, Any]) -> None:
    custom = panel["fieldConfig"]["defaults"]["custom"]
    custom["cellOptions"] = {"type": custom.pop("displayMode")}
    custom["inspect"] = False


def _time_series(panel: dict[str, Any]) -> None:
    legend = panel["options"]["legend"]
    legend["showLegend"] = legend["displayMode"] != "hidden"
    scale = panel["fieldConfig"]["defaults"]["custom"]["scaleDistribution"]
    if scale["type"] == "linear":
        del scale["log"]


def _variable(raw: dict[str, Any]) -> dict[str, Any]:
    variable = {key: raw[key] for key in _VARIABLE_KEYS}
    # Grafana reads an empty pattern as "keep everything".
    variable["regex"] = raw["regex"] or ""
    match raw["type"]:
        case "query":
            variable["datasource"] = DATA_SOURCE
            variable["definition"] = raw["query"]
            variable["query"] = {"query": raw["query"], "refId": f"Variable-{raw['name']}"}
            variable["current"] = {
                "selected": True,
                "text": ["All"],
                "value": [raw["current"]["value"]],
            }
        case "datasource":
            # Grafana then starts with its default data source of that type.
            variable["current"] = {}
    return variable


def _without_nulls(value: Any) -> Any:
    """Drop nulls, which current loaders refuse; a threshold's base step needs its one."""
    if isinstance(value, dict):
        base_step = value.keys() == {"color", "value"}
        return {
            key: _without_nulls(item)
            for key, item in value.items()
            if item is not None or base_step
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
