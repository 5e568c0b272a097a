"""Which series exist: the catalogue, what the specs record, and well-known exporters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpu_actuary.catalogue import BY_NAME

from .models import STAGES, Tested
from .problems import nearest
from .values import RECORDED_LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .problems import Problems
    from .promql import Selector
    from .rules import Rule

WELL_KNOWN = re.compile(
    r"up|ALERTS|ALERTS_FOR_STATE|DCGM_\w+"
    r"|(scrape|prometheus|alertmanager|process|go|node|kube|container|slurm)_\w+"
)
"""Series of Prometheus itself and of exporters that stand in every cluster."""

_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def exported_names() -> frozenset[str]:
    """The names of the catalogue that are not recorded by rules, as they are exposed."""
    names: set[str] = set()
    for series in BY_NAME.values():
        if series.owner == "rules":
            continue
        parts = _HISTOGRAM_PARTS if series.type == "histogram" else ("",)
        names.update(series.name + part for part in parts)
    return frozenset(names)


def check_names(rules: Sequence[Rule], problems: Problems) -> None:
    """Every record has a meaning, and every read finds something that exists in its stage."""
    recorded: dict[str, int] = {}
    for rule in rules:
        if not rule.alert:
            stage = STAGES.index(rule.source.spec.stage)
            recorded[rule.name] = min(stage, recorded.get(rule.name, stage))
            _check_record(rule, problems)
    exported = exported_names()
    for rule in rules:
        for selector in rule.expression.selectors:
            _check_read(rule, selector, recorded, exported, problems)


def _check_record(rule: Rule, problems: Problems) -> None:
    place, path = rule.source.locate(*rule.path[:-1], "record"), (*rule.path[:-1], "record")
    series = BY_NAME.get(rule.name)
    if series is not None and series.owner == "rules":
        return
    if series is not None:
        problems.add(
            place, path, f"{rule.name} is published by the {series.owner}", "a name of its own"
        )
        return
    levels = "|".join(RECORDED_LEVELS)
    if not re.fullmatch(rf"({levels}):[a-z][a-z0-9_]*:[a-z0-9_]+", rule.name):
        problems.add(
            place,
            path,
            f"{rule.name!r} is not a recorded name",
            f"level:metric:operation, level one of {', '.join(RECORDED_LEVELS)}",
        )
    elif rule.unit is None or rule.help is None:
        names = [name for name, s in BY_NAME.items() if s.owner == "rules"]
        problems.add(
            place,
            path,
            f"{rule.name} is not in the catalogue{nearest(rule.name, names)}",
            "`unit` and `help` beside a record of your own",
        )


def _check_read(
    rule: Rule,
    selector: Selector,
    recorded: dict[str, int],
    exported: frozenset[str],
    problems: Problems,
) -> None:
    name, path = selector.name, rule.path
    place = rule.source.locate(*path)
    if name is None:
        if selector.pattern is None:
            problems.add(place, path, "a selector without a name reads every series", "a name")
        return
    spec = rule.source.spec
    if name in recorded:
        if recorded[name] > STAGES.index(spec.stage):
            later = STAGES[recorded[name]]
            problems.add(
                place, path, f"stage {spec.stage} reads {name} of stage {later}", f"stage: {later}"
            )
        return
    declared = isinstance(spec, Tested) and name in spec.external
    if declared or name in exported or WELL_KNOWN.fullmatch(name):
        return
    if name in BY_NAME:
        problems.add(place, path, f"reads {name}, which no spec records", "a rule that records it")
        return
    near = nearest(name, [*recorded, *exported])
    problems.add(
        place,
        path,
        f"reads {name}, which nothing publishes{near}",
        "a known series, or `external: [name]`",
    )
