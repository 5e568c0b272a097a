"""Reading finished dashboards as Grafana does: panels, queries, variables put in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import promql_parser

from gpu_actuary.catalogue import Series, get
from gpu_actuary.grafana.boards import all_dashboards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BOARDS: dict[str, dict[str, Any]] = {
    name: json.loads(text) for name, text in all_dashboards().items()
}
GLOBALS = {"__rate_interval": "1m", "__interval": "15s", "__range": "6h"}
VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}")
IDENTITY = ("cluster", "source")
"""Labels that the scrape configuration gives to every series of an exporter."""


@dataclass(frozen=True)
class Asked:
    """One query of one panel, or of one variable (which has no legend)."""

    board: str
    panel: str
    kind: str
    expression: str
    legend: str
    instant: bool

    def __str__(self) -> str:
        return f"{self.board}: {self.panel}: {self.expression}"


def panels(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels, those in collapsed rows too, without the rows."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def data_panels(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The panels that show data."""
    return (panel for panel in panels(board) if panel["type"] != "text")


def variables(board: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in board["templating"]["list"]}


def queries(name: str) -> Iterator[Asked]:
    """The queries of the dashboard's panels, as written."""
    for panel in data_panels(BOARDS[name]):
        for t in panel["targets"]:
            yield Asked(
                name, panel["title"], panel["type"], t["expr"], t["legendFormat"], t["instant"]
            )


def variable_queries(name: str) -> Iterator[tuple[Asked, str]]:
    """The selectors of the query variables, each with the label whose values it lists."""
    for variable in variables(BOARDS[name]).values():
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert found, f"{name}: variable {variable['name']} is not a label_values query"
            asked = Asked(name, f"variable {variable['name']}", "variable", found[1], "", True)
            yield asked, found[2]


def put_in(
    text: str, board: Mapping[str, Any], chosen: Mapping[str, str | list[str]] | None = None
) -> str:
    """Replace variables as Grafana's Prometheus data source does.

    ``chosen`` overrides what the dashboard starts with. Fails for a variable that is not defined.
    """
    known = variables(board)

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name in GLOBALS:
            return GLOBALS[name]
        assert name in known, f"{text} uses ${name}, which the dashboard does not define"
        variable = known[name]
        now: Any = (chosen or {}).get(name, variable["current"]["value"])
        if variable["includeAll"] and now == ["$__all"]:
            return str(variable["allValue"])
        if variable["includeAll"] or variable["multi"]:
            escaped = [re.sub(r"([$^*{}\[\]'+?.()|\\])", r"\\\\\1", one) for one in now]
            return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
        return str(now).replace("\\", "\\\\").replace("'", "\\\\'")

    return VARIABLE.sub(value, text)


def parts(node: Any) -> Iterator[Any]:
    """The nodes of a parsed expression, outermost first."""
    yield node
    for name in ("expr", "param", "lhs", "rhs", "vector_selector"):
        inner = getattr(node, name, None)
        if inner is not None:
            yield from parts(inner)
    for argument in getattr(node, "args", None) or ():
        yield from parts(argument)


def selectors(expression: str) -> list[Any]:
    """The vector selectors of an expression whose variables are put in."""
    found = parts(promql_parser.parse(expression))
    return [node for node in found if isinstance(node, promql_parser.VectorSelector)]


def labels_of(series: Series) -> set[str]:
    """The labels that a series may carry once it is scraped or recorded."""
    return {*series.labels, *IDENTITY}


def labels_out(node: Any) -> set[str]:
    """The labels that the result of a parsed expression may carry."""
    match node:
        case promql_parser.VectorSelector():
            return labels_of(get(node.name))
        case promql_parser.AggregateExpr():
            return set(node.modifier.labels) if node.modifier else set()
        case promql_parser.ParenExpr():
            return labels_out(node.expr)
        case promql_parser.BinaryExpr():
            return labels_out(node.lhs) | labels_out(node.rhs)
        case promql_parser.Call():
            return set().union(*(labels_out(argument) for argument in node.args))
    return set()
