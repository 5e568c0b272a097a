"""Running what was rendered through the real promtool."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from gpu_actuary.generator.output import write_files

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_actuary.generator.render import Rendered


def run_rule_tests(rendered: Rendered, folder: Path) -> str:
    """What ``promtool test rules`` says about all tests; empty when they pass."""
    binary = shutil.which("promtool")
    assert binary, "promtool is not installed: make tools"
    write_files(folder, rendered.files)
    files = sorted(folder.glob("tests/*.yaml"))
    assert files, "there are no rule tests"
    done = subprocess.run(
        [binary, "test", "rules", *map(str, files)], capture_output=True, text=True, timeout=120
    )
    return f"{done.stdout}{done.stderr}" if done.returncode else ""
