"""A dynamic baseline as recording rules of constant cost: each reads its own last value.

Per input series, every four minutes (short enough for instant reads, long enough to be cheap):

- residual: (3-minute mean − baseline mean) ÷ scale;
- observations: how many updates the baseline has learnt from; alerts wait for the warm-up;
- anomalous_seconds: for how long the series has been anomalous. Meanwhile mean and scale stand
  still, so that an incident neither becomes normal nor blinds the baseline afterwards; after
  ``accept_after`` the mean jumps to the new level;
- mean: follows small residuals and nearly ignores large ones (a redescending influence);
- scale: the mean absolute residual. It is never less than what the relative and the absolute
  deviation tolerate, divided by the sensitivity, so that one threshold stands for all three.

Every minute the score: deviation ÷ (sensitivity × scale). 1 is the edge of normal. A season adds to
the sensitivity what recurred at this time on both of the two days (or weeks) before: a batch job
that comes daily is forgiven, a single incident of yesterday is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .values import Duration, number

if TYPE_CHECKING:
    from .models import Baseline

UPDATE: Final = Duration("4m", 240.0)
SCORE: Final = Duration("1m", 60.0)

_MEAN_WINDOW = "3m"
_MEMORY = "1h"
"""A gap longer than this starts the baseline anew."""
_HELD_MEMORY = "9m"
"""Two updates: one normal update in between does not end an anomaly."""
_REDESCEND = 5
_GAIN = 0.71
_SCALE_FLOOR = 0.02
_SMALLEST_SCALE = 1e-9
_LARGEST_RESIDUAL = 1000
_EARLY_INFLUENCE = 200
"""While it warms up, no residual moves the scale more than this one would; later, none more than
one at the sensitivity: what is anomalous tells nothing about the noise."""
_MAX_OBSERVATIONS = 2520
"""Seven days of updates: from then on the scale forgets what is older."""
_SEASONS = {"day": (1425, 2865), "week": (10065, 20145)}
"""Ends, in minutes ago, of the half hours around this time one and two periods before."""


@dataclass(frozen=True, slots=True)
class BaselineRule:
    """A recording rule of a baseline; ``operation`` is the last part of its name."""

    operation: str
    expr: str
    interval: Duration
    unit: str
    help: str


def record_name(spec: Baseline, operation: str) -> str:
    """``job:step_time_baseline:mean`` for the baseline ``step-time`` of a ``job:`` series."""
    level = spec.series.partition(":")[0]
    return f"{level}:{spec.name.replace('-', '_')}_baseline:{operation}"


def alert_expression(spec: Baseline) -> str:
    """What fires the alert; it is absent while the baseline learns."""
    return f"{record_name(spec, 'score')} > 1"


def recordings(spec: Baseline) -> list[BaselineRule]:
    """The recording rules of ``spec``."""
    title = f"of the baseline {spec.name}"
    unit = spec.unit or "as the series"
    return [
        BaselineRule("residual", _residual(spec), UPDATE, "scales", f"Residual {title}."),
        BaselineRule(
            "observations", _observations(spec), UPDATE, "updates", f"Updates learnt {title}."
        ),
        BaselineRule(
            "anomalous_seconds",
            _anomalous(spec),
            UPDATE,
            "seconds",
            f"Time since the anomaly began {title}; absent while there is none.",
        ),
        BaselineRule("mean", _mean(spec), UPDATE, unit, f"Expected value {title}."),
        BaselineRule("scale", _scale(spec), UPDATE, unit, f"Mean absolute residual {title}."),
        BaselineRule(
            "score",
            _score(spec),
            SCORE,
            "",
            f"Deviation in units of what is tolerated {title}; above 1 is anomalous.",
        ),
    ]


def _input(spec: Baseline) -> str:
    """The mean of the last minutes; NaN, infinities and values out of range are no data."""
    low = "-Inf" if spec.range.min is None else number(spec.range.min)
    high = "Inf" if spec.range.max is None else number(spec.range.max)
    above = ">" if spec.range.min is None else ">="
    below = "<" if spec.range.max is None else "<="
    mean = f"avg by ({', '.join(spec.by)}) (avg_over_time({spec.series}[{_MEAN_WINDOW}]))"
    return f"({mean} {above} {low} {below} {high})"


def _last(spec: Baseline, operation: str, memory: str = _MEMORY) -> str:
    return f"last_over_time({record_name(spec, operation)}[{memory}])"


def _residual(spec: Baseline) -> str:
    deviation = f"({_input(spec)} - {_last(spec, 'mean')}) / {_last(spec, 'scale')}"
    return f"clamp({deviation}, -{_LARGEST_RESIDUAL}, {_LARGEST_RESIDUAL})"


def _observations(spec: Baseline) -> str:
    residual = record_name(spec, "residual")
    learnt = f"{_last(spec, 'observations')} + 1 + 0 * {residual}"
    return f"clamp_max({learnt}, {_MAX_OBSERVATIONS})\nor 0 * {_input(spec)}"


def _anomalous(spec: Baseline) -> str:
    residual = record_name(spec, "residual")
    held = f"({_last(spec, 'anomalous_seconds', _HELD_MEMORY)} or 0 * {residual})"
    return (
        f"{held} + {number(UPDATE.seconds)}\n"
        f"and {_signed(spec, residual)} > {_sensitivity(spec)}\n"
        f"and {_learnt(spec)}"
    )


def _mean(spec: Baseline) -> str:
    residual, held = record_name(spec, "residual"), record_name(spec, "anomalous_seconds")
    influence = f"{_GAIN} * sin(2 * atan({residual} / {_REDESCEND}))"
    return (
        f"{_input(spec)} and {held} >= {number(spec.accept_after.seconds)}\n"
        f"or {_last(spec, 'mean')} and {held}\n"
        f"or {_last(spec, 'mean')} + {_last(spec, 'scale')} * {influence}\n"
        f"or {_input(spec)}"
    )


def _scale(spec: Baseline) -> str:
    size, held = f"abs({record_name(spec, 'residual')})", record_name(spec, "anomalous_seconds")
    influence = (
        f"((clamp_max({size}, {number(spec.deviation.sensitivity)}) and {_learnt(spec)})"
        f" or clamp_max({size}, {_EARLY_INFLUENCE}))"
    )
    observations = record_name(spec, "observations")
    learnt = f"{_last(spec, 'scale')} * (1 + ({influence} - 1) / {observations})"
    share = max(_SCALE_FLOOR, spec.deviation.relative / spec.deviation.sensitivity)
    floor = f"{number(share)} * abs({record_name(spec, 'mean')})"
    smallest = max(_SMALLEST_SCALE, spec.deviation.absolute / spec.deviation.sensitivity)
    return (
        "clamp_min(\n"
        f"  (({_last(spec, 'scale')} and {held}) or {learnt}) > {floor}\n"
        f"  or {floor},\n"
        f"  {number(smallest)}\n"
        ")"
    )


def _score(spec: Baseline) -> str:
    deviation = f"({_input(spec)} - {record_name(spec, 'mean')})"
    tolerated = f"({_sensitivity(spec)} * {record_name(spec, 'scale')})"
    return f"{_signed(spec, deviation)}\n/ {tolerated}\nand {_learnt(spec)}"


def _signed(spec: Baseline, deviation: str) -> str:
    """``deviation`` so that larger is worse."""
    return {"above": deviation, "below": f"(-{deviation})", "both": f"abs({deviation})"}[
        spec.direction
    ]


def _learnt(spec: Baseline) -> str:
    """Holds once the warm-up is over."""
    updates = spec.warm_up.seconds / UPDATE.seconds
    return f"{record_name(spec, 'observations')} >= {number(updates)}"


def _sensitivity(spec: Baseline) -> str:
    """The sensitivity, with what recurred in the last two seasons on top."""
    plain = f"{number(spec.deviation.sensitivity)}"
    terms = [_recurred(spec, *_SEASONS[season]) for season in spec.seasonality]
    if not terms:
        return plain
    forgiven = terms[0]
    if len(terms) == 2:
        forgiven = f"(({terms[0]} >= {terms[1]}) or {terms[1]} or {terms[0]})"
    none = f"0 * {record_name(spec, 'residual')}"
    return f"({plain} + clamp_min({forgiven} or {none}, 0))"


def _recurred(spec: Baseline, once: int, twice: int) -> str:
    """The lesser of the largest residuals around this time one and two seasons before."""
    residual = record_name(spec, "residual")

    def largest(minutes: int) -> str:
        if spec.direction == "above":
            return f"max_over_time({residual}[30m] offset {minutes}m)"
        if spec.direction == "below":
            return f"(-min_over_time({residual}[30m] offset {minutes}m))"
        return f"max_over_time(abs({residual})[30m:4m] offset {minutes}m)"

    first, second = largest(once), largest(twice)
    return f"(({first} <= {second}) or ({second} < {first}))"
