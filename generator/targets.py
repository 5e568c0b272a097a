"""What each server that evaluates rules can do, as data: rendering asks here and nowhere else.

docs/targets.md is tested against this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_actuary.errors import UsageError

from .problems import nearest

Version = tuple[int, ...]

Visibility = Literal["in the same round", "in the next round"]
"""When a rule sees what a rule further up in its group has recorded."""

Layout = Literal["rule file", "PrometheusRule", "namespace"]


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of server.

    ``oldest`` is the first version that rendered rules are made for. Limits are the server's
    defaults; None is no limit. ``group_fields`` stand in every group.
    """

    name: str
    title: str
    oldest: Version
    layout: Layout
    visibility: Visibility = "in the same round"
    keep_firing_for: Version = ()
    rules_per_group: int | None = None
    groups: int | None = None
    query_bytes: int | None = None
    shortest_interval_seconds: float = 0.0
    """Between two rounds a record must have become visible."""
    reload_seconds: float = 0.0
    """How long after it has taken a reload the new rules may be missing."""
    group_fields: dict[str, Any] = field(default_factory=dict)


TARGETS: Final = {
    target.name: target
    for target in (
        Target("prometheus", "Prometheus", (2, 42), "rule file"),
        Target("operator", "prometheus-operator", (0, 66), "PrometheusRule"),
        Target(
            "mimir",
            "Grafana Mimir",
            (2, 7),
            "namespace",
            rules_per_group=20,
            groups=70,
            # Groups that are evaluated at the same moments can read each other's exact samples.
            group_fields={"align_evaluation_time_on_interval": True},
        ),
        Target(
            "thanos",
            "Thanos Ruler",
            (0, 34),
            "rule file",
            # A store that does not answer would make its GPUs look gone: no result is better.
            group_fields={"partial_response_strategy": "abort"},
        ),
        Target(
            "vmalert",
            "vmalert",
            (1, 79),
            "rule file",
            visibility="in the next round",
            keep_firing_for=(1, 92),
            query_bytes=16384,
            # It writes every 5 s, and a new series of VictoriaMetrics is found after 10 s.
            shortest_interval_seconds=20.0,
            # It answers before it has read the files, and also when it refuses them.
            reload_seconds=10.0,
            # Without this VictoriaMetrics answers for a moment 30 s ago and stamps it as now.
            group_fields={"params": {"nocache": ["1"]}},
        ),
    )
}

PROMETHEUS: Final = TARGETS["prometheus"]


@dataclass(frozen=True, slots=True)
class Server:
    """A target in one version, as the user has it."""

    target: Target
    version: Version

    @property
    def keeps_firing(self) -> bool:
        """Whether it knows ``keep_firing_for``."""
        return self.version >= self.target.keep_firing_for


DEFAULT: Final = Server(PROMETHEUS, PROMETHEUS.oldest)


def server(name: str, version: str | None = None) -> Server:
    """The target ``name`` in ``version``, or in the oldest one that is rendered for.

    What is rendered for a version is right for all later ones. Raises :class:`UsageError` for an
    unknown target, a version that is none, and one that is too old.
    """
    target = TARGETS.get(name)
    if target is None:
        raise UsageError(
            f"{name!r} is no target{nearest(name, TARGETS)}; expected one of {', '.join(TARGETS)}"
        )
    if version is None:
        return Server(target, target.oldest)
    if not re.fullmatch(r"v?\d{1,6}(\.\d{1,6}){1,2}([-+~].*)?", version):
        raise UsageError(f"{version!r} is no version; expected one such as {shown(target.oldest)}")
    numbers = re.split(r"[-+~]", version.removeprefix("v"))[0]
    parsed = tuple(map(int, numbers.split(".")))
    if parsed < target.oldest:
        raise UsageError(
            f"{target.title} {version} is too old; expected {shown(target.oldest)} or later"
        )
    return Server(target, parsed)


def shown(version: Version) -> str:
    """``(2, 42)`` as ``2.42``."""
    return ".".join(map(str, version))
