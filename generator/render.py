"""From specs to the files of a target, in memory: nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .known import check_names
from .layouts import BARE, alertmanager_secret, keeps_firing, rule_documents
from .lint import lint
from .load import SpecSet, load
from .models import STAGES, Tested
from .order import Group, group
from .output import as_yaml
from .problems import Problems
from .routing import alertmanager_document, check_routes
from .rules import Rule, build
from .ruletests import test_files
from .schedule import schedule
from .settled import unsettled_specs
from .substitution import Substitution
from .targets import DEFAULT, PROMETHEUS, Server, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .layouts import Manifest
    from .models import Stage

OWN_FILES = (
    "rules/gpu-actuary-*.yaml",
    "tests/*.yaml",
    "alertmanager.yaml",
    "alertmanager-secret.yaml",
)
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
    server: Server
    notes: tuple[str, ...]
    """What the target cannot do as the specs say it, for people."""

    def rules(self) -> list[Rule]:
        """Every rule in the order of evaluation."""
        return [rule for each in self.groups for rule in each.rules]

    def rule_files(self) -> dict[str, str]:
        """The rule files alone, without their folder."""
        prefix = "rules/"
        return {n.removeprefix(prefix): t for n, t in self.files.items() if n.startswith(prefix)}

    def plain_rule_files(self) -> dict[str, str]:
        """The same rules as Prometheus and promtool read them, whatever the target."""
        documents = rule_documents(self.groups, DEFAULT, BARE)
        return {name: as_yaml(document) for name, document in documents.items()}


def render(
    user: Path | None = None,
    *,
    stage: Stage = "actuarial",
    builtin: Path | None = None,
    server: Server = DEFAULT,
    manifest: Manifest = BARE,
) -> Rendered:
    """Render the specs of the folder ``user`` over the built-in ones, up to ``stage``.

    The files are for ``server``. Rule tests are for promtool, which evaluates as Prometheus does,
    so they are rendered for Prometheus only. ``manifest`` is for Kubernetes alone.

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
    problems.raise_if_any()
    groups = schedule(groups, server.target, problems)
    command = "" if server.target is PROMETHEUS else f" --target {server.target.name}"
    documents = rule_documents(groups, server, manifest)
    files = {f"rules/{name}": as_yaml(each, command) for name, each in documents.items()}
    files["alertmanager.yaml"] = as_yaml(alertmanager_document(specs, included))
    if server.target.layout == "PrometheusRule":
        secret = alertmanager_secret(files["alertmanager.yaml"], manifest)
        files["alertmanager-secret.yaml"] = as_yaml(secret, command)
    rule_files = sorted(f"../{name}" for name in files if name.startswith("rules/"))
    unsettled = unsettled_specs(specs, rules, builtin)
    tests = left_out = 0
    for entry in specs.loaded:
        if entry.spec.stage not in included or server.target is not PROMETHEUS:
            continue
        if entry in unsettled:
            left_out += len(entry.spec.tests) if isinstance(entry.spec, Tested) else 0
            continue
        for name, document in test_files(entry, rule_files, substitution, problems).items():
            tests += len(document["tests"])
            files[f"tests/{name}"] = as_yaml(document)
    problems.raise_if_any()
    notes = tuple(_notes(groups, server, manifest))
    return Rendered(specs, tuple(groups), files, tests, left_out, server, notes)


def _notes(groups: Sequence[Group], server: Server, manifest: Manifest) -> Iterator[str]:
    target = server.target
    held = sum(keeps_firing(rule) for each in groups for rule in each.rules)
    if held and not server.keeps_firing:
        yield (
            f"{target.title} {shown(server.version)} knows no keep_firing_for: {held} alerts end as "
            f"soon as their condition does (--target-version {shown(target.keep_firing_for)} or "
            "later keeps it)"
        )
    for each in groups:
        if each.interval.seconds < target.shortest_interval_seconds:
            yield (
                f"{each.name} is evaluated every {each.interval}: {target.title} may not see in time "
                f"what it has recorded; expected at least {target.shortest_interval_seconds:g} s"
            )
    if target.layout == "PrometheusRule" and not manifest.labels:
        yield (
            "the manifests carry no labels: a Prometheus whose ruleSelector asks for one ignores "
            "them in silence (--label KEY=VALUE)"
        )
