"""What a simulated model learns: its loss, the loss's slope, its evaluations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from .noise import signed

if TYPE_CHECKING:
    from .fleet import Job, LossCurve

_TRAINING_NOISE: Final = 0.015
_EVALUATION_NOISE: Final = 0.003
_EVALUATION_ABOVE_TRAINING: Final = 1.04
_SMALLEST_LEARNING_RATE: Final = 0.1
_STEPS_OF_SCHEDULE: Final = 100_000


def smooth_loss(curve: LossCurve, step: float) -> float:
    """The loss after ``step`` steps without noise."""
    decay = math.pow(1.0 + step / curve.scale_steps, -curve.exponent)
    return curve.floor + (curve.first - curve.floor) * decay


def training_loss(job: Job, seed: int, rank: int, step: int) -> float:
    """The loss of the step as the rank saw it on its own part of the batch."""
    noise = _TRAINING_NOISE * signed(seed, job.job_id, rank, step, "loss")
    return smooth_loss(job.curve, step) * (1.0 + noise)


def log_slope_per_step(curve: LossCurve, step: float) -> float:
    """d ln(loss) per step; negative, since the curve falls."""
    above_floor = smooth_loss(curve, step) - curve.floor
    fall = -curve.exponent * above_floor / (curve.scale_steps + step)
    return fall / smooth_loss(curve, step)


def evaluation_loss(job: Job, seed: int, step: int) -> float:
    """The loss on the evaluation set after ``step`` steps."""
    noise = _EVALUATION_NOISE * signed(seed, job.job_id, step, "evaluation")
    return smooth_loss(job.curve, step) * _EVALUATION_ABOVE_TRAINING * (1.0 + noise)


def accuracy(job: Job, seed: int, step: int) -> float:
    """The share of right answers on the evaluation set after ``step`` steps, 0..1."""
    curve = job.curve
    learnt = (curve.first - smooth_loss(curve, step)) / (curve.first - curve.floor)
    noise = _EVALUATION_NOISE * signed(seed, job.job_id, step, "accuracy")
    return min(1.0, max(0.0, job.best_accuracy * (learnt + noise)))


def learning_rate(job: Job, step: int) -> float:
    """A cosine from the job's rate down to a tenth of it."""
    progress = min(1.0, step / _STEPS_OF_SCHEDULE)
    share = _SMALLEST_LEARNING_RATE + (1.0 - _SMALLEST_LEARNING_RATE) * 0.5 * (
        1.0 + math.cos(math.pi * progress)
    )
    return job.learning_rate * share
