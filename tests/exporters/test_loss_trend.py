from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.exporters.loss import LossTrend


@given(st.floats(-30, 30), st.floats(0.01, 100), st.floats(0.05, 20))
def test_an_exponential_loss_gives_its_own_rate(rate: float, first: float, every: float) -> None:
    trend = LossTrend()
    times = [every * index for index in range(300)]
    for now in times:
        trend.add(first * math.exp(rate * now / 3600), now)
    slope = trend.slope_per_hour(times[-1])
    assert slope == pytest.approx(rate, rel=1e-6, abs=1e-6)


def test_spikes_do_not_move_the_slope() -> None:
    trend = LossTrend()
    for second in range(200):
        spike = 1000.0 if second % 50 == 49 else 1.0
        trend.add(3.0 * math.exp(-2.0 * second / 3600) * spike, float(second))
    assert trend.slope_per_hour(200.0) == pytest.approx(-2.0, rel=0.1)


def test_there_is_no_slope_before_there_are_enough_losses() -> None:
    trend = LossTrend()
    for second in range(6):
        trend.add(1.0, float(second))
    assert trend.slope_per_hour(6.0) is None
    trend.add(1.0, 6.0)
    assert trend.slope_per_hour(6.0) == 0.0


def test_the_slope_goes_when_the_losses_stop() -> None:
    trend = LossTrend()
    for second in range(100):
        trend.add(1.0, float(second))
    assert trend.slope_per_hour(100.0) is not None
    assert trend.slope_per_hour(400.0) is None


def test_a_loss_without_logarithm_starts_anew() -> None:
    trend = LossTrend()
    for second in range(100):
        trend.add(1.0, float(second))
    trend.add(-1.0, 100.0)
    assert trend.slope_per_hour(100.0) is None


def test_the_window_slides_to_the_latest_behaviour() -> None:
    trend = LossTrend()
    for second in range(6000):
        falling = min(second, 3000)
        trend.add(math.exp(-10.0 * falling / 3600), float(second))
    assert trend.slope_per_hour(6000.0) == pytest.approx(0.0, abs=1e-9)
