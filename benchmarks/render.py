"""What ``actuary render`` costs: cold, and with a thousand specs of a user's own.

Every figure is of a whole process, interpreter included; medians. Whether time grows linearly is
judged by processor time, which other load disturbs less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPEC = """version: actuary/v1
kind: Recording
name: extra-{number}
rules:
  - record: job:extra_{number}:ratio
    unit: ratio
    help: A recording of the benchmark.
    expr: sum by (<< by.job >>) (rate(actuary_steps_total{{rank="{number}"}}[<< ledger.window >>]))
"""


def run(quick: bool) -> dict[str, Any]:
    """Figures of :mod:`benchmarks`; there is no peer that renders the same thing."""
    repetitions = 3 if quick else 7
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold = [_render(folder, []) for _ in range(repetitions)]
        half, whole = (_specs(folder / str(count), count) for count in (500, 1000))
        of_half = [_render(folder, ["-i", str(half)]) for _ in range(repetitions)]
        of_whole = [_render(folder, ["-i", str(whole)]) for _ in range(repetitions)]
    seconds = {
        name: statistics.median(one.seconds for one in runs)
        for name, runs in (("cold", cold), ("whole", of_whole))
    }
    processor = {
        name: statistics.median(one.processor_seconds for one in runs)
        for name, runs in (("cold", cold), ("half", of_half), ("whole", of_whole))
    }
    return {
        "figures": {
            "cold_s": round(seconds["cold"], 3),
            "cold_mb": max(one.megabytes for one in cold),
            "thousand_specs_s": round(seconds["whole"] - seconds["cold"], 3),
            "thousand_specs_mb": max(one.megabytes for one in of_whole),
            "second_half_over_first_ratio": round(
                (processor["whole"] - processor["half"]) / (processor["half"] - processor["cold"]),
                2,
            ),
        },
        "conditions": {"repetitions": repetitions},
    }


def _specs(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"extra-{number}.yaml").write_text(SPEC.format(number=number))
    return folder


@dataclass(frozen=True, slots=True)
class _Cost:
    seconds: float
    processor_seconds: float
    megabytes: float


def _render(folder: Path, arguments: list[str]) -> _Cost:
    """One render in a process of its own."""
    output = tempfile.mkdtemp(dir=folder)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpu_actuary", "render", *arguments, "-o", output],
        stdout=subprocess.DEVNULL,
    )
    _, process.returncode, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError("render failed; see above")
    return _Cost(seconds, usage.ru_utime + usage.ru_stime, round(usage.ru_maxrss / 1024, 1))
