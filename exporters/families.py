"""Metric families as the catalogue describes them."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gpu_actuary.catalogue import get


def family(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    """An empty family of the catalogue's counter or gauge ``name``."""
    series = get(name)
    kind = CounterMetricFamily if series.type == "counter" else GaugeMetricFamily
    return kind(name, series.help, labels=series.labels)
