"""Which rule tests still speak about the rules that the settings yield.

The tests of the built-in specs compute their expectations with the built-in settings (a price, a
window). Where a user's settings change a rule, or one that it reads, such a test would fail without
a fault; it is left out. Tests of the user's own specs always stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .load import load
from .models import Tested
from .problems import Problems
from .rules import build
from .substitution import Substitution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .load import Loaded, SpecSet
    from .promql import Expression
    from .rules import Rule


def unsettled_specs(specs: SpecSet, rules: Sequence[Rule], builtin: Path | None) -> set[Loaded]:
    """The built-in specs whose tests see a rule that the settings of the user change.

    A test sees the rules of its spec, what they read, and what its queries ask for.
    """
    if not any(entry.users and entry.spec.settings for entry in specs.loaded):
        return set()
    changed = _changed_by_settings(specs, rules, builtin)
    names = {rule.name for rule in changed if not rule.alert}
    spread = True
    while spread:
        readers = {r.name for r in rules if not r.alert and _reads_any(r.expression, names)}
        spread = not readers <= names
        names |= readers
    concerned = {
        rule.source
        for rule in rules
        if rule in changed or rule.name in names or _reads_any(rule.expression, names)
    }
    concerned |= {entry for entry in specs.loaded if _asks_for_any(entry, names)}
    return {entry for entry in concerned if not entry.users}


def _changed_by_settings(specs: SpecSet, rules: Sequence[Rule], builtin: Path | None) -> set[Rule]:
    # The specs are valid here, and so were the built-in settings before the overlay.
    ignored = Problems()
    defaults = load(None, ignored, builtin=builtin)
    substitution = Substitution(defaults.settings(), specs.folders)
    before = {
        (rule.source, rule.path): (rule.expression.text, rule.labels)
        for rule in build(specs, substitution, ignored)
    }
    return {
        rule
        for rule in rules
        if before.get((rule.source, rule.path)) != (rule.expression.text, rule.labels)
    }


def _reads_any(expression: Expression, names: set[str]) -> bool:
    return any(
        selector.name in names
        if selector.name is not None
        else any(selector.reads(name) for name in names)
        for selector in expression.selectors
    )


def _asks_for_any(entry: Loaded, names: set[str]) -> bool:
    if not isinstance(entry.spec, Tested):
        return False
    queries = {e.query for test in entry.spec.tests for e in test.expect if e.query}
    # A query is a template too, so its names are looked for in the text.
    return any(name in query for query in queries for name in names)
