"""Failure probability per GPU and job, interruption loss and elastic budget.

The predictor reads what Prometheus has recorded, estimates, and exposes its results for Prometheus
to scrape: `inputs` → `gpus` → `jobs` → `exposition`, driven by `service`.
"""
