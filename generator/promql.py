"""What an expression reads and does, from its syntax tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import promql_parser as parser

if TYPE_CHECKING:
    from collections.abc import Iterator

RATES = frozenset({"rate", "irate", "increase", "delta", "idelta", "deriv", "resets", "changes"})
COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
SET_FILTERS = frozenset({"and", "unless"})
EXPERIMENTAL_AGGREGATIONS = frozenset({"limitk", "limit_ratio"})


class PromqlError(Exception):
    """Text that is not PromQL."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One read of series: by ``name``, or by the regular expression ``pattern`` over names.

    ``range_seconds`` is None for an instant read.
    """

    name: str | None
    pattern: str | None
    range_seconds: float | None

    def reads(self, name: str) -> bool:
        """Whether the selector can match a series called ``name``."""
        if self.name is not None:
            return self.name == name
        return self.pattern is not None and re.fullmatch(self.pattern, name) is not None


@dataclass(frozen=True)
class Expression:
    """A parsed expression with the facts that rendering and lint ask for."""

    text: str
    tree: Any

    @cached_property
    def selectors(self) -> tuple[Selector, ...]:
        """Every read, in order of appearance."""
        return tuple(_selectors(self.tree))

    @cached_property
    def nodes(self) -> tuple[Any, ...]:
        """Every node of the tree, the root first."""
        return tuple(_walk(self.tree))

    @cached_property
    def functions(self) -> tuple[Any, ...]:
        """Every function that is called."""
        return tuple(n.func for n in self.nodes if isinstance(n, parser.Call))

    @cached_property
    def aggregations(self) -> tuple[str, ...]:
        """Every aggregation operator."""
        return tuple(str(n.op) for n in self.nodes if isinstance(n, parser.AggregateExpr))

    @cached_property
    def operators(self) -> tuple[tuple[str, bool], ...]:
        """Every binary operator, each with whether it has the modifier ``bool``."""
        return tuple(
            (str(n.op), bool(n.modifier and n.modifier.return_bool))
            for n in self.nodes
            if isinstance(n, parser.BinaryExpr)
        )

    def rate_ranges(self) -> Iterator[tuple[str, Selector]]:
        """Each rate-like call over a plain range, with what it reads."""
        for node in self.nodes:
            if isinstance(node, parser.Call) and node.func.name in RATES:
                argument = unwrap(node.args[0])
                if isinstance(argument, parser.MatrixSelector):
                    yield node.func.name, next(_selectors(argument))

    def rates_over_aggregations(self) -> Iterator[str]:
        """Rate-like functions that are applied to a sum: resets of a part look like decreases."""
        for node in self.nodes:
            if isinstance(node, parser.Call) and node.func.name in RATES - {"delta", "deriv"}:
                argument = unwrap(node.args[0])
                inner = _walk(argument) if isinstance(argument, parser.SubqueryExpr) else ()
                if any(isinstance(n, parser.AggregateExpr) for n in inner):
                    yield node.func.name


def parse(text: str) -> Expression:
    """Parse ``text``; raises :class:`PromqlError` with the parser's reason."""
    try:
        return Expression(text, parser.parse(text))
    # The parser reports a panic as an exception that is not an Exception's usual subclass.
    except (ValueError, OverflowError, RecursionError) as error:
        raise PromqlError(str(error).strip() or "cannot be parsed") from error


def unwrap(node: Any) -> Any:
    """``node`` without the parentheses around it."""
    while isinstance(node, parser.ParenExpr):
        node = node.expr
    return node


def children(node: Any) -> tuple[Any, ...]:
    """The expressions directly inside ``node``."""
    if isinstance(node, parser.BinaryExpr):
        return (node.lhs, node.rhs)
    if isinstance(node, parser.Call):
        return tuple(node.args)
    if isinstance(node, parser.AggregateExpr):
        return (node.param, node.expr) if isinstance(node.param, parser.Expr) else (node.expr,)
    if isinstance(node, parser.ParenExpr | parser.UnaryExpr | parser.SubqueryExpr):
        return (node.expr,)
    return ()


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for child in children(node):
        yield from _walk(child)


def _selectors(node: Any) -> Iterator[Selector]:
    if isinstance(node, parser.VectorSelector):
        yield _selector(node, None)
    elif isinstance(node, parser.MatrixSelector):
        yield _selector(node.vector_selector, node.range.total_seconds())
    elif isinstance(node, parser.SubqueryExpr) and isinstance(node.expr, parser.VectorSelector):
        # A subquery reads instant values, but over a range: one that is late is still seen.
        yield _selector(node.expr, node.range.total_seconds() if node.range else 0.0)
    else:
        for child in children(node):
            yield from _selectors(child)


def _selector(node: Any, range_seconds: float | None) -> Selector:
    name, pattern = node.name, None
    for matcher in node.matchers.matchers:
        if matcher.name == "__name__":
            if matcher.op == parser.MatchOp.Equal:
                name = matcher.value
            elif matcher.op == parser.MatchOp.Re:
                pattern = matcher.value
    return Selector(name, None if name else pattern, range_seconds)
