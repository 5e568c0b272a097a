"""The variables that all dashboards share: data source, source, cluster, job, window."""

from __future__ import annotations

from typing import Final

from grafanalib.core import Template

from gpu_actuary.catalogue.recorded import BALANCE_WINDOWS

EVERYTHING: Final = ".*"
REFRESH_ON_TIME_RANGE: Final = 2
UNSORTED: Final = 0

SOURCES: Final[dict[str, str]] = {"All": EVERYTHING, "Real": "^$", "Simulated": "simulated"}
"""Shown text → regular expression for the label ``source``.

Real data carries no ``source`` label. Grafana has no empty value in a list of choices, so "Real" is
the pattern that only an empty label matches. The variable must stay single-valued and without
Grafana's own All: of any other kind of variable Grafana would escape the pattern.
"""

WINDOW_WORDS: Final[dict[str, str]] = {
    "1h": "1 hour",
    "24h": "24 hours",
    "7d": "7 days",
    "30d": "30 days",
}


def _choices(name: str, label: str, choices: dict[str, str], default: str) -> Template:
    return Template(
        name=name,
        label=label,
        type="custom",
        query=", ".join(f"{text} : {value}" for text, value in choices.items()),
        options=[
            {"text": text, "value": value, "selected": value == default}
            for text, value in choices.items()
        ],
        sort=UNSORTED,
    )


def _label(name: str, label: str, query: str) -> Template:
    return Template(
        name=name,
        label=label,
        type="query",
        dataSource="${datasource}",
        query=query,
        default="$__all",
        includeAll=True,
        multi=True,
        # Also matches series without the label, and keeps the query short with thousands of jobs.
        allValue=EVERYTHING,
        refresh=REFRESH_ON_TIME_RANGE,
    )


def data_source() -> Template:
    """Which Prometheus to ask."""
    return Template(name="datasource", label="Data source", type="datasource", query="prometheus")


def source() -> Template:
    """Real data, simulated data, or both."""
    return _choices("source", "Real or simulated", SOURCES, EVERYTHING)


def cluster() -> Template:
    """The clusters that have an inventory."""
    return _label(
        "cluster",
        "Cluster",
        'label_values(cluster:inventory_gpus:count{source=~"$source"}, cluster)',
    )


def job() -> Template:
    """The jobs that have reported in the time range."""
    return _label(
        "job_id",
        "Job",
        'label_values(job:ranks:count{cluster=~"$cluster",source=~"$source"}, job_id)',
    )


def window() -> Template:
    """The period of the balance sheet; the shortest is the first that a new installation has."""
    choices = {WINDOW_WORDS[window]: window for window in BALANCE_WINDOWS}
    return _choices("window", "Period", choices, BALANCE_WINDOWS[0])


def shared() -> list[Template]:
    """The variables of every dashboard, in the order in which they depend on each other."""
    return [data_source(), source(), cluster(), job()]
