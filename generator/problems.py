"""What is wrong with a specification, where, and what was expected there."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_actuary.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""The way to a value inside a document: keys of mappings and positions in lists."""


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A line of a file; ``line`` counts from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to mend, printed on one line."""

    location: Location
    path: str
    message: str
    expected: str = ""

    def __str__(self) -> str:
        expected = f"; expected {self.expected}" if self.expected else ""
        path = f"{self.path}: " if self.path else ""
        return f"{self.location}: {path}{self.message}{expected}"


class SpecError(UsageError):
    """Specifications cannot be used; ``problems`` holds every reason, in reading order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        count = len(self.problems)
        heading = "1 problem" if count == 1 else f"{count} problems"
        super().__init__("\n".join([f"{heading} in the specs", *map(str, self.problems)]))


@dataclass(slots=True)
class Problems:
    """Collects problems, so that a person sees all of them at once."""

    found: list[Problem] = field(default_factory=list)

    def add(self, location: Location, path: Path | str, message: str, expected: str = "") -> None:
        """Note one problem, as one line."""
        where = path if isinstance(path, str) else format_path(path)
        self.found.append(
            Problem(location, _one_line(where), _one_line(message), _one_line(expected))
        )

    def raise_if_any(self) -> None:
        """Raise :class:`SpecError` with everything found so far."""
        if self.found:
            raise SpecError(self.found)


def format_path(path: Path) -> str:
    """``("rules", 2, "expr")`` as ``rules[2].expr``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def nearest(word: str, choices: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the choice that looks most like ``word``, or nothing."""
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.7)
    return f" (did you mean {close[0]!r}?)" if close else ""


def excerpt(text: object, limit: int = 80) -> str:
    """``text`` as a short quoted string."""
    shown = repr(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _one_line(text: str) -> str:
    """``text`` on one line, without characters that would steer a terminal."""
    folded = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in folded)
