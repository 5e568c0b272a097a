"""Child processes that never outlive the demonstration, whatever ends it. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 8.0

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send the signal ``number`` to this process when its parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, so that none gets away."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Child:
    """A started process and where its output goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def log_tail(self, lines: int = 15) -> str:
        """The end of its output."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:]) or "(it wrote nothing)"


class Children:
    """All processes of the demonstration."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = dict(environment)
        self._children: list[Child] = []

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children)

    def start(self, name: str, command: Sequence[str | Path], *, nice: int = 0) -> Child:
        """Start ``command``; its output goes to the log file ``name``."""

        def prepare() -> None:
            # SIGTERM, so that a launcher can end its own children when we are killed.
            die_with_parent(signal.SIGTERM)
            os.nice(nice)

        path = self._logs / f"{name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603  # commands of our own
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for us alone: we end them in order
                preexec_fn=prepare,  # no threads are running yet
            )
        child = Child(name, process, path)
        self._children.append(child)
        return child

    def stop(self) -> None:
        """End all processes and what they started: kindly, then by force."""
        for child in reversed(self._children):
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
        deadline = time.monotonic() + _GRACE_SECONDS
        while descendants() and time.monotonic() < deadline:
            _reap()
            time.sleep(0.05)
        while remaining := descendants():
            for pid in remaining:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _reap()
            time.sleep(0.05)


def _reap() -> None:
    """Collect ended children, adopted ones too, that would otherwise stay as zombies."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants() -> list[int]:
    """Process ids of everything below this process."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name in parentheses may hold anything; the parent is the second word after it.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found
