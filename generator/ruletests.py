"""The rule tests of specs as files for ``promtool test rules``.

An expected alert becomes an expectation on the series ``ALERTS``: its labels are compared exactly,
its texts are not, as they hold values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .models import Alerting, Tested
from .substitution import SubstitutionError
from .values import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .load import Loaded
    from .models import AlertLabels, Expectation, RuleTest
    from .problems import Problems
    from .substitution import Substitution


class _Texts:
    """Fills in the texts of one spec's tests; what is wrong goes to ``problems``."""

    def __init__(self, entry: Loaded, substitution: Substitution, problems: Problems) -> None:
        self._entry = entry
        self._substitution = substitution
        self._problems = problems

    def fill(self, text: str, index: int) -> str:
        """``text`` of the test ``index``; as it stands when it cannot be filled in."""
        try:
            return self._substitution.text(text)
        except SubstitutionError as error:
            path = ("tests", index)
            self._problems.add(self._entry.locate(*path), path, str(error))
            return text


def test_files(
    entry: Loaded, rule_files: Sequence[str], substitution: Substitution, problems: Problems
) -> dict[str, dict[str, Any]]:
    """The promtool documents for the tests of a spec, by file name.

    promtool evaluates all rules of a file at one interval, so there is a file for each.
    """
    spec = entry.spec
    if not isinstance(spec, Tested):
        return {}
    texts = _Texts(entry, substitution, problems)
    files: dict[str, dict[str, Any]] = {}
    for index, test in enumerate(spec.tests):
        interval = test.evaluation_interval or test.interval
        name = f"{spec.kind.lower()}-{spec.name}-{interval}.yaml"
        document = files.setdefault(
            name,
            {"rule_files": list(rule_files), "evaluation_interval": str(interval), "tests": []},
        )
        document["tests"].append(_test(spec, test, index, texts))
    return files


def _test(spec: Tested, test: RuleTest, index: int, texts: _Texts) -> dict[str, Any]:
    return {
        "name": f"{spec.kind} {spec.name}: {test.name}",
        "interval": str(test.interval),
        "input_series": [
            {"series": texts.fill(s.series, index), "values": texts.fill(s.values, index)}
            for s in test.input
        ],
        "promql_expr_test": [_expectation(spec, e, index, texts) for e in test.expect],
    }


def _expectation(
    spec: Tested, expectation: Expectation, index: int, texts: _Texts
) -> dict[str, Any]:
    if isinstance(spec, Alerting) and expectation.alert is not None:
        query = f'ALERTS{{alertname="{spec.alert_name}",alertstate="firing"}}'
        samples = [
            {"labels": _alert_series(spec, alert, index, texts), "value": 1}
            for alert in expectation.alert
        ]
    else:
        query = texts.fill(expectation.query or "", index)
        samples = [
            {"labels": texts.fill(s.series, index), "value": s.value}
            for s in expectation.samples or ()
        ]
    return {"expr": query, "eval_time": str(expectation.at), "exp_samples": samples}


def _alert_series(spec: Alerting, alert: AlertLabels, index: int, texts: _Texts) -> str:
    labels = {
        **spec.labels,
        "alertname": spec.alert_name,
        "alertstate": "firing",
        "severity": spec.severity,
        "team": spec.team,
        **alert.labels,
    }
    pairs = ",".join(
        f"{name}={quote(texts.fill(value, index))}" for name, value in sorted(labels.items())
    )
    return f"ALERTS{{{pairs}}}"
