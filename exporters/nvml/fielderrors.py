"""Counting what could not be read, and saying each kind of it once."""

from __future__ import annotations

import logging
import threading
from typing import Final

log = logging.getLogger("gpu_actuary")

GPU_FIELDS: Final = (
    "presence",
    "power",
    "energy",
    "throttle",
    "ecc",
    "row_remap",
    "mig",
    "xid",
    "snapshot",
)
"""What can fail on one GPU. ``snapshot``: a scrape got nothing, because the last sample is old."""
NODE_FIELDS: Final = ("identity", "xid")
"""What can fail before it is known whose it is."""


class FieldErrors:
    """Failures by field, of one GPU or (``owner`` "") of the node. Safe for use by many threads."""

    def __init__(self, owner: str, fields: tuple[str, ...]) -> None:
        self._owner = owner
        self._counts = dict.fromkeys(fields, 0)
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def count(self, field: str, why: object) -> None:
        """Count a failure of ``field``; the first one of each field is logged."""
        with self._lock:
            self._counts[field] += 1
            first = field not in self._said
            self._said.add(field)
        if first:
            log.warning(
                "NVML: cannot read %s of %s: %s. Counted in actuary_gpu_field_errors_total and not "
                "said again.",
                field,
                self._owner or "the node's GPUs",
                why,
            )

    def counts(self) -> dict[str, int]:
        """Failures of every field, 0 included."""
        with self._lock:
            return dict(self._counts)
