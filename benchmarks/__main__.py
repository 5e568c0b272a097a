"""``python -m benchmarks NAME [--json FILE] [--quick]``: prints a table and, last, one JSON line.

A benchmark is a module of this folder with a function ``run(quick: bool) -> dict`` whose result has
``figures`` (names carry their unit), ``peers`` and ``conditions``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> None:
    """Run one benchmark and report it."""
    names = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=names)
    parser.add_argument("--json", type=Path, help="also write the JSON line to this file")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, less certain")
    chosen = parser.parse_args()
    result = importlib.import_module(f"benchmarks.{chosen.name}").run(chosen.quick)
    conditions = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "quick": chosen.quick,
        **result.get("conditions", {}),
    }
    for section in ("figures", "peers"):
        for name, value in result.get(section, {}).items():
            print(f"{name:40} {value:>12.4g}")
    line = json.dumps(
        {
            "benchmark": chosen.name,
            "figures": result["figures"],
            "peers": result.get("peers", {}),
            "conditions": conditions,
        }
    )
    if chosen.json is not None:
        chosen.json.write_text(line + "\n", encoding="utf-8")
    print(line)


if __name__ == "__main__":
    main()
