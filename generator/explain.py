"""One spec after the overlay: its values with their places, and the PromQL that it yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_actuary.errors import UsageError

from .problems import format_path, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .load import Loaded
    from .models import Spec
    from .problems import Path
    from .render import Rendered
    from .rules import Rule


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a spec; ``place`` is the file and line, or that the default stands in."""

    path: str
    value: Any
    place: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything about one spec."""

    entry: Loaded
    values: tuple[Value, ...]
    rules: tuple[Rule, ...]


def explain(rendered: Rendered, name: str) -> list[Explanation]:
    """The specs called ``name``, or that yield the record or alert ``name``.

    Raises :class:`UsageError` with a suggestion when there is none.
    """
    rules = rendered.rules()
    yielding = {id(rule.source) for rule in rules if rule.name == name}
    found = [
        entry
        for entry in rendered.specs.loaded
        if name in (entry.spec.name, f"{entry.spec.kind}/{entry.spec.name}")
        or id(entry) in yielding
    ]
    if not found:
        known = {e.spec.name for e in rendered.specs.loaded} | {rule.name for rule in rules}
        raise UsageError(
            f"no spec, record or alert is called {name!r}{nearest(name, sorted(known))}"
        )
    return [
        Explanation(
            entry,
            tuple(_values(entry)),
            tuple(r for r in rules if r.source is entry and (not yielding or r.name == name)),
        )
        for entry in found
    ]


def as_text(explanation: Explanation) -> str:
    """For people."""
    spec = explanation.entry.spec
    lines = [f"{spec.kind} {spec.name} (stage {spec.stage})", f"  {explanation.entry.locate()}", ""]
    width = max(len(value.path) for value in explanation.values)
    for value in explanation.values:
        shown = " ".join(str(value.value).split())
        shown = shown if len(shown) <= 60 else f"{shown[:59]}…"
        lines.append(f"  {value.path:<{width}}  {shown:<60}  {value.place}")
    for rule in explanation.rules:
        kind = "alert" if rule.alert else "record"
        lines += ["", f"{kind} {rule.name}, every {rule.interval}"]
        lines += [f"    {line}" for line in rule.expression.text.splitlines()]
        lines += [f"    {key}: {value}" for key, value in sorted(rule.labels.items())]
    return "\n".join(lines)


def as_data(explanation: Explanation) -> dict[str, Any]:
    """For scripts."""
    spec = explanation.entry.spec
    return {
        "kind": spec.kind,
        "name": spec.name,
        "stage": spec.stage,
        "place": str(explanation.entry.locate()),
        "values": [
            {"path": v.path, "value": v.value, "place": v.place} for v in explanation.values
        ],
        "rules": [
            {
                "alert" if rule.alert else "record": rule.name,
                "interval": str(rule.interval),
                "expr": rule.expression.text,
                "labels": rule.labels,
            }
            for rule in explanation.rules
        ],
    }


def _values(entry: Loaded) -> Iterator[Value]:
    written = set()
    for path, value in _leaves(entry.document.data, ()):
        if path and path[0] not in ("tests", "version", "kind", "name"):
            written.add(path[0])
            yield Value(format_path(path), value, str(entry.locate(*path)))
    yield from _defaults(entry.spec, written)


def _defaults(spec: Spec, written: set[str | int]) -> Iterator[Value]:
    for name, field in type(spec).model_fields.items():
        key = field.alias or name
        if key not in written and name not in ("tests", "version", "kind", "name", "disabled"):
            value = getattr(spec, name)
            if value not in (None, [], {}):
                yield Value(key, str(value), "default")


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    elif isinstance(value, list) and value:
        for index, below in enumerate(value):
            yield from _leaves(below, (*path, index))
    else:
        yield path, value
