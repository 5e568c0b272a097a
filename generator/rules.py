"""Rules between spec and file: what is recorded or alerted on, with its place in the specs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .models import Alert, Alerting, Recording
from .promql import Expression, PromqlError, parse
from .substitution import SubstitutionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .load import Loaded, SpecSet
    from .models import Route, Tested
    from .problems import Path, Problems
    from .substitution import Substitution
    from .values import Duration


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, filled in and parsed. ``path`` is the place of its expression in the spec."""

    name: str
    alert: bool
    expression: Expression
    interval: Duration
    labels: dict[str, str]
    source: Loaded
    path: Path
    annotations: dict[str, str] = field(default_factory=dict)
    for_: Duration | None = None
    keep_firing_for: Duration | None = None
    unit: str | None = None
    help: str | None = None


class _Refused(Exception):
    """A value could not be filled in; its problem is noted already."""


class _Builder:
    """Turns one spec into rules; what is wrong goes to ``problems``."""

    def __init__(
        self, source: Loaded, substitution: Substitution, route: Route, problems: Problems
    ) -> None:
        self._source = source
        self._substitution = substitution
        self._route = route
        self._problems = problems

    def expression(self, text: str, path: Path) -> Expression:
        """The expression, filled in and parsed."""
        filled = self._filled(self._substitution.expression, text, path)
        try:
            return parse(filled)
        except PromqlError as error:
            found = f"PromQL: {error}: {' '.join(filled.split())[:300]}"
            self._problems.add(self._source.locate(*path), path, found)
            raise _Refused from error

    def text(self, text: str, path: Path) -> str:
        """A label value or annotation, filled in."""
        return self._filled(self._substitution.text, text, path)

    def texts(self, texts: dict[str, str], path: Path) -> dict[str, str]:
        """Several, by key."""
        return {key: self.text(text, (*path, key)) for key, text in texts.items()}

    def annotations(self, spec: Alerting) -> dict[str, str]:
        """What a notification says."""
        return {
            "summary": self.text(spec.summary, ("summary",)),
            "description": self.text(spec.description, ("description",)),
            "runbook_url": f"{self._route.runbook_base.rstrip('/')}/{spec.runbook}.md",
        }

    def alert_labels(self, spec: Alerting) -> dict[str, str]:
        """Who is concerned and how urgently."""
        fixed = {"severity": spec.severity, "team": spec.team}
        for label in sorted(set(spec.labels) & set(fixed)):
            place = self._source.locate("labels", label)
            self._problems.add(place, ("labels", label), "is set by the key of the same name")
        return {**self.texts(spec.labels, ("labels",)), **fixed}

    def _filled(self, fill: Callable[[str], str], text: str, path: Path) -> str:
        try:
            return fill(text)
        except SubstitutionError as error:
            place = self._source.locate(*path)
            # The text of a block begins in the line below its key.
            shift = error.line + 1 if "\n" in text and error.line else 0
            place = type(place)(place.file, place.line + shift)
            self._problems.add(place, path, str(error))
            raise _Refused from error


def build(specs: SpecSet, substitution: Substitution, problems: Problems) -> list[Rule]:
    """All rules of ``specs``, in reading order."""
    default_interval = specs.settings()[2].evaluation_interval
    route = specs.route()
    rules: list[Rule] = []
    for entry in specs.loaded:
        builder = _Builder(entry, substitution, route, problems)
        for make in _makers(entry, builder, default_interval):
            try:
                rules.append(make())
            except _Refused:
                continue
    return rules


def _makers(entry: Loaded, builder: _Builder, interval: Duration) -> Iterator[Callable[[], Rule]]:
    spec = entry.spec
    if isinstance(spec, Recording):
        for index in range(len(spec.rules)):
            yield lambda i=index, s=spec: _recording(s, i, entry, builder, interval)
    elif isinstance(spec, Alert):
        yield lambda s=spec: _alert(s, entry, builder, interval)


def _recording(
    spec: Recording, index: int, entry: Loaded, builder: _Builder, interval: Duration
) -> Rule:
    item, path = spec.rules[index], ("rules", index)
    return Rule(
        name=builder.text(item.record, (*path, "record")),
        alert=False,
        expression=builder.expression(item.expr, (*path, "expr")),
        interval=spec.interval or interval,
        labels=builder.texts(item.labels, (*path, "labels")),
        source=entry,
        path=(*path, "expr"),
        unit=item.unit,
        help=item.help,
    )


def _alert(spec: Alert, entry: Loaded, builder: _Builder, interval: Duration) -> Rule:
    return Rule(
        name=alert_name(spec),
        alert=True,
        expression=builder.expression(spec.expr, ("expr",)),
        interval=spec.interval or interval,
        labels=builder.alert_labels(spec),
        source=entry,
        path=("expr",),
        annotations=builder.annotations(spec),
        for_=spec.for_,
        keep_firing_for=spec.keep_firing_for,
    )


def alert_name(spec: Tested) -> str:
    """``gpu-vanished`` as ``GpuVanished``."""
    return "".join(word.capitalize() for word in spec.name.split("-"))
