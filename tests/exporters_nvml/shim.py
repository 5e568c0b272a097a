"""The stand-in for libnvidia-ml: building it, and telling it what to answer.

For tests and benchmarks; what the control file can say stands at the top of ``libnvidia_ml.c``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("libnvidia_ml.c")

Value = int | str | None


def build(folder: Path, *flags: str) -> Path:
    """Compile the stand-in into ``folder``, which is then a library path; returns ``folder``."""
    compiler = shutil.which("gcc")
    assert compiler, "gcc is not installed; the package of that name brings it: apt-get install gcc"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *(compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"),
            *(*flags, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)),
        ],
        check=True,
    )
    return folder


def uuid(index: int) -> str:
    """The UUID that the stand-in makes up for a GPU."""
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


def mig_uuid(index: int, instance: int) -> str:
    """The UUID that the stand-in makes up for a MIG instance."""
    return f"MIG-{index:08d}-0000-0000-0000-{instance:012d}"


def gpu(index: int, **values: Value) -> dict[str, Value]:
    """The control keys of one GPU."""
    return {f"gpu{index}.{key}": value for key, value in values.items()}


def healthy(index: int, **changes: Value) -> dict[str, Value]:
    """A GPU that supports everything and has nothing; ``changes`` of None take values away."""
    usual: dict[str, Value] = {
        "power": 300_000,
        "energy": 81_000_000,
        "reasons": 0,
        "ecc": "0,0,0,0",
        "remap": "0,0,0,0",
    }
    return gpu(index, **{**usual, **changes})


class Control:
    """The control file at ``path``, replaced as a whole at each change."""

    def __init__(self, path: Path, *settings: dict[str, Value]) -> None:
        self.path = path
        self._values: dict[str, Value] = {}
        self.set(*settings)

    def set(self, *settings: dict[str, Value]) -> None:
        """Change these keys; None takes a key away."""
        for more in settings:
            self._values.update(more)
        lines = [f"{key}={value}\n" for key, value in self._values.items() if value is not None]
        fresh = self.path.with_suffix(".new")
        fresh.write_text("".join(lines))
        fresh.rename(self.path)

    def environment(self, library: Path) -> dict[str, str]:
        """What makes a process find the stand-in in ``library`` and this control file."""
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "NVML_SHIM_CONTROL": str(self.path),
        }
