"""From specs to the files of a target, in memory: nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .known import check_names
from .lint import lint
from .load import SpecSet, load
from .models import STAGES, Tested
from .order import Group, group
from .output import as_yaml
from .problems import Problems
from .routing import alertmanager_document, check_routes
from .rules import Rule, build
from .ruletests import test_files
from .settled import unsettled_specs
from .substitution import Substitution

if TYPE_CHECKING:
    from pathlib import Path

    from .models import Stage

OWN_FILES = ("rules/gpu-actuary-*.yaml", "tests/*.yaml", "alertmanager.yaml")
"""The names, as patterns, under which rendered files stand; stale ones among them are removed."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Specs, the rules that they yield, and the texts of all files by name."""

    specs: SpecSet
    groups: tuple[Group, ...]
    files: dict[str, str]
    tests: int
    left_out: int
    """Tests of built-in specs that assume built-in settings which the user's replace."""

    def rules(self) -> list[Rule]:
        """Every rule in the order of evaluation."""
        return [rule for each in self.groups for rule in each.rules]

    def rule_files(self) -> dict[str, str]:
        """The rule files alone, without their folder."""
        prefix = "rules/"
        return {n.removeprefix(prefix): t for n, t in self.files.items() if n.startswith(prefix)}


def render(
    user: Path | None = None, *, stage: Stage = "actuarial", builtin: Path | None = None
) -> Rendered:
    """Render the specs of the folder ``user`` over the built-in ones, up to ``stage``.

    Raises :class:`~.problems.SpecError` with everything that is wrong, and
    :class:`~gpu_actuary.errors.UsageError` when a folder is missing.
    """
    problems = Problems()
    specs = load(user, problems, builtin=builtin)
    problems.raise_if_any()
    substitution = Substitution(specs.settings(), specs.folders)
    rules = build(specs, substitution, problems)
    # Names are checked over all stages, so that the choice of a stage hides no mistake.
    check_names(rules, problems)
    lint(rules, specs.settings()[2], problems)
    check_routes(specs, problems)
    included = STAGES[: STAGES.index(stage) + 1]
    chosen = [rule for rule in rules if rule.source.spec.stage in included]
    groups = group(chosen, problems)
    files = {f"rules/{each.name}.yaml": as_yaml(_rule_file(each)) for each in groups}
    files["alertmanager.yaml"] = as_yaml(alertmanager_document(specs, included))
    rule_files = sorted(f"../{name}" for name in files if name.startswith("rules/"))
    unsettled = unsettled_specs(specs, rules, builtin)
    tests = left_out = 0
    for entry in specs.loaded:
        if entry.spec.stage not in included:
            continue
        if entry in unsettled:
            left_out += len(entry.spec.tests) if isinstance(entry.spec, Tested) else 0
            continue
        for name, document in test_files(entry, rule_files, substitution, problems).items():
            tests += len(document["tests"])
            files[f"tests/{name}"] = as_yaml(document)
    problems.raise_if_any()
    return Rendered(specs, tuple(groups), files, tests, left_out)


def _rule_file(each: Group) -> dict[str, Any]:
    return {
        "groups": [
            {
                "name": each.name,
                "interval": str(each.interval),
                "rules": [_rule(rule) for rule in each.rules],
            }
        ]
    }


def _rule(rule: Rule) -> dict[str, Any]:
    document: dict[str, Any] = {"alert" if rule.alert else "record": rule.name}
    document["expr"] = rule.expression.text
    if rule.for_ is not None and rule.for_.seconds:
        document["for"] = str(rule.for_)
    if rule.keep_firing_for is not None and rule.keep_firing_for.seconds:
        document["keep_firing_for"] = str(rule.keep_firing_for)
    if rule.labels:
        document["labels"] = rule.labels
    if rule.annotations:
        document["annotations"] = rule.annotations
    return document
