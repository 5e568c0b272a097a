"""Divisions that may be 0 ÷ 0, whose NaN would stand in a chart as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import promql_parser as parser

from .promql import COMPARISONS, children, unwrap

if TYPE_CHECKING:
    from collections.abc import Iterator


def unguarded(tree: Any) -> Iterator[str]:
    """Each denominator in ``tree`` that may be 0, as PromQL.

    A comparison of the quotient guards as well, since NaN fulfils none.
    """
    yield from _unguarded(tree, compared=False)


def _unguarded(node: Any, *, compared: bool) -> Iterator[str]:
    operator = str(node.op) if isinstance(node, parser.BinaryExpr) else ""
    if operator == "/" and not compared and not _never_zero(node.rhs):
        yield " ".join(node.rhs.prettify().split())
    stays = compared and isinstance(node, parser.ParenExpr)
    filters = operator in COMPARISONS and not (node.modifier and node.modifier.return_bool)
    for child in children(node):
        yield from _unguarded(child, compared=stays or filters)


def _never_zero(node: Any) -> bool:
    node = unwrap(node)
    if isinstance(node, parser.BinaryExpr):
        operator = str(node.op)
        if operator in (">", "!="):
            return True
        both = _never_zero(node.lhs) and _never_zero(node.rhs)
        return both if operator in ("*", "/", "or") else _never_zero(node.lhs)
    if isinstance(node, parser.NumberLiteral):
        return bool(node.val)
    if isinstance(node, parser.AggregateExpr):
        return str(node.op) in ("count", "group")
    return isinstance(node, parser.Call) and node.func.name == "clamp_min"
