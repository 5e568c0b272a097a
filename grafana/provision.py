"""Grafana's provisioning files: one data source, one folder of dashboards."""

from __future__ import annotations

from typing import Any, Final

import yaml

PROMETHEUS_URL: Final = "http://prometheus:9090"
"""Prometheus as Grafana reaches it in the compose file."""

DASHBOARDS_PATH: Final = "/etc/grafana/gpu-actuary"
"""Where Grafana's machine or container finds the folder ``json``."""


def files(prometheus_url: str, dashboards_path: str) -> dict[str, str]:
    """Path below ``provisioning/`` → text.

    ``prometheus_url`` is seen from Grafana; ``dashboards_path`` is a folder on Grafana's machine.
    """
    data_source = {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "GPU Actuary Prometheus",
                "uid": "gpu-actuary-prometheus",
                "type": "prometheus",
                "access": "proxy",
                "url": _literal(prometheus_url),
                "editable": True,
                # POST: a long regular expression of jobs does not fit into an address. The interval
                # is that of the rules, the finest that recorded series have.
                "jsonData": {"httpMethod": "POST", "timeInterval": "30s"},
            }
        ],
    }
    provider = {
        "apiVersion": 1,
        "providers": [
            {
                "name": "gpu-actuary",
                "folder": "GPU Actuary",
                "folderUid": "gpu-actuary",
                "type": "file",
                "allowUiUpdates": False,
                "updateIntervalSeconds": 30,
                "options": {"path": _literal(dashboards_path)},
            }
        ],
    }
    return {
        "datasources/gpu-actuary.yaml": _text(data_source),
        "dashboards/gpu-actuary.yaml": _text(provider),
    }


def _literal(value: str) -> str:
    """Grafana replaces ``$NAME`` in provisioning files by the environment; ``$$`` is a ``$``."""
    return value.replace("$", "$$")


def _text(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
