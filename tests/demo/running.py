"""Running the demonstration for tests: on free ports, in a folder of the test's own."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
PORTS = 6


def free_base() -> int:
    """The first of six ports in a row that nobody listens on now."""
    while True:
        base = random.randrange(20_000, 32_000)
        with_ports = [socket.socket() for _ in range(PORTS)]
        try:
            for offset, probe in enumerate(with_ports):
                probe.bind(("127.0.0.1", base + offset))
        except OSError:
            continue
        else:
            return base
        finally:
            for probe in with_ports:
                probe.close()


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start ``python -m demo`` with its output to be read."""
    return subprocess.Popen(
        [sys.executable, "-m", "demo", "--folder", str(folder), *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run it to its end; returns exit code and output."""
    process = start(folder, *arguments, **environment)
    output, _ = process.communicate(timeout=280)
    return process.returncode, output


def processes_of(folder: Path) -> list[str]:
    """Command lines of all processes of the machine that name the folder."""
    return [line for line in _command_lines() if str(folder) in line]


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it has ended
