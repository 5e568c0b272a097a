"""The Alertmanager configuration of the specs' routes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .models import Alert, Baseline, Inhibition, Receiver, Route
from .problems import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from .load import Loaded, SpecSet
    from .models import TeamRoute
    from .problems import Path, Problems

SEVERITIES = ("page", "ticket", "info")


def alertmanager_document(specs: SpecSet, stages: Collection[str]) -> dict[str, Any]:
    """The whole configuration for the alerts of ``stages``.

    Routes are by team and inside by severity; an alert of no team's goes by the root's severities
    to the default receiver.
    """
    route, _ = next(specs.of(Route))
    alerts = {spec.name: spec.alert_name for spec, _ in _alerting(specs) if spec.stage in stages}
    inhibitions = (_inhibition(rule, alerts) for rule in route.inhibit)
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
        "inhibit_rules": [rule for rule in inhibitions if rule is not None],
        "receivers": [_receiver(name, item) for name, item in route.receivers.items()],
    }


def check_routes(specs: SpecSet, problems: Problems) -> None:
    """Every receiver, team and alert that routes name exists, and every team has a route."""
    route, entry = next(specs.of(Route))
    for place, name in _receivers_named(route):
        _known(entry, place, name, route.receivers, "receiver", problems)
    for name, receiver in route.receivers.items():
        if receiver.url is not None and not re.fullmatch(r"https?://[^\s/]+\S*", receiver.url):
            path: Path = ("receivers", name, "url")
            problems.add(
                entry.locate(*path),
                path,
                f"{receiver.url!r} is no web address",
                "http://host/path or https://host/path",
            )
    if entry.users:  # the built-in routes may name built-in alerts that the user disabled
        names = [spec.name for spec, _ in _alerting(specs)]
        for place, name in _alerts_named(route):
            _known(entry, place, name, names, "alert", problems)
    if route.teams:
        for spec, source in _alerting(specs):
            if spec.team not in route.teams:
                # A person can mend their own alert, but for a built-in one only the routes.
                problems.add(
                    source.locate("team") if source.users else entry.locate("teams"),
                    "team" if source.users else "teams",
                    f"no route is for the team {spec.team!r} of the alert {spec.name}"
                    f"{nearest(spec.team, route.teams)}",
                    "a route for every team, or no `teams` at all",
                )


def _alerting(specs: SpecSet) -> Iterator[tuple[Alert | Baseline, Loaded]]:
    yield from specs.of(Alert)
    yield from specs.of(Baseline)


def _receivers_named(route: Route) -> Iterator[tuple[Path, str]]:
    yield ("default_receiver",), route.default_receiver
    for name, team in route.teams.items():
        yield ("teams", name, "receiver"), team.receiver
        if team.page is not None:
            yield ("teams", name, "page"), team.page


def _alerts_named(route: Route) -> Iterator[tuple[Path, str]]:
    for index, rule in enumerate(route.inhibit):
        for side, names in (("source", rule.source), ("target", rule.target)):
            for position, name in enumerate(names):
                yield ("inhibit", index, side, position), name


def _known(
    entry: Loaded, path: Path, name: str, known: Iterable[str], what: str, problems: Problems
) -> None:
    names = list(known)
    if name not in names:
        problems.add(
            entry.locate(*path),
            path,
            f"there is no {what} {name!r}{nearest(name, names)}",
            f"one of {', '.join(names)}",
        )


def _team(name: str, team: TeamRoute, route: Route) -> dict[str, Any]:
    receivers = {} if team.page is None else {"page": team.page}
    return {
        "receiver": team.receiver,
        "matchers": [f'team="{name}"'],
        "routes": _by_severity(route, receivers),
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


def _inhibition(rule: Inhibition, alerts: Mapping[str, str]) -> dict[str, Any] | None:
    """The rule for the alerts that exist, None when none is left on a side."""
    source = [alerts[name] for name in rule.source if name in alerts]
    target = [alerts[name] for name in rule.target if name in alerts]
    if not source or not target:
        return None
    # Labels that are absent on both sides count as equal (Alertmanager 507): without these
    # matchers an alert without a node would silence every alert without a node.
    present = [f'{label}!=""' for label in rule.equal]
    return {
        "source_matchers": [f'alertname=~"{"|".join(source)}"', *present],
        "target_matchers": [f'alertname=~"{"|".join(target)}"', *present],
        "equal": list(rule.equal),
    }


def _receiver(name: str, receiver: Receiver) -> dict[str, Any]:
    address = receiver.model_dump(exclude_none=True)
    document: dict[str, Any] = {"name": name}
    if address:
        document["webhook_configs"] = [{**address, "send_resolved": True}]
    return document
