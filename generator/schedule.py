"""Groups and reads for servers on which a rule does not see everything of its own round.

On Prometheus the rules of one interval form one group, and each sees what the ones before it have
just recorded. Mimir takes a few rules per group only and evaluates groups by themselves; vmalert
writes behind its back, so that a rule sees others of its group only one round later. There every
rule is given a *lag* in rounds, and all that it reads is moved so that it describes one and the same
moment, that many rounds ago:

- a record with a smaller lag is read the difference of the two earlier;
- everything else (what exporters publish, the time) is read the whole lag earlier.

Samples of one interval lie at multiples of it on both servers, so such a read finds exactly the
sample that it means. What is recorded is therefore the same as on Prometheus, only later, and sums
that hold there hold here too. A recursion, which reads its own last value over a range, has no room
for a lag inside: on vmalert the instant reads among its rules are replaced by their expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .order import Group
from .promql import parse
from .reads import Read, duration, later, rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .problems import Problems
    from .rules import Rule
    from .targets import Target

TOGETHER = ("cluster:ledger_residual:ratio",)
"""What these records are computed from stands in one group as far as it has room: the ledger."""


def schedule(groups: Sequence[Group], target: Target, problems: Problems) -> list[Group]:
    """``groups``, in Prometheus's order, as ``target`` can evaluate them."""
    same_round = target.visibility == "in the same round"
    scheduled = []
    for each in groups:
        if same_round and len(each.rules) <= (target.rules_per_group or len(each.rules)):
            scheduled.append(each)
            continue
        scheduled += _Interval(each, target, same_round, problems).groups()
    if target.groups is not None and len(scheduled) > target.groups:
        rule = scheduled[-1].rules[-1]
        problems.add(
            rule.source.locate(*rule.path),
            rule.path,
            f"the rules need {len(scheduled)} groups, and {target.title} takes {target.groups}",
            "fewer specs",
        )
    return scheduled


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """A rule, or rules that read each other in a recursion, in order."""

    rules: tuple[Rule, ...]


