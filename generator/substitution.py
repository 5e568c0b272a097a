"""Filling specs in at render time: Jinja with << >> and <% %>, so that Prometheus keeps its {{ }}.

Texts of settings are opaque to templates: only the filters ``quote`` and ``regex`` open them, and
both yield a PromQL string literal. So no value that a user sets can become PromQL.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from gpu_actuary.catalogue import LEVELS
from gpu_actuary.catalogue.recorded import BALANCE_WINDOWS
from gpu_actuary.catalogue.vocabulary import (
    EQUITY,
    LIABILITIES,
    OUTSIDE_ITERATION,
    PHASES,
    REPORTED_STATES,
    SIDES,
    STATES,
    UNREPORTED_STATES,
)

from .values import Duration, number, parse_duration, quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path as FilePath

    from .models import Economics, Inventory, Ledger


class SettingText:
    """A text that a user set. It can be compared, and nothing else turns it into a string."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, other: object) -> bool:
        return self._text == (other._text if isinstance(other, SettingText) else other)

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        raise SecurityError("a text of the settings stands bare; write `| quote` or `| regex`")

    __repr__ = __str__
    __html__ = __str__


def _reveal(value: SettingText) -> str:
    return value._text


class SubstitutionError(Exception):
    """A template cannot be filled in; ``line`` counts from 0 inside its text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Substitution:
    """Fills in expressions and texts with one set of settings.

    ``folders`` may each hold ``templates/*.jinja`` with macros; later folders win.
    """

    def __init__(
        self,
        settings: tuple[Economics, Inventory, Ledger],
        folders: Sequence[FilePath],
    ) -> None:
        economics, inventory, ledger = settings
        names = {
            "economics": _plain(economics),
            "inventory": _plain(inventory),
            "ledger": _plain(ledger),
            "by": {level: ", ".join(labels) for level, labels in LEVELS.items()},
            "rate_window": ledger.window,
            "phases": PHASES,
            "outside_iteration": OUTSIDE_ITERATION,
            "states": REPORTED_STATES,
            "unreported_states": UNREPORTED_STATES,
            "all_states": STATES,
            "sides": SIDES,
            "liabilities": LIABILITIES,
            "equity": EQUITY,
            "windows": BALANCE_WINDOWS,
        }
        loader = jinja2.FileSystemLoader([folder / "templates" for folder in reversed(folders)])
        self._expressions = _environment(loader, names, _finalize_expression)
        self._texts = _environment(loader, names, _finalize_text)

    def expression(self, text: str) -> str:
        """A PromQL expression, filled in; raises :class:`SubstitutionError`."""
        return _tidy(_fill(self._expressions, text))

    def text(self, text: str) -> str:
        """A label value, annotation or test value, filled in; raises as above."""
        return _fill(self._texts, text)


def _environment(loader: jinja2.BaseLoader, names: dict[str, Any], finalize: Any) -> Any:
    environment = ImmutableSandboxedEnvironment(
        loader=loader,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        autoescape=False,  # the result is PromQL, not HTML; see SettingText
    )
    for unwanted in ("lipsum", "cycler", "joiner", "dict"):
        environment.globals.pop(unwanted, None)
    environment.globals.update(names)
    environment.filters.update(quote=_quote, regex=_regex, seconds=_seconds, open=_open)
    return environment


def _fill(environment: Any, text: str) -> str:
    if not any(mark in text for mark in ("<<", "<%", "<#")):
        return text
    try:
        filled: str = environment.from_string(text).render()
    except jinja2.TemplateSyntaxError as error:
        where = f" in {error.name}" if error.name else ""
        raise SubstitutionError(f"template{where}: {error.message}", error.lineno - 1) from error
    except jinja2.TemplateNotFound as error:
        raise SubstitutionError(f"there is no template {error.name!r}", 0) from error
    except jinja2.TemplateError as error:
        raise SubstitutionError(f"template: {error.message}", 0) from error
    # A template can call anything with anything: whatever goes wrong is the template's fault.
    except Exception as error:
        raise SubstitutionError(f"template: {type(error).__name__}: {error}", 0) from error
    return filled


def _finalize_expression(value: Any) -> Any:
    if isinstance(value, SettingText):
        return str(value)
    if value is None or isinstance(value, bool):
        raise SecurityError(f"{value} is no part of PromQL; test it with <% if … %>")
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str | Duration | jinja2.Undefined):
        return value
    raise SecurityError(
        f"a {type(value).__name__} stands bare; expected a number, a duration or `| regex`"
    )


def _finalize_text(value: Any) -> Any:
    if isinstance(value, SettingText):
        # Alertmanager's texts are templates themselves; braces of a value must stay braces.
        return _reveal(value).replace("{{", '{{ "{{" }}')
    return _finalize_expression(value)


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise SecurityError(f"{value} is not a number that PromQL can hold")
    return number(float(value))


def _quote(value: Any) -> str:
    if isinstance(value, SettingText):
        value = _reveal(value)
    if not isinstance(value, str):
        raise SecurityError(f"quote takes a text, not a {type(value).__name__}")
    return quote(value)


def _regex(value: Any) -> str:
    """A text is a regular expression; of a list each item is matched literally."""
    if isinstance(value, str | SettingText):
        return _quote(value)
    if not isinstance(value, list | tuple | dict) or not value:
        raise SecurityError(f"regex takes a text or a list that is not empty, not {value!r}")
    items = [_reveal(v) if isinstance(v, SettingText) else v for v in value]
    return quote("|".join(re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", str(item)) for item in items))


def _seconds(value: Any) -> float:
    if not isinstance(value, Duration):
        raise SecurityError(f"seconds takes a duration, not a {type(value).__name__}")
    return int(value.seconds) if value.seconds.is_integer() else value.seconds


def _open(value: Any) -> str:
    """A range without its left end: 2.x of Prometheus counts a sample there, 3.x does not."""
    try:
        duration = parse_duration(value)
    except PydanticCustomError:
        raise SecurityError(f"open takes a duration, not {value!r}") from None
    milliseconds = round(duration.seconds * 1000) - 1
    return f"{milliseconds // 1000}s{milliseconds % 1000}ms"


def _plain(value: Any) -> Any:
    """A settings value for templates: models as mappings, texts opaque, the rest as it is."""
    if isinstance(value, BaseModel):
        return {name: _plain(below) for name, below in value}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return SettingText(value) if isinstance(value, str) else value


def _tidy(expression: str) -> str:
    """The expression without the blank lines and the indentation that templates leave."""
    lines = [line.rstrip() for line in expression.split("\n") if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return "\n".join(line[margin:] for line in lines)
