"""Typed values of specs: durations, percentages, quantities, names and regular expressions."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import promql_parser
from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from gpu_actuary.catalogue import LEVELS
from gpu_actuary.options import duration_seconds

from .problems import excerpt

_PERCENTAGE = re.compile(r"[-+]?\d{1,9}(?:\.\d{1,9})?%")


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time as Prometheus writes it: ``text`` such as ``5m``, and its ``seconds``."""

    text: str
    seconds: float

    def __str__(self) -> str:
        return self.text


def refused(message: str, expected: str) -> PydanticCustomError:
    """The error that says what is wrong and what was expected."""
    return PydanticCustomError("spec", "{message}", {"message": message, "expected": expected})


def wrong(value: object, expected: str) -> PydanticCustomError:
    """The error that says what stood there and what was expected."""
    return refused(f"{excerpt(value)} does not fit", expected)


def parse_duration(value: Any) -> Duration:
    """``90s``, ``5m``, ``1h30m``, ``2w``; raises a validation error for anything else."""
    if isinstance(value, Duration):
        return value
    seconds = duration_seconds(value) if isinstance(value, str) else None
    if seconds is None:
        raise wrong(value, "a duration such as 30s, 5m, 1h, 1d or 2w")
    return Duration(value, seconds)


def parse_positive_duration(value: Any) -> Duration:
    """As :func:`parse_duration`, and longer than nothing."""
    duration = parse_duration(value)
    if not duration.seconds:
        raise wrong(value, "a duration above 0, such as 30s")
    return duration


def parse_ratio(value: Any) -> float:
    """``5%`` or ``0.05`` as 0.05; raises a validation error outside 0..1."""
    ratio = _percentage(value) if isinstance(value, str) else _number(value)
    if ratio is None or not 0 <= ratio <= 1:
        raise wrong(value, "a percentage such as 5%, or a ratio from 0 to 1")
    return ratio


def parse_quantity(value: Any) -> float:
    """A number, ``50ms`` in seconds, or ``10%`` as 0.1: in the unit of the series it stands for."""
    quantity = _number(value)
    if isinstance(value, str):
        quantity = _percentage(value)
        if quantity is None:
            quantity = duration_seconds(value)
    if quantity is None:
        raise wrong(value, "a number, a duration such as 50ms or a percentage such as 10%")
    return quantity


def _percentage(text: str) -> float | None:
    return float(text[:-1]) / 100 if _PERCENTAGE.fullmatch(text) else None


def _number(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None


def parse_number(value: Any) -> float:
    """A finite number; text, true and false are none."""
    number = _number(value)
    if number is None:
        raise wrong(value, "a number")
    return number


def parse_regex(value: Any) -> str:
    """A regular expression that Prometheus accepts in a matcher."""
    if not isinstance(value, str) or not value:
        raise wrong(value, "a regular expression")
    try:
        # Python checks that it is whole by itself: `a)|(b` would break out of the anchors that
        # Prometheus puts around it. The PromQL parser checks the dialect.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of Python's own dialect
            re.compile(value)
        promql_parser.parse(f"x{{a=~{quote(value)}}}")
    except (re.error, ValueError, RecursionError, OverflowError) as error:
        raise wrong(value, f"a regular expression ({error})") from None
    return value


def number(value: float) -> str:
    """``value`` as PromQL and people write it: whole numbers without a fraction."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def quote(text: str) -> str:
    """``text`` as a PromQL string literal with its quotes."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def as_list(value: Any) -> Any:
    """A single mapping as a list of one; anything else as it is."""
    return [value] if isinstance(value, dict) else value


def parse_name(value: Any) -> str:
    """A name of a spec: lower-case words joined by hyphens."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", value):
        raise wrong(value, "lower-case words joined by hyphens, such as gpu-vanished")
    return value


def parse_label_name(value: Any) -> str:
    """A Prometheus label name that is not reserved."""
    if not isinstance(value, str) or not re.fullmatch(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", value):
        raise wrong(value, "a label name such as job_id")
    return value


RECORDED_LEVELS = (*LEVELS, "team")


def parse_recorded_name(value: Any) -> str:
    """A recorded name whose level is one of ours."""
    levels = "|".join(RECORDED_LEVELS)
    if not isinstance(value, str) or not re.fullmatch(
        rf"({levels}):[a-z][a-z0-9_]*:[a-z0-9_]+", value
    ):
        raise wrong(value, f"level:metric:operation, level one of {', '.join(RECORDED_LEVELS)}")
    return value


def parse_currency(value: Any) -> str:
    """An ISO 4217 code."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z]{3}", value):
        raise wrong(value, "a currency code of three capital letters, such as USD")
    return value


PositiveDuration = Annotated[Duration, PlainValidator(parse_positive_duration)]
DurationValue = Annotated[Duration, PlainValidator(parse_duration)]
Ratio = Annotated[float, PlainValidator(parse_ratio)]
Quantity = Annotated[float, PlainValidator(parse_quantity)]
Number = Annotated[float, PlainValidator(parse_number)]
NonNegative = Annotated[Number, Field(ge=0)]
Regex = Annotated[str, PlainValidator(parse_regex)]
Name = Annotated[str, PlainValidator(parse_name)]
LabelName = Annotated[str, PlainValidator(parse_label_name)]
RecordedName = Annotated[str, PlainValidator(parse_recorded_name)]
Currency = Annotated[str, PlainValidator(parse_currency)]
Text = Annotated[str, Field(min_length=1)]
