"""From the last samples of NVML to metric families; run for every scrape, never calls NVML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from gpu_actuary.catalogue.exported import NVML

from ..families import family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from .gpu import Gpu
    from .monitor import NvmlMonitor


class NvmlCollector(Collector):
    """Shows every GPU that NVML knows, except for its presence, which others know of too."""

    def __init__(self, monitor: NvmlMonitor, node: str) -> None:
        self._monitor = monitor
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """All families with samples."""
        self._monitor.count_what_hangs()
        families = {series.name: family(series.name) for series in NVML}

        def add(name: str, value: float, *labels: str) -> None:
            families[name].add_metric((self._node, *labels), value)

        add("actuary_nvml_up", float(self._monitor.up))
        for gpu in self._monitor.gpus():
            for name, labels, value in _samples(gpu):
                add(name, value, gpu.uuid, *labels)
        errors = [(gpu.uuid, gpu.errors) for gpu in self._monitor.gpus()]
        for owner, counts in (*errors, ("", self._monitor.errors)):
            for field, count in counts.counts().items():
                add("actuary_gpu_field_errors_total", count, owner, field)
        yield from (found for found in families.values() if found.samples)


def _samples(gpu: Gpu) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Name, labels after the GPU's own, and value."""
    # What happened stays true when the GPU has gone; XIDs often say why it went.
    counts, last = gpu.xids.view()
    for xid, count in counts.items():
        yield "actuary_gpu_xid_total", (xid,), count
    if last is not None:
        yield "actuary_gpu_xid_last_timestamp_seconds", (), last
    snapshot = gpu.snapshot
    if snapshot is None:
        return
    if snapshot.power_fluctuation is not None:
        yield "actuary_gpu_power_fluctuation_ratio", (), snapshot.power_fluctuation
    for method, joules in snapshot.joules.items():
        yield "actuary_gpu_energy_joules_total", (method,), joules
    for reason, seconds in snapshot.throttle_seconds.items():
        yield "actuary_gpu_throttle_seconds_total", (reason,), seconds
    for (kind, scope), count in snapshot.ecc_errors.items():
        yield "actuary_gpu_ecc_errors_total", (kind, scope), count
    for state, value in snapshot.row_remap.items():
        yield "actuary_gpu_row_remap", (state,), value
