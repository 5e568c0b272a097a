"""Panels in the product's style: time series, stat, bars, table, text.

Every panel has a title, a description that says what it means, what is good and what to do, and a
unit. Nothing is ever filled with 0: a missing value reads "No data" and a gap in a line stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grafanalib.core as g

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_DATA: Final = "No data"
NARROWEST_COLUMN: Final = 80
"""Pixels; Grafana's own 150 would push the last columns of a wide table out of sight."""

SIMULATED_CELL: Final[list[dict[str, Any]]] = [
    {
        "type": "value",
        "options": {"simulated": {"text": "SIMULATED", "color": "orange", "index": 0}},
    }
]

JOB_HEADINGS: Final[dict[str, str]] = {
    "source": "Source",
    "cluster": "Cluster",
    "job_id": "Job",
    "currency": "Currency",
    "horizon": "Horizon",
}
"""Labels of a table of jobs with their headings, in order."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and how its series are named."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the values of one expression, joined to the rest by common labels."""

    title: str
    expression: str
    unit: str
    decimals: int | None = None


Steps = tuple[tuple[str, float | None], ...]
"""Threshold colours with the value from which each holds; the first holds below all others."""


def _thresholds(steps: Steps) -> list[Any]:
    return [
        # grafanalib wants a number in the base step too and leaves it out of its output.
        g.Threshold(colour, index, float(value if value is not None else 0))
        for index, (colour, value) in enumerate(steps)
    ]


def _targets(queries: Sequence[Query], *, instant: bool, form: str = "time_series") -> list[Any]:
    return [
        g.Target(
            expr=query.expression,
            legendFormat=query.legend,
            refId=chr(ord("A") + index),
            instant=instant,
            format=form,
        )
        for index, query in enumerate(queries)
    ]


def time_series(
    title: str,
    description: str,
    queries: Sequence[Query],
    unit: str,
    *,
    stacked: bool = False,
    overrides: list[dict[str, Any]] | None = None,
    minimum: int | None = 0,
    maximum: int | None = None,
) -> Any:
    """Lines over time, or layers that add up when ``stacked``.

    ``minimum`` and ``maximum`` are soft: the axis reaches them and goes beyond where data does.
    """
    return g.TimeSeries(
        title=title,
        description=description,
        targets=_targets(queries, instant=False),
        unit=unit,
        stacking={"mode": "normal" if stacked else "none", "group": "A"},
        fillOpacity=70 if stacked else 8,
        lineWidth=0 if stacked else 2,
        showPoints="never" if stacked else "auto",
        axisSoftMin=minimum,
        axisSoftMax=maximum,
        legendDisplayMode="table" if stacked else "list",
        legendPlacement="right" if stacked else "bottom",
        legendCalcs=["last"] if stacked else [],
        tooltipMode="multi",
        tooltipSort="desc",
        thresholds=_thresholds((("green", None),)),
        overrides=overrides or [],
        extraJson={"fieldConfig": {"defaults": {"noValue": NO_DATA}}},
    )


def stat(
    title: str,
    description: str,
    query: Query,
    unit: str,
    *,
    colour: str = "blue",
    steps: Steps | None = None,
    decimals: int | None = None,
    no_value: str = NO_DATA,
    background: bool = False,
) -> Any:
    """The present value of each series, large, with its name.

    The query is instant: a series that has ended shows as missing, not with its last value.
    """
    return g.Stat(
        title=title,
        description=description,
        targets=_targets([query], instant=True),
        format=unit,
        decimals=decimals,
        color={"mode": "thresholds"} if steps else {"mode": "fixed", "fixedColor": colour},
        thresholds=_thresholds(steps or ((colour, None),)),
        colorMode="background" if background else "value",
        graphMode="none",
        reduceCalc="lastNotNull",
        textMode="value_and_name",
        noValue=no_value,
    )


def bars(
    title: str,
    description: str,
    query: Query,
    unit: str,
    *,
    overrides: list[dict[str, Any]] | None = None,
) -> Any:
    """One horizontal bar per series, from 0 to the largest, in the order of the query."""
    return g.BarGauge(
        title=title,
        description=description,
        targets=_targets([query], instant=True),
        format=unit,
        min=0,
        max=None,
        calc="lastNotNull",
        displayMode="basic",
        thresholds=_thresholds((("blue", None),)),
        extraJson={
            "fieldConfig": {"defaults": {"noValue": NO_DATA}, "overrides": overrides or []},
            "options": {
                "namePlacement": "left",
                "showUnfilled": True,
                "sizing": "auto",
                "valueMode": "color",
            },
        },
    )


def table(
    title: str,
    description: str,
    columns: Sequence[Column],
    labels: dict[str, str],
    *,
    sort_by: str,
    hidden: Sequence[str] = (),
    mappings: dict[str, list[dict[str, Any]]] | None = None,
) -> Any:
    """A row per combination of labels, a column per expression.

    ``labels`` maps the labels to show to their headings, in order, ``hidden`` names those that the
    expressions carry besides; ``mappings`` gives value mappings by heading. Raises ``ValueError`` for fewer than two columns: Grafana numbers value
    columns only from two queries on.
    """
    if len(columns) < 2:
        raise ValueError(f"table {title!r} needs at least two columns")
    cells = {"Source": SIMULATED_CELL, **(mappings or {})}
    targets = _targets(
        [Query(_with_source(c.expression), c.title) for c in columns], instant=True, form="table"
    )
    names = labels | {f"Value #{t.refId}": c.title for t, c in zip(targets, columns, strict=True)}
    return g.Table(
        title=title,
        description=description,
        targets=targets,
        unit="none",
        filterable=True,
        sortBy=[g.TableSortByField(displayName=sort_by, desc=True)],
        thresholds=_thresholds((("text", None),)),
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": dict.fromkeys(("Time", *hidden), True),
                    "indexByName": {name: index for index, name in enumerate(names)},
                    "renameByName": names,
                },
            },
        ],
        overrides=[
            *(_column_override(c) for c in columns),
            *(_mapping_override(heading, rules) for heading, rules in cells.items()),
        ],
        extraJson={
            "fieldConfig": {
                "defaults": {"noValue": NO_DATA, "custom": {"minWidth": NARROWEST_COLUMN}}
            }
        },
    )


def _with_source(expression: str) -> str:
    """Name the source on every row: columns that some rows lack would keep rows from merging."""
    return f'label_replace({expression}, "source", "real", "source", "")'


def _column_override(column: Column) -> dict[str, Any]:
    properties: list[dict[str, Any]] = [{"id": "unit", "value": column.unit}]
    if column.decimals is not None:
        properties.append({"id": "decimals", "value": column.decimals})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}


def _mapping_override(heading: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": heading},
        "properties": [
            {"id": "mappings", "value": rules},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
            {"id": "custom.minWidth", "value": _widest(rules)},
        ],
    }


def _widest(rules: list[dict[str, Any]]) -> int:
    """Pixels that the longest text of value mappings needs, at about 8 a letter."""
    texts = [result["text"] for rule in rules for result in rule["options"].values()]
    return max(NARROWEST_COLUMN, 8 * max(map(len, texts)) + 16)


def text(title: str, description: str, content: str) -> Any:
    """A note in Markdown."""
    return g.Text(title=title, description=description, content=content)
