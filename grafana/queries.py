"""Selectors of catalogue series that obey the dashboards' variables."""

from __future__ import annotations

from gpu_actuary.catalogue import LEVELS, get
from gpu_actuary.catalogue.recorded import BALANCE_WINDOWS

CLUSTER = LEVELS["cluster"]
JOB = LEVELS["job"]


CLUSTER_MATCHERS = ('cluster=~"$cluster"', 'source=~"$source"')
JOB_MATCHER = 'job_id=~"$job_id"'


def select(name: str, *matchers: str) -> str:
    """``name`` narrowed to the chosen source, clusters and, where it has them, jobs.

    ``matchers`` are further PromQL matchers. Raises ``KeyError`` for a series that is not in the
    catalogue, so that no panel can ask for something nobody publishes.
    """
    if "job_id" in get(name).labels:
        matchers = (JOB_MATCHER, *matchers)
    return _selector(name, matchers)


def select_whole_cluster(name: str) -> str:
    """Like :func:`select`, but over all jobs: for sums that belong to the cluster."""
    return _selector(get(name).name, ())


def balance(what: str, *matchers: str) -> str:
    """``cluster:balance_<what>`` over the window that the reader chose."""
    for window in BALANCE_WINDOWS:
        get(f"cluster:balance_{what}:{window}")
    return _selector(f"cluster:balance_{what}:${{window}}", matchers)


def _selector(name: str, matchers: tuple[str, ...]) -> str:
    return name + "{" + ",".join((*CLUSTER_MATCHERS, *matchers)) + "}"


def by(operation: str, labels: tuple[str, ...], expression: str) -> str:
    """``operation by (labels) (expression)``."""
    return f"{operation} by ({', '.join(labels)}) ({expression})"


def per_job(name: str, *extra: str) -> str:
    """One series a job (and value of the ``extra`` labels), however many replicas publish it."""
    return by("max", (*JOB, *extra), select(name))
