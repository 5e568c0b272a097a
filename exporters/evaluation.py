"""One evaluation as a service outside the training reports it, and how its JSON is read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .layout import SCORE_NAME_BYTES, SCORES

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_ID_BYTES: Final = 512
MAX_STEP: Final = 2**53
CLOCK_TOLERANCE_SECONDS: Final = 300.0
"""A later timestamp than this would win over every evaluation that follows."""

_FIELDS: Final = ("job_id", "step", "timestamp", "scores", "loss", "quality")


class InvalidEvaluationError(Exception):
    """A report is wrong: ``field`` of it ("" for the whole) and what was ``expected`` there."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: {expected}" if field else expected)
        self.field = field
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results of evaluating ``job_id`` after ``step`` optimizer steps.

    ``timestamp`` is Unix seconds, ``quality`` within 0..1. ``withheld`` names the values that came
    as NaN or infinite; they are absent otherwise.
    """

    job_id: str
    step: int
    timestamp: float
    scores: Mapping[str, float]
    loss: float | None = None
    quality: float | None = None
    withheld: tuple[str, ...] = ()

    def says_the_same(self, other: Evaluation) -> bool:
        """Whether both report the same values; the timestamps may differ, as after a retry."""
        return (
            dict(self.scores) == dict(other.scores)
            and self.loss == other.loss
            and self.quality == other.quality
            and sorted(self.withheld) == sorted(other.withheld)
        )


def parse_evaluation(body: bytes, now: float) -> Evaluation:
    """The evaluation in a JSON document; raises :class:`InvalidEvaluationError`.

    ``now`` in Unix seconds is the timestamp of a report that has none.
    """
    document = _document(body)
    for name in document:
        if name not in _FIELDS:
            raise InvalidEvaluationError(
                name, f"expected only {', '.join(_FIELDS)}; a score belongs into scores"
            )
    withheld: list[str] = []
    scores = {
        name: number
        for name, value in _scores(document.get("scores")).items()
        if (number := _finite(f"scores.{name}", value, withheld)) is not None
    }
    loss = _finite("loss", document.get("loss"), withheld)
    quality = _finite("quality", document.get("quality"), withheld)
    if quality is not None and not 0 <= quality <= 1:
        raise InvalidEvaluationError("quality", f"expected a number from 0 to 1, not {quality}")
    if not scores and loss is None and quality is None and not withheld:
        raise InvalidEvaluationError("", "expected at least one of scores, loss, quality")
    return Evaluation(
        text("job_id", document.get("job_id"), JOB_ID_BYTES),
        _step(document.get("step")),
        _timestamp(document.get("timestamp"), now),
        scores,
        loss,
        quality,
        tuple(withheld),
    )


def text(field: str, value: object, limit_bytes: int) -> str:
    """``value`` if it can be a label; raises :class:`InvalidEvaluationError`."""
    if not isinstance(value, str) or not value or value != value.strip():
        raise InvalidEvaluationError(
            field, "expected a text that is not empty, without spaces around it"
        )
    if not value.isprintable():  # control characters and halves of surrogate pairs are not
        raise InvalidEvaluationError(field, "expected printable characters only")
    if len(value.encode("utf-8")) > limit_bytes:
        raise InvalidEvaluationError(field, f"expected at most {limit_bytes} bytes in UTF-8")
    return value


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise InvalidEvaluationError("", f"expected JSON in UTF-8: {error}") from error
    if not isinstance(document, dict):
        raise InvalidEvaluationError("", "expected a JSON object")
    return document


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidEvaluationError(repeated, "expected every name once in an object")
    return found


def _scores(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidEvaluationError("scores", "expected an object of numbers by metric name")
    if len(value) > SCORES:
        raise InvalidEvaluationError(
            "scores", f"expected at most {SCORES} scores, not {len(value)}"
        )
    return {text("scores", name, SCORE_NAME_BYTES): number for name, number in value.items()}


def _finite(field: str, value: object, withheld: list[str]) -> float | None:
    """A number; None for null and, after noting its name, for NaN and infinities."""
    if value is None:
        return None
    number = _number(field, value)
    if math.isfinite(number):
        return number
    withheld.append(field)
    return None


def _number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidEvaluationError(field, "expected a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _step(value: object) -> int:
    expected = "expected the number of optimizer steps, a whole number from 0 to 2^53"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidEvaluationError("step", expected)
    if not 0 <= value <= MAX_STEP or value != int(value):
        raise InvalidEvaluationError("step", expected)
    return int(value)


def _timestamp(value: object, now: float) -> float:
    if value is None:
        return now
    timestamp = _number("timestamp", value)
    if not 0 < timestamp <= now + CLOCK_TOLERANCE_SECONDS:
        raise InvalidEvaluationError(
            "timestamp",
            f"expected seconds since the epoch, at most {CLOCK_TOLERANCE_SECONDS:.0f} s after this"
            f" node's clock ({now:.0f})",
        )
    return timestamp
