"""The configuration files that the demonstration writes into its folder."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import yaml

from .settings import CLUSTER, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from .settings import Settings

SPECS = ROOT / "deploy" / "demo" / "specs"


def write_specs(settings: Settings) -> Path:
    """The overlay of specs: those in deploy/demo/specs, and a route to our own receiver."""
    folder = settings.folder / "specs"
    shutil.copytree(SPECS, folder)
    route = {
        "version": "actuary/v1",
        "kind": "Route",
        "name": "default",
        "runbook_base": (ROOT / "docs" / "runbooks").as_uri(),
        "group_by": ["cluster", "source", "node", "job_id"],
        "group_wait": "1s",
        "group_interval": "10s",
        "receivers": {"default": {"url": settings.url("notifications")}},
        "default_receiver": "default",
        "teams": {team: {"receiver": "default"} for team in ("platform", "ml-platform")},
    }
    _write(folder / "route.yaml", route)
    return folder


def write_prometheus(settings: Settings, rules: Path, simulated_targets: Path) -> Path:
    """Prometheus's configuration; the comments are in deploy/prometheus/prometheus.yaml."""
    files = "file_sd_configs"

    def real(*services: str) -> dict[str, Any]:
        targets = [settings.address(service) for service in services]
        return {"static_configs": [{"targets": targets, "labels": {"cluster": CLUSTER}}]}

    document = {
        "global": {
            "scrape_interval": "5s",
            "scrape_timeout": "4s",
            "evaluation_interval": "5s",
        },
        "rule_files": [str(rules / "*.yaml")],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [settings.address("alertmanager")]}]}]
        },
        "scrape_configs": [
            {"job_name": "prometheus", **real("prometheus")},
            {"job_name": "alertmanager", **real("alertmanager")},
            {"job_name": "actuary-predictor", "honor_labels": True, **real("predictor")},
            {
                "job_name": "actuary-sidecar",
                **real("sidecar"),
                files: [{"files": [str(simulated_targets / "actuary-sidecar.json")]}],
            },
            {
                "job_name": "dcgm",
                files: [{"files": [str(simulated_targets / "dcgm.json")]}],
            },
        ],
    }
    path = settings.folder / "prometheus.yaml"
    _write(path, document)
    return path


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """The result of the run for other programs."""
    path.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