class _Interval:
    """The rules of one interval."""

    def __init__(self, group: Group, target: Target, same_round: bool, problems: Problems) -> None:
        self._interval = group.interval
        self._target = target
        self._same_round = same_round
        self._problems = problems
        self._recorded: dict[str, list[Rule]] = {}
        for rule in group.rules:
            if not rule.alert:
                self._recorded.setdefault(rule.name, []).append(rule)
        self._units = _units(group.rules, self._recorded)
        self._unit_of = {id(rule): unit for unit in self._units for rule in unit.rules}

    def groups(self) -> list[Group]:
        """The rules in groups of the size that the target takes, with their reads moved."""
        packs = self._packed()
        pack_of = {id(unit): number for number, pack in enumerate(packs) for unit in pack}
        lags: dict[int, int] = {}
        for pack in packs:
            for unit in pack:
                seen = (
                    lags[id(source)]
                    + (not self._same_round or pack_of[id(source)] != pack_of[id(unit)])
                    for source in self._sources(unit)
                )
                lags[id(unit)] = max(seen, default=0)
        return [
            Group(
                self._interval,
                tuple(self._moved(rule, unit, lags) for unit in pack for rule in unit.rules),
                part=number if len(packs) > 1 else None,
            )
            for number, pack in enumerate(packs, start=1)
        ]

    def _sources(self, unit: _Unit) -> list[_Unit]:
        """The other units that ``unit`` reads, each once."""
        found = {
            id(source): source
            for rule in unit.rules
            for source in (self._unit_of[id(r)] for r in _read_rules(rule, self._recorded))
            if source is not unit
        }
        return list(found.values())

    def _packed(self) -> list[list[_Unit]]:
        """The units, each after what it reads, cut where a group is full."""
        limit = self._target.rules_per_group
        if limit is None:
            return [self._with_sources_close()]
        packs: list[list[_Unit]] = [[]]
        for unit in self._with_sources_close():
            if len(unit.rules) > limit:
                rule = unit.rules[0]
                self._problems.add(
                    rule.source.locate(*rule.path),
                    rule.path,
                    f"{len(unit.rules)} rules read each other in a recursion, and "
                    f"{self._target.title} takes {limit} rules a group",
                    "a smaller recursion",
                )
            if packs[-1] and sum(len(u.rules) for u in [*packs[-1], unit]) > limit:
                packs.append([])
            packs[-1].append(unit)
        return packs

    def _with_sources_close(self) -> list[_Unit]:
        """All units, each directly after those of its sources that have no place yet."""
        first = [u for u in self._units if any(rule.name in TOGETHER for rule in u.rules)]
        ordered: list[_Unit] = []
        placed: set[int] = set()
        for root in [*first, *self._units]:
            trail = [root]
            while trail:
                unit = trail[-1]
                missing = [s for s in self._sources(unit) if id(s) not in placed]
                if missing:
                    trail.append(missing[0])
                    continue
                trail.pop()
                if id(unit) not in placed:
                    placed.add(id(unit))
                    ordered.append(unit)
        return ordered

    def _moved(self, rule: Rule, unit: _Unit, lags: dict[int, int]) -> Rule:
        """``rule`` with every read where its lag puts it."""
        text = rule.expression.text
        if not self._same_round and len(unit.rules) > 1:
            text = self._without_instant_reads(rule, unit, text)
        lag, seconds = lags[id(unit)], self._interval.seconds

        def move(read: Read) -> str:
            recorders = self._recorded.get(read.name or "", [])
            if not recorders:
                return later(read, lag * seconds)
            source = self._unit_of[id(recorders[0])]
            if source is unit:
                return read.text
            difference = (lag - lags[id(source)]) * seconds
            if self._same_round or read.range or read.fixed:
                return later(read, difference)
            # vmalert leaves no mark where a series ends: only the one sample that is meant counts.
            span = replace(read, range=f"[{duration(seconds)}]")
            return f"last_over_time({later(span, difference)})"

        text = rewrite(text, move, lag_seconds=lag * seconds)
        limit = self._target.query_bytes
        if limit is not None and len(text.encode()) > limit:
            self._refuse(rule, f"is longer than the {limit} bytes that {self._target.title} takes")
        return rule if text == rule.expression.text else replace(rule, expression=parse(text))

    def _without_instant_reads(self, rule: Rule, unit: _Unit, text: str) -> str:
        """``text`` with the expression of each record of ``unit`` that it reads at an instant."""
        members = {r.name: r for r in unit.rules}

        def replaced(read: Read) -> str:
            source = members.get(read.name or "")
            if source is None or read.range:
                return read.text
            if read.selector != read.name or read.offset_seconds or read.fixed or source.labels:
                self._refuse(
                    rule, f"reads {read.text} in a recursion, which {self._target.title} cannot"
                )
                return read.text
            return f"({rewrite(source.expression.text, replaced)})"

        return rewrite(text, replaced)

    def _refuse(self, rule: Rule, message: str) -> None:
        self._problems.add(
            rule.source.locate(*rule.path),
            rule.path,
            f"{rule.name} {message}",
            "a simpler expression",
        )


def _read_rules(rule: Rule, recorded: dict[str, list[Rule]]) -> list[Rule]:
    """The rules that record what ``rule`` reads, at an instant or over a range, itself left out."""
    names = dict.fromkeys(s.name for s in rule.expression.selectors if s.name is not None)
    return [
        source
        for name in names
        if name != rule.name or rule.alert
        for source in recorded.get(name, ())
    ]


def _units(rules: Sequence[Rule], recorded: dict[str, list[Rule]]) -> list[_Unit]:
    """``rules`` as units; those that record one name, with different labels, are read together."""
    reads: dict[str | int, set[str | int]] = {}
    members: dict[str | int, list[Rule]] = {}
    for rule in rules:
        members.setdefault(_key(rule), []).append(rule)
        sources = reads.setdefault(_key(rule), set())
        sources.update(_key(source) for source in _read_rules(rule, recorded))
    reach = {key: _reachable(key, reads) for key in reads}
    units: list[_Unit] = []
    placed: set[str | int] = set()
    for key, found in reach.items():
        if key not in placed:
            loop = [
                k for k in reads if k == key or (key in found and k in found and key in reach[k])
            ]
            placed.update(loop)
            # In the order of the group, in which each stands after what it reads at an instant.
            keys = set(loop)
            together = [r for r in rules if _key(r) in keys] if len(loop) > 1 else members[key]
            units.append(_Unit(tuple(together)))
    return units


def _key(rule: Rule) -> str | int:
    return id(rule) if rule.alert else rule.name


def _reachable(start: str | int, reads: dict[str | int, set[str | int]]) -> set[str | int]:
    """All that ``start`` reads, through any number of steps."""
    found: set[str | int] = set()
    waiting = list(reads[start])
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting.extend(reads[at])
    return found
