"""What training is worth: quality, convergence speed, ROI (design formula 3)."""

from __future__ import annotations

import math


def quality_progress(loss: float, initial_loss: float, target_loss: float) -> float | None:
    """How far the evaluation loss has come: clip((L₀ − L) ÷ (L₀ − L*), 0, 1).

    The clip is the formula's own: a loss above L₀ is no progress, one below L* is all of it.
    ``None`` when L₀ ≤ L*, where progress has no meaning, or when an input is not finite.
    """
    if not all(map(math.isfinite, (loss, initial_loss, target_loss))):
        return None
    if initial_loss <= target_loss:
        return None
    return min(max((initial_loss - loss) / (initial_loss - target_loss), 0.0), 1.0)


def quality(accuracy: float | None, progress: float | None, accuracy_weight: float) -> float | None:
    """q = w·accuracy + (1 − w)·progress, from what exists when one is missing.

    ``accuracy`` and ``progress`` in 0..1, ``accuracy_weight`` w in 0..1. ``None`` when both are
    missing or an accuracy lies outside 0..1 (then the score is not a share, and dropping it in
    silence for the other part would hide that).
    """
    if not 0 <= accuracy_weight <= 1:
        raise ValueError(f"accuracy weight {accuracy_weight} is not within 0..1")
    if accuracy is not None and not 0 <= accuracy <= 1:
        return None
    if accuracy is None:
        return progress
    if progress is None:
        return accuracy
    return accuracy_weight * accuracy + (1 - accuracy_weight) * progress


def convergence_speed(loss_slope_per_hour: float) -> float | None:
    """v = max(0, −d ln(loss)/dt), per hour; ``None`` when the slope is not finite."""
    if not math.isfinite(loss_slope_per_hour):
        return None
    return max(0.0, -loss_slope_per_hour)


def roi(
    quality_value: float,
    convergence_per_hour: float,
    gpus: float,
    energy_cost_per_hour: float,
) -> float | None:
    """ROI = q·v ÷ (GPU-hours per hour × energy cost per hour).

    The founding formula (quality × convergence speed) ÷ (GPU-hours × energy cost) written per
    running hour, so that it does not depend on the window: ``gpus`` is GPU-hours per hour,
    ``energy_cost_per_hour`` money per hour. ``None`` without GPUs or without an energy cost.
    """
    denominator = gpus * energy_cost_per_hour
    if not denominator > 0:
        return None
    return quality_value * convergence_per_hour / denominator


def roi_per_money(
    quality_value: float, convergence_per_hour: float, full_cost_per_hour: float
) -> float | None:
    """q·v ÷ full cost per hour (hardware and energy, in money per hour)."""
    if not full_cost_per_hour > 0:
        return None
    return quality_value * convergence_per_hour / full_cost_per_hour


def roi_index(roi_value: float, reference: float) -> float | None:
    """ROI ÷ reference ROI; 1 is normal. ``None`` without a positive reference."""
    if not reference > 0:
        return None
    return roi_value / reference
