"""A simulated fleet: DCGM text of both generations and the sidecar's text, for demos and tests."""
