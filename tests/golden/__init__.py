"""What the built-in specs render to, committed: a change of a rule shows as PromQL in review.

Refresh with ``python -m tests.golden`` after a change of rules/ or generator/.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpu_actuary.generator.render import render

FOLDER: Final = Path(__file__).parent / "prometheus"


def rendered() -> dict[str, str]:
    """The files for Prometheus, without the rule tests: those repeat the specs."""
    return {name: text for name, text in render().files.items() if not name.startswith("tests/")}


def committed() -> dict[str, str]:
    """The files as they stand in the repository."""
    files = sorted(FOLDER.rglob("*.yaml"))
    return {f.relative_to(FOLDER).as_posix(): f.read_text("utf-8") for f in files}
