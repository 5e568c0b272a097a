"""Measurements whose results stand in the documentation; run with ``python -m benchmarks NAME``."""
