"""Panels in the product's style: time series, stat, bars, text (tables: see ``tables``).

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


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and how its series are named."""

    expression: str
    legend: str


Steps = tuple[tuple[str, float | None], ...]
"""Threshold colours with the value from which each holds; the first holds below all others."""


def thresholds(steps: Steps) -> list[Any]:
    """``steps`` for grafanalib."""
    return [
        # grafanalib wants a number in the base step too and leaves it out of its output.
        g.Threshold(colour, index, float(value if value is not None else 0))
        for index, (colour, value) in enumerate(steps)
    ]


def targets(queries: Sequence[Query], *, instant: bool, form: str = "time_series") -> list[Any]:
    """``queries`` for grafanalib, with the letters A, B, … as references."""
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
        targets=targets(queries, instant=False),
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
        thresholds=thresholds((("green", None),)),
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
        targets=targets([query], instant=True),
        format=unit,
        decimals=decimals,
        color={"mode": "thresholds"} if steps else {"mode": "fixed", "fixedColor": colour},
        thresholds=thresholds(steps or ((colour, None),)),
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
        targets=targets([query], instant=True),
        format=unit,
        min=0,
        max=None,
        calc="lastNotNull",
        displayMode="basic",
        thresholds=thresholds((("blue", None),)),
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


def text(title: str, description: str, content: str) -> Any:
    """A note in Markdown."""
    return g.Text(title=title, description=description, content=content)
