"""Tables whose columns come from several queries, joined by their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grafanalib.core as g

from .panels import NO_DATA, Query, targets, thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTER_PIXELS: Final = 8
CELL_PADDING_PIXELS: Final = 16
FEWEST_LETTERS: Final = 8
"""Room for a number with its unit, like 739.27 K."""


@dataclass(frozen=True, slots=True)
class Label:
    """A column that shows a label.

    ``letters`` is how many of them it has room for; None takes what the other columns leave.
    ``words`` maps values of the label to (text, colour).
    """

    name: str
    heading: str
    letters: int | None
    words: dict[str, tuple[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column that shows the values of one expression; rows meet by their common labels."""

    heading: str
    expression: str
    unit: str
    decimals: int | None = None


SOURCE: Final = Label("source", "Source", 10, {"simulated": ("SIMULATED", "orange")})
JOB_LABELS: Final = (
    SOURCE,
    Label("cluster", "Cluster", 14),
    Label("job_id", "Job", None),
    Label("currency", "Currency", 8),
    Label("horizon", "Horizon", 7),
)
"""The labels of a table of jobs."""


def table(
    title: str,
    description: str,
    labels: Sequence[Label],
    columns: Sequence[Column],
    *,
    sort_by: str,
    hidden: Sequence[str] = (),
) -> Any:
    """A row per combination of labels, a column per label and per expression.

    The largest values of the heading ``sort_by`` come first; ``hidden`` names labels that the
    expressions carry besides. Raises ``ValueError`` for fewer than two columns: Grafana numbers
    value columns only from two queries on.
    """
    if len(columns) < 2:
        raise ValueError(f"table {title!r} needs at least two columns")
    asked = targets(
        [Query(_with_source(c.expression), c.heading) for c in columns], instant=True, form="table"
    )
    headings = {label.name: label.heading for label in labels}
    headings |= {f"Value #{t.refId}": c.heading for t, c in zip(asked, columns, strict=True)}
    return g.Table(
        title=title,
        description=description,
        targets=asked,
        unit="none",
        filterable=True,
        sortBy=[g.TableSortByField(displayName=sort_by, desc=True)],
        thresholds=thresholds((("text", None),)),
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": dict.fromkeys(("Time", *hidden), True),
                    "indexByName": {name: index for index, name in enumerate(headings)},
                    "renameByName": headings,
                },
            },
        ],
        overrides=[*map(_label_rule, labels), *map(_column_rule, columns)],
        extraJson={"fieldConfig": {"defaults": {"noValue": NO_DATA}}},
    )


def _with_source(expression: str) -> str:
    """Name the source on every row: columns that some rows lack would keep rows from merging."""
    return f'label_replace({expression}, "source", "real", "source", "")'


def _label_rule(label: Label) -> dict[str, Any]:
    properties: list[dict[str, Any]] = []
    if label.letters is not None:
        properties.append(_width(label.letters))
    if label.words:
        options = {
            value: {"text": text, "color": colour, "index": index}
            for index, (value, (text, colour)) in enumerate(label.words.items())
        }
        properties += [
            {"id": "mappings", "value": [{"type": "value", "options": options}]},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ]
    return {"matcher": {"id": "byName", "options": label.heading}, "properties": properties}


def _column_rule(column: Column) -> dict[str, Any]:
    properties: list[dict[str, Any]] = [
        {"id": "unit", "value": column.unit},
        _width(max(FEWEST_LETTERS, len(column.heading))),
    ]
    if column.decimals is not None:
        properties.append({"id": "decimals", "value": column.decimals})
    return {"matcher": {"id": "byName", "options": column.heading}, "properties": properties}


def _width(letters: int) -> dict[str, Any]:
    return {"id": "custom.width", "value": LETTER_PIXELS * letters + CELL_PADDING_PIXELS}
