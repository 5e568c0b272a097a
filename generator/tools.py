"""The validators of others: promtool, amtool and amlint, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TIMEOUT_SECONDS = 600.0
"""Far beyond any healthy run; it ends a validator that hangs."""

Status = Literal["ok", "failed", "skipped"]

PACKAGES = {
    "promtool": "the Debian package prometheus",
    "amtool": "the Debian package prometheus-alertmanager",
    "amlint": "the Python package amlint",
    "vmalert": "the Debian package victoria-metrics",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one check found; ``detail`` is for people."""

    check: str
    status: Status
    detail: str


def find(tool: str) -> str | None:
    """The path of ``tool``: on PATH, or beside the Python that runs us (a virtual environment)."""
    beside = Path(sys.executable).with_name(tool)
    return shutil.which(tool) or (str(beside) if os.access(beside, os.X_OK) else None)


def check_rules(files: Sequence[Path]) -> Outcome:
    """``promtool check rules``."""
    return _run("promtool", "check", "rules", files=files)


def check_vmalert(files: Sequence[Path]) -> Outcome:
    """``vmalert -dryRun``: the fields of groups and rules, templates, and MetricsQL."""
    return _run("vmalert", "-dryRun", files=[f"-rule={file}" for file in files])


def run_tests(files: Sequence[Path], progress: Callable[[str], None]) -> Outcome:
    """``promtool test rules`` over ``files``, as many at a time as there are cores."""
    name = "promtool test rules"
    if not files:
        return Outcome(name, "skipped", "there are no rule tests")
    if find("promtool") is None:
        return _run("promtool", "test", "rules", files=files)
    failures = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        runs = pool.map(lambda file: _run("promtool", "test", "rules", files=[file]), files)
        for number, outcome in enumerate(runs, start=1):
            progress(f"rule tests: {number} of {len(files)} files")
            if outcome.status == "failed":
                failures.append(outcome.detail)
    if failures:
        return Outcome(name, "failed", "\n".join(failures))
    return Outcome(name, "ok", f"{len(files)} files")


def check_alertmanager(file: Path, rules: Sequence[Path]) -> Iterator[Outcome]:
    """``amtool check-config`` and ``amlint check``, the latter with the alerts of ``rules``."""
    yield _run("amtool", "check-config", files=[file])
    # amlint reads the rules too, so that a route for an alert that is not there is found.
    options = [option for rule in rules for option in ("--rules", str(rule))]
    # A receiver without an address is a choice: its alerts stand in Alertmanager's own page.
    strictness = ("--strict", "--ignore", "empty-receiver")
    yield _run("amlint", "check", *strictness, *options, files=[file])


def _run(tool: str, *arguments: str, files: Sequence[Path | str]) -> Outcome:
    words = [word for word in arguments[:2] if not word.startswith("--")]
    name = " ".join([tool, *words])
    path = find(tool)
    if path is None:
        return Outcome(name, "skipped", f"{tool} is missing; install {PACKAGES[tool]}")
    command = [path, *arguments, *map(str, files)]
    try:
        done = subprocess.run(  # noqa: S603  # a fixed tool on files that we wrote ourselves
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(name, "failed", f"gave no answer within {TIMEOUT_SECONDS:g} s")
    except OSError as error:
        return Outcome(name, "failed", f"{path} cannot be run: {error.strerror}")
    if done.returncode:
        return Outcome(name, "failed", f"{done.stdout}\n{done.stderr}".strip())
    return Outcome(name, "ok", "")
