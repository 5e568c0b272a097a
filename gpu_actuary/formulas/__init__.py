"""The formulas as plain functions, with units and sources.

Each also exists as a spec under ``rules/``; a test drives both over the same data through a real
Prometheus.
"""
