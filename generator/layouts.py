"""The form in which each target takes rule groups: a rule file, a manifest, or a namespace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .order import Group
    from .rules import Rule
    from .targets import Server


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a Kubernetes manifest carries beside its content.

    ``labels`` must be those that ``ruleSelector`` of the Prometheus object asks for.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str | None = None


BARE: Final = Manifest()


def rule_documents(
    groups: Sequence[Group], server: Server, manifest: Manifest
) -> dict[str, dict[str, Any]]:
    """The documents that hold ``groups``, one for each interval, by file name."""
    by_file: dict[str, list[dict[str, Any]]] = {}
    for each in groups:
        by_file.setdefault(each.file, []).append(_group(each, server))
    return {f"{file}.yaml": _wrap(file, g, server, manifest) for file, g in by_file.items()}


def alertmanager_secret(configuration: str, manifest: Manifest) -> dict[str, Any]:
    """The manifest that ``configSecret`` of an Alertmanager object can name."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata("gpu-actuary-alertmanager", manifest),
        "stringData": {"alertmanager.yaml": configuration},
    }


def _wrap(
    name: str, groups: list[dict[str, Any]], server: Server, manifest: Manifest
) -> dict[str, Any]:
    if server.target.layout == "PrometheusRule":
        return {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": _metadata(name, manifest),
            "spec": {"groups": groups},
        }
    if server.target.layout == "namespace":
        return {"namespace": name, "groups": groups}
    return {"groups": groups}


def _metadata(name: str, manifest: Manifest) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if manifest.namespace is not None:
        metadata["namespace"] = manifest.namespace
    if manifest.labels:
        metadata["labels"] = dict(manifest.labels)
    return metadata


def _group(each: Group, server: Server) -> dict[str, Any]:
    return {
        "name": each.name,
        "interval": str(each.interval),
        **server.target.group_fields,
        "rules": [_rule(rule, server) for rule in each.rules],
    }


def _rule(rule: Rule, server: Server) -> dict[str, Any]:
    document: dict[str, Any] = {"alert" if rule.alert else "record": rule.name}
    document["expr"] = rule.expression.text
    if rule.for_ is not None and rule.for_.seconds:
        document["for"] = str(rule.for_)
    if keeps_firing(rule) and server.keeps_firing:
        document["keep_firing_for"] = str(rule.keep_firing_for)
    if rule.labels:
        document["labels"] = rule.labels
    if rule.annotations:
        document["annotations"] = rule.annotations
    return document


def keeps_firing(rule: Rule) -> bool:
    """Whether the spec of ``rule`` asks for ``keep_firing_for``."""
    return rule.keep_firing_for is not None and rule.keep_firing_for.seconds > 0
