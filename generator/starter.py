"""The commented specs that ``actuary init`` writes."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from gpu_actuary.errors import ActuaryError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def write_starter(folder: Path) -> list[Path]:
    """Write the starting set into ``folder``, which is made where it is missing.

    Raises :class:`UsageError` when one of the files is there already; nothing is overwritten.
    """
    texts = {
        item.name: item.read_text("utf-8")
        for item in sorted((files(__package__) / "starter").iterdir(), key=lambda item: item.name)
        if item.name.endswith(".yaml")
    }
    standing = [name for name in texts if (folder / name).exists()]
    if standing:
        raise UsageError(
            f"{folder} already holds {', '.join(standing)}; choose another folder, nothing was written"
        )
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
            written.append(folder / name)
    except OSError as error:
        raise ActuaryError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return written
