"""Histories of the ledger's recorded series, written as OpenMetrics for ``promtool``."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MIDNIGHT = 1_735_689_600  # 2025-01-01T00:00:00Z
HOUR = 3600
SIDES = {"compute": "equity", "idle_free": "equity", "comm_wait": "liability"}


class History:
    """Samples by metric name and labels, as they would have been recorded."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(
        self, name: str, labels: Mapping[str, str], times: Iterable[float], value: float
    ) -> None:
        """Record ``value`` at ``times`` (Unix seconds)."""
        inner = ",".join(f"{key}={json.dumps(text)}" for key, text in labels.items())
        lines = self._lines.setdefault(name, [f"# TYPE {name} gauge"])
        lines += [f"{name}{{{inner}}} {value} {time:.3f}" for time in times]

    def add_ledger(
        self,
        labels: Mapping[str, str],
        times: Iterable[float],
        gpus: Mapping[str, float],
        *,
        inventory: float | None = None,
        price: float | None = None,
        currency: str = "USD",
    ) -> None:
        """Record a ledger: GPUs by state, the inventory (their sum if None), the cost."""
        times = list(times)
        total = sum(gpus.values()) if inventory is None else inventory
        self.add("cluster:inventory_gpus:count", labels, times, total)
        if price is not None:
            assets = {**labels, "currency": currency}
            self.add("cluster:inventory_cost:money_per_hour", assets, times, total * price)
        for state, count in gpus.items():
            marked = {**labels, "state": state, "side": SIDES.get(state, "liability")}
            self.add("cluster:ledger_gpus:rate", marked, times, count)
            if price is not None:
                cost = {**marked, "currency": currency}
                self.add("cluster:ledger_cost:money_per_hour", cost, times, count * price)

    def store(self, folder: Path) -> None:
        """Turn the history into blocks under ``folder/data``."""
        folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join(line for lines in self._lines.values() for line in lines)
        source = folder / "history.txt"
        source.write_text(f"{text}\n# EOF\n")
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", source, folder / "data"],
            check=True,
            capture_output=True,
        )


def every(step: float, start: float, end: float) -> list[float]:
    """``start + step``, …, ``end``: the samples of the seconds from start to end."""
    return [start + step * k for k in range(1, round((end - start) / step) + 1)]
