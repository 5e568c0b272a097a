"""Who is who: the identity of GPUs and jobs in the labels of a series."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# DCGM's exporter changed its spelling; the first name that has a value wins. The order is that of
# the normalising rules, so that raw and recorded series give a GPU the same identity.
NODE_LABELS = ("node", "Hostname", "hostname")
UUID_LABELS = ("UUID", "uuid", "gpu_uuid")


class Gpu(NamedTuple):
    """One GPU. ``source`` is "" for real data, ``cluster`` and ``node`` are "" where unlabelled."""

    cluster: str
    source: str
    node: str
    uuid: str


class Job(NamedTuple):
    """One training job, over all its attempts."""

    cluster: str
    source: str
    job_id: str


def gpu_of(labels: Mapping[str, str]) -> Gpu:
    """The GPU that ``labels`` name; its ``uuid`` is "" when they name none."""
    return Gpu(
        labels.get("cluster", ""),
        labels.get("source", ""),
        _first(labels, NODE_LABELS),
        _first(labels, UUID_LABELS),
    )


def job_of(labels: Mapping[str, str]) -> Job:
    """The job that ``labels`` name."""
    return Job(labels.get("cluster", ""), labels.get("source", ""), labels.get("job_id", ""))


def natural(text: str) -> int | None:
    """The natural number that a label's value writes; None for anything else."""
    return int(text) if text.isdecimal() and len(text) <= 9 else None


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
