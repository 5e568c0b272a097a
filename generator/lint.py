"""What a rule must never do, whoever wrote it: the mistakes that silence or multiply alerts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .denominators import unguarded
from .models import Baseline
from .promql import COMPARISONS, EXPERIMENTAL_AGGREGATIONS, SET_FILTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .models import Ledger
    from .problems import Problems
    from .rules import Rule

LOOKBACK_SECONDS = 300.0
"""Prometheus's default: an instant read finds a sample no older than this."""
LONGEST_INSTANT_INTERVAL_SECONDS = 240.0
"""A record that is written less often falls out of the lookback when one evaluation is late."""

Finding = tuple[str, str]


def lint(rules: Sequence[Rule], ledger: Ledger, problems: Problems) -> None:
    """Check every rule by itself, then the rules against each other."""
    intervals = {rule.name: rule.interval.seconds for rule in rules if not rule.alert}
    for rule in rules:
        findings = [
            *_functions(rule),
            *_rates(rule, ledger),
            *_stale_reads(rule, intervals),
            *_divisions(rule),
            *(_alert(rule) if rule.alert else ()),
        ]
        for message, expected in findings:
            problems.add(rule.source.locate(*rule.path), rule.path, message, expected)
    _unique(rules, problems)


def _functions(rule: Rule) -> Iterator[Finding]:
    for function in rule.expression.functions:
        if function.experimental:
            yield f"{function.name}() is experimental in Prometheus", "a stable function"
    for operator in rule.expression.aggregations:
        if operator in EXPERIMENTAL_AGGREGATIONS:
            yield f"{operator} is experimental in Prometheus", "a stable aggregation"


def _rates(rule: Rule, ledger: Ledger) -> Iterator[Finding]:
    shortest = 2 * ledger.scrape_interval.seconds
    for function, selector in rule.expression.rate_ranges():
        if selector.range_seconds is not None and selector.range_seconds < shortest:
            yield (
                f"{function}() of {selector.name} over {selector.range_seconds:g} s sees fewer than "
                f"two scrapes of {ledger.scrape_interval}",
                f"a range of at least {shortest:g} s",
            )
    for function in rule.expression.rates_over_aggregations():
        yield (
            f"{function}() of an aggregation takes one target's restart for a reset of the whole",
            f"{function}() inside, the aggregation outside",
        )


def _stale_reads(rule: Rule, intervals: dict[str, float]) -> Iterator[Finding]:
    for selector in rule.expression.selectors:
        interval = intervals.get(selector.name or "", 0)
        if selector.range_seconds is None and interval > LONGEST_INSTANT_INTERVAL_SECONDS:
            yield (
                f"reads {selector.name}, which is recorded every {interval:g} s only, at an instant;"
                f" it goes stale after {LOOKBACK_SECONDS:g} s",
                f"last_over_time({selector.name}[…])",
            )


def _divisions(rule: Rule) -> Iterator[Finding]:
    if isinstance(rule.source.spec, Baseline):
        return  # its scale has a floor
    for denominator in unguarded(rule.expression.tree):
        yield f"divides by {denominator}, which may be 0", "a guard: (… > 0)"


def _alert(rule: Rule) -> Iterator[Finding]:
    expression = rule.expression
    filters = (
        any(
            operator in COMPARISONS and not returns_bool
            for operator, returns_bool in expression.operators
        )
        or any(operator in SET_FILTERS for operator, _ in expression.operators)
        or any(f.name in ("absent", "absent_over_time") for f in expression.functions)
        or any((s.name or "").endswith(":bool") for s in expression.selectors)
    )
    if not filters:
        yield "fires whenever its series exist", "a comparison, such as > 0"
    for operator in expression.aggregations:
        if operator in ("topk", "bottomk"):
            yield (
                f"{operator} makes alerts flap between the series that it chooses",
                "a threshold, or a recorded series",
            )
    for label, text in rule.labels.items():
        if re.search(r"\$value|\.Value\b", text):
            yield (
                f"the label {label} holds the value, so each evaluation is a new alert",
                "the value in the description",
            )


def _unique(rules: Sequence[Rule], problems: Problems) -> None:
    first: dict[tuple[str, bool, tuple[tuple[str, str], ...]], Rule] = {}
    for rule in rules:
        key = (rule.name, rule.alert, tuple(sorted(rule.labels.items())))
        if key in first:
            earlier = first[key].source.locate(*first[key].path)
            problems.add(
                rule.source.locate(*rule.path),
                rule.path,
                f"{rule.name} with the same labels stands twice; first at {earlier}",
                "one rule, or different static labels",
            )
        first.setdefault(key, rule)
