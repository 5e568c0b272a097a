"""Efficiency of training: η, MFU and what is made of them (design formulas 1 and 2).

All functions take sums over a window and over the ranks concerned, never ratios: a ratio of sums
is right for ranks of different speed, a mean of ratios is not. A result that would lie outside its
range is ``None``: dropped and to be counted by the caller, never clamped.
"""

from __future__ import annotations

import math

_ROUNDING = 1e-9


def _in_unit_range(value: float) -> float | None:
    if not math.isfinite(value) or value < -_ROUNDING or value > 1 + _ROUNDING:
        return None
    return min(max(value, 0.0), 1.0)


def communication_efficiency(comm_exposed_seconds: float, iteration_seconds: float) -> float | None:
    """η = 1 − Σ Δcomm_exposed ÷ Σ Δiteration.

    ``comm_exposed_seconds`` is time that steps really waited for communication;
    ``iteration_seconds`` the time of all phases but checkpoint, evaluation and startup, over the
    same window and ranks: those that measure their communication. ``None`` without iteration time or outside 0..1.

    Source: the founding formula η = 1 − avg_allreduce_latency ÷ iteration_time, with exposed time
    in place of summed bucket latencies, which overlap and can exceed the iteration many times.
    """
    if not iteration_seconds > 0:
        return None
    return _in_unit_range(1 - comm_exposed_seconds / iteration_seconds)


def mfu(model_flops: float, peak_flop_seconds: float) -> float | None:
    """Model FLOPs utilisation = Σ Δmodel_flops ÷ Σ (Δwall × peak).

    ``model_flops`` in floating-point operations; ``peak_flop_seconds`` is the sum over ranks of
    wall seconds × dense peak FLOP/s. ``None`` without a peak, and above 1, which is a
    configuration error. Source: Chowdhery et al., PaLM, 2022, appendix B.
    """
    if not peak_flop_seconds > 0:
        return None
    return _in_unit_range(model_flops / peak_flop_seconds)


def effective_utilization(mfu_value: float, efficiency: float) -> float:
    """The founding article's index: MFU × η.

    Wall-clock MFU already contains communication stalls, so this counts them twice; it is a
    penalised index, not a utilisation.
    """
    return mfu_value * efficiency


def mfu_compute(mfu_value: float, efficiency: float) -> float | None:
    """MFU outside exposed communication: MFU ÷ η; ``None`` when η is 0 or the result exceeds 1."""
    if not efficiency > 0:
        return None
    return _in_unit_range(mfu_value / efficiency)
