"""GPU Actuary: compute accounting for AI clusters on Prometheus and Grafana.

This package is the hub: the metric catalogue, the formulas, the Prometheus client and the command
line. The components (exporters, generator, grafana, predictor, ledger, simulator) import only
the hub and meet each other at series in Prometheus.
"""

__version__ = "0.1.0"
