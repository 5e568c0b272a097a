"""Where rank files lie and what they are called."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Final

SUFFIX: Final = ".rank"
TEMPORARY_PREFIX: Final = ".new-"
"""Files under construction; a reader never looks at them."""

_READABLE_LENGTH: Final = 40


def default_directory() -> Path:
    """``ACTUARY_DIRECTORY``, else a folder in shared memory, else one in the temporary folder."""
    configured = os.environ.get("ACTUARY_DIRECTORY")
    if configured:
        return Path(configured)
    shared_memory = Path("/dev/shm")  # noqa: S108  # tmpfs; files in it are created exclusively
    if shared_memory.is_dir() and os.access(shared_memory, os.W_OK):
        return shared_memory / "gpu-actuary"
    return Path(tempfile.gettempdir()) / "gpu-actuary"


def file_name(job_id: str, rank: str) -> str:
    """The file of one rank: a readable part and a digest that keeps hostile names apart.

    Whatever ``job_id`` holds (slashes, dots, spaces, any length), the name stays within the
    directory and within the length that file systems allow.
    """
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", job_id)[:_READABLE_LENGTH].strip("-") or "job"
    identity = f"{job_id}\0{rank}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(identity).hexdigest()[:16]
    shown_rank = re.sub(r"[^0-9]+", "", rank)[:8] or "0"
    return f"{readable}.{shown_rank}.{digest}{SUFFIX}"


def ensure_directory(directory: Path) -> None:
    """Create ``directory`` when it is missing, open to all users like ``/tmp``.

    Trainers of different users share it; the sticky bit keeps them from removing each other's
    files. Raises ``OSError``.
    """
    if directory.is_dir():
        return
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o1777)
