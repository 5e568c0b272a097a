"""The estimators of the algorithm layer, on numbers alone."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.exporters.divergence import MAX_SCORE, Divergence
from gpu_actuary.exporters.noisescale import MIN_SAMPLES, NoiseScale
from gpu_actuary.exporters.sampling import COST_SHARE, FIRST_INTERVAL, Sampling, interval


@given(st.floats(0.01, 1e6), st.floats(0.01, 1e6), st.integers(1, 1000), st.integers(2, 64))
def test_expected_squared_norms_give_signal_and_variance_back(
    signal: float, variance: float, small: int, times: int
) -> None:
    noise, large = NoiseScale(), small * times
    for _ in range(MIN_SAMPLES):
        assert noise.signal is noise.variance is noise.ratio is None
        noise.add(signal + variance / small, signal + variance / large, small, large)
    assert noise.signal == pytest.approx(signal, rel=1e-3, abs=1e-9 * variance)
    assert noise.variance == pytest.approx(variance, rel=1e-3, abs=1e-9 * signal * small)


def test_the_ratio_is_one_of_means_and_absent_while_the_signal_is_not_positive() -> None:
    noise = NoiseScale()
    for index in range(40):
        # |G|² comes out as 3 and −1 in turn, tr Σ as 100: 100 is the truth, no mean of ratios.
        signal = 3.0 if index % 2 else -1.0
        noise.add(signal + 100 / 8, signal + 100 / 32, 8, 32)
    assert noise.ratio == pytest.approx(100, rel=0.01)
    for _ in range(200):
        noise.add(-5 + 100 / 8, -5 + 100 / 32, 8, 32)
    assert noise.ratio is None
    assert noise.signal is not None
    assert noise.signal < 0


def test_old_gradients_fade() -> None:
    noise = NoiseScale()
    for variance in [100.0] * 1000 + [300.0] * 500:
        noise.add(1 + variance / 8, 1 + variance / 32, 8, 32)
    assert noise.variance == pytest.approx(300, rel=0.01)


@given(st.floats(0, 10), st.floats(1e-6, 10))
def test_the_interval_keeps_the_cost_within_its_share(cost: float, step: float) -> None:
    steps = interval(cost, step)
    assert FIRST_INTERVAL <= steps <= 1024 * FIRST_INTERVAL
    if FIRST_INTERVAL < steps < 1024 * FIRST_INTERVAL:
        assert cost <= COST_SHARE * steps * step
        assert cost > COST_SHARE * steps / 2 * step


def test_costly_measurements_become_rare_and_all_stay_on_the_same_steps() -> None:
    sampling, now, taken = Sampling(), 0.0, []
    for step in range(2000):
        now += 0.01
        if sampling.steps_to_next() == 0:
            taken.append(step)
            sampling.measured(0.05 if len(taken) > 1 else 5.0, now)  # the first warms up
        sampling.step_ended()
    assert taken[:2] == [9, 19]
    assert {later - earlier for earlier, later in pairwise(taken[2:])} == {640}
    assert all((step + 1) % 640 == 0 for step in taken[2:])


def _score(losses: list[float], gradients: list[float] | None = None) -> float | None:
    divergence, score = Divergence(), None
    for index, loss in enumerate(losses):
        divergence.add_loss(loss)
        if gradients and index % 10 == 9:
            divergence.add_gradient(gradients[index])
        if index % 10 == 0:
            score = divergence.score()
    return score


def _healthy(steps: int) -> list[float]:
    drawn = random.Random(3)
    return [math.exp(-step / 2000) * drawn.lognormvariate(0, 0.05) for step in range(steps)]


def test_a_falling_loss_does_not_diverge() -> None:
    score = _score(_healthy(3000))
    assert score is not None
    assert score < 0.5


def test_a_spike_that_passes_is_no_divergence() -> None:
    # As BLOOM's: a gradient norm of .24 rose to 960 and was back after some thirty steps.
    losses, gradients = _healthy(1000), [0.24] * 1000
    for step in range(970, 1000):
        losses[step], gradients[step] = 50.0, 960.0
    score = _score(losses, gradients)
    assert score is not None
    assert score < 0.5


def test_a_lasting_rise_is_anomalous_however_slow() -> None:
    sudden = _score([*_healthy(1000), *[3.0] * 200])
    slow = _score([*_healthy(1000), *[0.6 * math.exp(step / 2000) for step in range(4000)]])
    assert sudden is not None
    assert slow is not None
    assert sudden > 1
    assert slow > 1


def test_an_exploding_gradient_is_anomalous_before_the_loss_shows_it() -> None:
    gradients = [1.0] * 1000 + [30.0] * 200
    score = _score(_healthy(1200), gradients)
    assert score is not None
    assert score > 1


def test_lasting_nans_score_the_highest_and_passing_ones_nothing() -> None:
    lasting = _score([*_healthy(500), *[math.nan] * 200])
    passing = _score([*_healthy(500), *[math.nan] * 20, *_healthy(10)])
    assert lasting == MAX_SCORE
    assert passing is not None
    assert passing < 0.5


def test_there_is_no_score_without_a_baseline() -> None:
    assert _score(_healthy(90)) is None
    assert _score([math.nan] * 500) is None
    assert _score([-1.0] * 500) is None


@given(st.lists(st.floats(), max_size=300))
def test_the_score_is_always_a_number_in_its_range(losses: list[float]) -> None:
    score = _score(losses)
    assert score is None or 0 <= score <= MAX_SCORE
