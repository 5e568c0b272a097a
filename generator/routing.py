"""The Alertmanager configuration of the specs' routes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .models import Alert, Alerting, Baseline, Inhibition, Receiver, Route
from .problems import nearest
from .rules import alert_name

if TYPE_CHECKING:
    from .load import Loaded, SpecSet
    from .models import TeamRoute
    from .problems import Problems

SEVERITIES = ("page", "ticket", "info")


def alertmanager_document(specs: SpecSet, problems: Problems) -> dict[str, Any]:
    """The whole configuration; names that do not exist become problems.

    Routes are by team and inside by severity, and the last one at each level has no condition left
    to shadow another: an alert of no known team falls through to the root's own severities.
    """
    route, entry = next(specs.of(Route))
    _check(specs, route, entry, problems)
    return {
        "route": {
            "receiver": route.default_receiver,
            "group_by": list(route.group_by),
            "group_wait": str(route.group_wait),
            "group_interval": str(route.group_interval),
            "repeat_interval": str(route.repeat.ticket),
            "routes": [
                *(_team(name, team, route) for name, team in route.teams.items()),
                *_by_severity(route, {}),
            ],
        },
        "inhibit_rules": [_inhibition(rule) for rule in route.inhibit],
        "receivers": [_receiver(name, item) for name, item in route.receivers.items()],
    }


def _team(name: str, team: TeamRoute, route: Route) -> dict[str, Any]:
    pages = {} if team.page is None else {"page": team.page}
    return {
        "receiver": team.receiver,
        "matchers": [f'team="{name}"'],
        "routes": _by_severity(route, pages),
    }


def _by_severity(route: Route, receivers: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            **({"receiver": receivers[severity]} if severity in receivers else {}),
            "matchers": [f'severity="{severity}"'],
            "repeat_interval": str(getattr(route.repeat, severity)),
        }
        for severity in SEVERITIES
    ]


def _inhibition(rule: Inhibition) -> dict[str, Any]:
    # Labels that are absent on both sides count as equal (Alertmanager 507): without these
    # matchers an alert without a node would silence every alert without a node.
    present = [f'{label}!=""' for label in rule.equal]
    return {
        "source_matchers": [_alerts(rule.source), *present],
        "target_matchers": [_alerts(rule.target), *present],
        "equal": list(rule.equal),
    }


def _alerts(names: list[str]) -> str:
    return f'alertname=~"{"|".join(alert_name(name) for name in names)}"'


def _receiver(name: str, receiver: Receiver) -> dict[str, Any]:
    address = {
        key: value
        for key, value in (("url", receiver.url), ("url_file", receiver.url_file))
        if value is not None
    }
    document: dict[str, Any] = {"name": name}
    if address:
        document["webhook_configs"] = [{**address, "send_resolved": True}]
    return document


def _check(specs: SpecSet, route: Route, entry: Loaded, problems: Problems) -> None:
    def check(path: tuple[str | int, ...], name: str, known: list[str], what: str) -> None:
        if name not in known:
            problems.add(
                entry.locate(*path),
                path,
                f"there is no {what} {name!r}{nearest(name, known)}",
                f"one of {', '.join(known)}" if known else f"a {what}",
            )

    receivers = list(route.receivers)
    check(("default_receiver",), route.default_receiver, receivers, "receiver")
    for name, team in route.teams.items():
        check(("teams", name, "receiver"), team.receiver, receivers, "receiver")
        if team.page is not None:
            check(("teams", name, "page"), team.page, receivers, "receiver")
    alerts = [spec.name for kind in (Alert, Baseline) for spec, _ in specs.of(kind)]
    for index, rule in enumerate(route.inhibit):
        for side in ("source", "target"):
            for position, name in enumerate(getattr(rule, side)):
                check(("inhibit", index, side, position), name, alerts, "alert")
    for name, receiver in route.receivers.items():
        if receiver.url is not None and not re.fullmatch(r"https?://[^\s/]+\S*", receiver.url):
            path = ("receivers", name, "url")
            problems.add(
                entry.locate(*path),
                path,
                f"{receiver.url!r} is no web address",
                "http(s)://host/path",
            )
    for kind in (Alert, Baseline):
        for spec, source in specs.of(kind):
            assert isinstance(spec, Alerting)
            if spec.team not in route.teams:
                problems.add(
                    source.locate("team"),
                    "team",
                    f"no route knows the team {spec.team!r}{nearest(spec.team, route.teams)}",
                    f"one of {', '.join(route.teams)}",
                )
