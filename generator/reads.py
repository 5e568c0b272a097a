"""Rewriting what an expression reads, and the time it asks for, without touching anything else.

The text keeps its form, so that what a person wrote stays readable in the rendered file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .values import number, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | \#[^\n]* )
    | (?P<text> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` )
    | (?P<number> \.?\d[\w.]* (?: (?<=[eE]) [-+]\d+ )? )
    | (?P<word> [A-Za-z_:][\w:]* )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BEFORE_LABELS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_OPERATORS = {"and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"}
_DATE_FUNCTIONS = {
    "minute",
    "hour",
    "day_of_week",
    "day_of_month",
    "day_of_year",
    "days_in_month",
    "month",
    "year",
}


@dataclass(frozen=True, slots=True)
class Read:
    """One read of series as it is written.

    ``selector`` is name and matchers, ``range`` the brackets (with a step for a subquery) or empty,
    ``offset_seconds`` how far back it looks. ``fixed`` reads look at one absolute moment (``@``).
    """

    name: str | None
    selector: str
    range: str
    offset_seconds: float
    fixed: bool
    text: str


def later(read: Read, seconds: float) -> str:
    """``read`` looking ``seconds`` further back."""
    if read.fixed or not seconds:
        return read.text
    return f"{read.selector}{read.range}{_offset(read.offset_seconds + seconds)}"


def rewrite(text: str, replace: Callable[[Read], str], *, lag_seconds: float = 0.0) -> str:
    """``text`` with each read replaced, and with the time of ``lag_seconds`` ago for now."""
    return _Rewriter(text, replace, lag_seconds).result()


def duration(seconds: float) -> str:
    """``seconds`` as PromQL writes a span of time."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _offset(seconds: float) -> str:
    if not seconds:
        return ""
    sign = "-" if seconds < 0 else ""
    return f" offset {sign}{duration(abs(seconds))}"


class _Rewriter:
    """Walks over the tokens once; ``at`` is the position of the next one."""

    def __init__(self, text: str, replace: Callable[[Read], str], lag_seconds: float) -> None:
        self._tokens = [(m.lastgroup, m.group()) for m in _TOKEN.finditer(text)]
        self._replace = replace
        self._lag = lag_seconds
        self._at = 0

    def result(self) -> str:
        """The whole text."""
        written: list[str] = []
        while self._at < len(self._tokens):
            written.append(self._next())
        return "".join(written)

    def _next(self) -> str:
        kind, text = self._tokens[self._at]
        if kind == "word":
            return self._word(text)
        if text == "{":
            return self._read(None)
        if text == "[":
            return self._through("]")
        self._at += 1
        return text

    def _word(self, word: str) -> str:
        lower = word.lower()
        following = self._following(self._at + 1)
        if lower in _BEFORE_LABELS:
            return self._through(")") if following == "(" else self._through(word)
        if following == "(":
            return self._call(lower)
        if lower in _OPERATORS or following.lower() in ("by", "without"):
            return self._through(word)
        return self._read(word)

    def _call(self, function: str) -> str:
        """The name of a function; all of it where it asks for the time."""
        start = self._at
        self._at += 1
        if self._lag and (function == "time" or function in _DATE_FUNCTIONS):
            opened = self._position(self._at)
            if self._following(opened + 1) == ")":
                self._through(")")
                now = f"(time() - {number(float(self._lag))})"
                return now if function == "time" else f"{function}(vector{now})"
        return self._tokens[start][1]

    def _read(self, name: str | None) -> str:
        start = self._at
        if name is not None:
            self._at += 1
        if name is None or self._following(self._at) == "{":
            self._through("}")
        selector = self._since(start)
        span, offset, fixed, seen = "", 0.0, False, False
        while True:
            following = self._following(self._at).lower()
            if following == "[" and not seen:
                begin = self._position(self._at)
                self._through("]")
                span = self._since(begin)
            elif following == "offset":
                self._through(self._following(self._at))
                offset, seen = self._duration(), True
            elif following == "@":
                self._through("@")
                self._moment()
                fixed = seen = True
            else:
                break
        read = Read(name, selector, span, offset, fixed, self._since(start))
        return self._replace(read)

    def _duration(self) -> float:
        """The span after ``offset``, in seconds."""
        sign = self._following(self._at)
        if sign in ("-", "+"):
            self._through(sign)
        text = self._following(self._at)
        self._through(text)
        seconds = float(text) if re.fullmatch(r"[\d.]+", text) else parse_duration(text).seconds
        return -seconds if sign == "-" else seconds

    def _moment(self) -> None:
        """The moment after ``@``: a number, or start() or end()."""
        sign = self._following(self._at)
        if sign in ("-", "+"):
            self._through(sign)
        self._through(self._following(self._at))
        if self._following(self._at) == "(":
            self._through(")")

    def _position(self, at: int) -> int:
        """The position of the first token from ``at`` on that is no space."""
        while at < len(self._tokens) and self._tokens[at][0] == "space":
            at += 1
        return at

    def _following(self, at: int) -> str:
        position = self._position(at)
        return self._tokens[position][1] if position < len(self._tokens) else ""

    def _through(self, token: str) -> str:
        """Everything up to and with the next ``token``."""
        start = self._at
        while self._at < len(self._tokens):
            self._at += 1
            if self._tokens[self._at - 1][1] == token:
                break
        return self._since(start)

    def _since(self, start: int) -> str:
        return "".join(token for _, token in self._tokens[start : self._at])
