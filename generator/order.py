"""The order of evaluation: rules of one interval form one group, each after what it reads.

Prometheus evaluates the rules of a group one after the other and groups at unrelated moments, so a
rule sees this round's value of what it reads only from its own group, further up. An instant read
is therefore binding. A read over a range looks at the past as well: it is put after its source
where possible, but may form a loop, which is how a recursion reads its own last value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .problems import Problems
    from .rules import Rule
    from .values import Duration


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order.

    ``part`` counts the groups of one interval, where a server needs several.
    """

    interval: Duration
    rules: tuple[Rule, ...]
    part: int | None = None

    @property
    def file(self) -> str:
        """The name of the file for all groups of the interval, without its ending."""
        return f"gpu-actuary-{self.interval}"

    @property
    def name(self) -> str:
        """The group's name."""
        return self.file if self.part is None else f"{self.file}-{self.part}"


def group(rules: Sequence[Rule], problems: Problems) -> list[Group]:
    """``rules`` by interval, the shortest first; loops of instant reads become problems."""
    recordings: dict[str, list[int]] = {}
    for position, rule in enumerate(rules):
        if not rule.alert:
            recordings.setdefault(rule.name, []).append(position)
    binding = [_sources(rule, recordings, instant=True) for rule in rules]
    wished = [_sources(rule, recordings, instant=False) for rule in rules]
    _report_loops(rules, binding, problems)
    by_seconds: dict[float, list[int]] = {}
    for position, rule in enumerate(rules):
        by_seconds.setdefault(rule.interval.seconds, []).append(position)
    groups = []
    for seconds in sorted(by_seconds):
        members = sorted(by_seconds[seconds], key=lambda p: (rules[p].alert, p))
        ordered = _ordered(members, binding, wished)
        groups.append(Group(rules[ordered[0]].interval, tuple(rules[p] for p in ordered)))
    return groups


def _sources(rule: Rule, recordings: dict[str, list[int]], *, instant: bool) -> set[int]:
    """The positions of the rules that record what ``rule`` reads, itself left out."""
    found: set[int] = set()
    for selector in rule.expression.selectors:
        if instant and selector.range_seconds is not None:
            continue
        if selector.name is not None:
            names: Iterable[str] = (selector.name,) if selector.name in recordings else ()
        else:
            names = (name for name in recordings if selector.reads(name))
        for name in names:
            if name != rule.name or rule.alert:
                found.update(recordings[name])
    return found


def _ordered(members: list[int], binding: list[set[int]], wished: list[set[int]]) -> list[int]:
    """``members`` so that each follows what it reads, otherwise as they stand."""
    waiting = dict.fromkeys(members)
    ordered = []
    while waiting:
        chosen = next(
            (p for p in waiting if not (wished[p] & waiting.keys())),
            None,
        )
        if chosen is None:
            chosen = next((p for p in waiting if not (binding[p] & waiting.keys())), None)
        if chosen is None:  # a loop, which has been reported
            chosen = next(iter(waiting))
        del waiting[chosen]
        ordered.append(chosen)
    return ordered


def _report_loops(rules: Sequence[Rule], binding: list[set[int]], problems: Problems) -> None:
    done: set[int] = set()
    for start in range(len(rules)):
        loop = _find_loop(start, binding, done)
        if loop:
            rule = rules[loop[0]]
            names = " → ".join(rules[p].name for p in [*loop, loop[0]])
            problems.add(
                rule.source.locate(*rule.path),
                rule.path,
                f"rules read each other in a loop: {names}",
                "no loop; a rule that needs an earlier value reads it with last_over_time(…)",
            )


def _find_loop(start: int, binding: list[set[int]], done: set[int]) -> list[int]:
    """A loop that can be reached from ``start``, without recursion; visited rules enter ``done``."""
    trail: list[int] = []
    branches = [iter((start,))]
    while branches:
        position = next(branches[-1], None)
        if position is None:
            branches.pop()
            if trail:
                done.add(trail.pop())
        elif position in trail:
            loop = trail[trail.index(position) :]
            done.update(trail)
            return loop
        elif position not in done:
            trail.append(position)
            branches.append(iter(sorted(binding[position])))
    return []
