"""Rules between spec and file: what is recorded or alerted on, with its place in the specs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .baseline import SCORE, alert_expression, record_name, recordings
from .models import Alert, Alerting, Baseline, Recording
from .problems import Location
from .promql import Expression, PromqlError, parse
from .substitution import SubstitutionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .load import Loaded, SpecSet
    from .problems import Path, Problems
    from .substitution import Substitution
    from .values import Duration


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule, filled in and parsed. ``path`` is the place of its expression in the spec.

    Two are equal only when they are the same.
    """

    name: str
    alert: bool
    expression: Expression
    interval: Duration
    source: Loaded
    path: Path
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    for_: Duration | None = None
    keep_firing_for: Duration | None = None
    unit: str | None = None
    help: str | None = None


def build(specs: SpecSet, substitution: Substitution, problems: Problems) -> list[Rule]:
    """All rules of ``specs``, in reading order; what cannot be built becomes a problem."""
    interval = specs.settings()[2].evaluation_interval
    runbooks = specs.route().runbook_base.rstrip("/")
    rules: list[Rule] = []
    for entry in specs.loaded:
        builder = _Builder(entry, substitution, interval, runbooks, problems)
        rules.extend(builder.rules())
    return rules


class _RefusedError(Exception):
    """A value could not be filled in; its problem is noted already."""


@dataclass(frozen=True, slots=True)
class _Builder:
    """Turns one spec into rules."""

    source: Loaded
    substitution: Substitution
    interval: Duration
    runbooks: str
    problems: Problems

    def rules(self) -> Iterator[Rule]:
        """The rules of the spec that can be built."""
        spec = self.source.spec
        if isinstance(spec, Recording):
            for index in range(len(spec.rules)):
                yield from self._unless_refused(lambda i=index, s=spec: self._recording(s, i))  # type: ignore[misc]  # mypy cannot infer defaults of a lambda
        elif isinstance(spec, Alert):
            yield from self._unless_refused(lambda: self._alert(spec))
        elif isinstance(spec, Baseline):
            yield from self._baseline(spec)

    def _unless_refused(self, make: Callable[[], Rule]) -> Iterator[Rule]:
        try:
            yield make()
        except _RefusedError:
            return

    def _recording(self, spec: Recording, index: int) -> Rule:
        item, path = spec.rules[index], ("rules", index)
        return Rule(
            name=self._text(item.record, (*path, "record")),
            alert=False,
            expression=self._expression(item.expr, (*path, "expr")),
            interval=spec.interval or self.interval,
            source=self.source,
            path=(*path, "expr"),
            labels=self._texts(item.labels, (*path, "labels")),
            unit=item.unit,
            help=item.help,
        )

    def _alert(self, spec: Alert) -> Rule:
        return self._alerting(
            spec,
            self._expression(spec.expr, ("expr",)),
            interval=spec.interval or self.interval,
            path=("expr",),
        )

    def _baseline(self, spec: Baseline) -> Iterator[Rule]:
        for item in recordings(spec):
            yield Rule(
                name=record_name(spec, item.operation),
                alert=False,
                expression=parse(item.expr),
                interval=item.interval,
                source=self.source,
                path=("series",),
                unit=item.unit,
                help=item.help,
            )
        expression = parse(alert_expression(spec))
        yield from self._unless_refused(
            lambda: self._alerting(spec, expression, interval=SCORE, path=("series",))
        )

    def _alerting(
        self, spec: Alert | Baseline, expression: Expression, *, interval: Duration, path: Path
    ) -> Rule:
        return Rule(
            name=spec.alert_name,
            alert=True,
            expression=expression,
            interval=interval,
            source=self.source,
            path=path,
            labels=self._alert_labels(spec),
            annotations={
                "summary": self._text(spec.summary, ("summary",)),
                "description": self._text(spec.description, ("description",)),
                "runbook_url": f"{self.runbooks}/{spec.runbook}.md",
            },
            for_=spec.for_,
            keep_firing_for=spec.keep_firing_for,
        )

    def _alert_labels(self, spec: Alerting) -> dict[str, str]:
        fixed = {"severity": spec.severity, "team": spec.team}
        for label in sorted(set(spec.labels) & set(fixed)):
            path = ("labels", label)
            self.problems.add(
                self.source.locate(*path), path, f"{label} stands outside labels", f"{label}: …"
            )
        return {**self._texts(spec.labels, ("labels",)), **fixed}

    def _expression(self, text: str, path: Path) -> Expression:
        filled = self._filled(self.substitution.expression, text, path)
        try:
            return parse(filled)
        except PromqlError as error:
            message = f"PromQL: {error}: {' '.join(filled.split())[:300]}"
            self.problems.add(self.source.locate(*path), path, message)
            raise _RefusedError from error

    def _texts(self, texts: dict[str, str], path: Path) -> dict[str, str]:
        return {key: self._text(text, (*path, key)) for key, text in texts.items()}

    def _text(self, text: str, path: Path) -> str:
        return self._filled(self.substitution.text, text, path)

    def _filled(self, fill: Callable[[str], str], text: str, path: Path) -> str:
        try:
            return fill(text)
        except SubstitutionError as error:
            place = self.source.locate(*path)
            # The text of a block begins in the line below its key.
            below = error.line + 1 if "\n" in text and error.line else 0
            self.problems.add(Location(place.file, place.line + below), path, str(error))
            raise _RefusedError from error
