"""Killing one rank of the training with SIGKILL, once, between two checkpoints."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from .processes import descendants

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINTS_BEFORE = 3
PART_OF_THE_WAY = 0.6
"""How far to the next checkpoint the training gets."""


class Crash:
    """Waits for some checkpoints, which tell how far apart they are, then kills rank 1."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checkpoints: list[float] = []
        self.done = False

    def tick(self) -> bool:
        """To be called often; returns True when it killed."""
        if self.done:
            return False
        with contextlib.suppress(FileNotFoundError):
            written = (self._folder / "checkpoint.pt").stat().st_mtime
            if written not in self._checkpoints:
                self._checkpoints.append(written)
        if len(self._checkpoints) < CHECKPOINTS_BEFORE:
            return False
        before, latest = self._checkpoints[-2:]
        if time.time() < latest + PART_OF_THE_WAY * (latest - before):
            return False
        self.done = self._kill()
        return self.done

    def _kill(self) -> bool:
        """Kill rank 1; False when its file names no process of ours."""
        try:
            pid = int((self._folder / "rank-1.pid").read_text())
        except (OSError, ValueError):
            return False
        if pid not in descendants():
            return False
        os.kill(pid, signal.SIGKILL)
        return True
