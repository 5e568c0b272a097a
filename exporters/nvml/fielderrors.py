"""Counting what could not be read, and saying each kind of it once."""

from __future__ import annotations

import logging
import threading
from typing import Literal

log = logging.getLogger("gpu_actuary")

Field = Literal[
    "presence",
    "power",
    "energy",
    "throttle",
    "ecc",
    "row_remap",
    "mig",
    "xid",
    "snapshot",  # a scrape got nothing, because the last sample is too old
    "identity",  # it is not known which GPU it was
]


class FieldErrors:
    """Failures by field, of the GPU ``owner``, or of the node when it is empty.

    Safe for use by many threads.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._counts: dict[Field, int] = {}
        self._lock = threading.Lock()

    def count(self, field: Field, why: object) -> None:
        """Count a failure of ``field``; the first one of each field is logged."""
        with self._lock:
            first = field not in self._counts
            self._counts[field] = self._counts.get(field, 0) + 1
        if first:
            log.warning(
                "NVML: cannot read %s of %s: %s. Counted in actuary_gpu_field_errors_total and not "
                "said again.",
                field,
                self._owner or "the node's GPUs",
                why,
            )

    def counts(self) -> dict[Field, int]:
        """Failures of every field that has failed."""
        with self._lock:
            return dict(self._counts)
