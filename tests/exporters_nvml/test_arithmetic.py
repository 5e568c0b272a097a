"""What is computed from samples: identities that hold for all of them."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.exporters.nvml.energy import EnergyCounter
from gpu_actuary.exporters.nvml.power import PowerWindow, plausible_watts
from gpu_actuary.exporters.nvml.throttle import REASONS, ThrottleClock
from gpu_actuary.exporters.nvml.xids import XidCounts

watts = st.floats(min_value=1, max_value=2000)
seconds = st.floats(min_value=0.01, max_value=4)


def _window(samples: list[float], step: float = 0.5) -> PowerWindow:
    window = PowerWindow()
    for number, each in enumerate(samples):
        window.add(number * step, each)
    return window


@given(st.lists(watts, min_size=30, max_size=100), st.floats(min_value=0.5, max_value=2))
def test_fluctuation_does_not_depend_on_the_scale(samples: list[float], scale: float) -> None:
    now = (len(samples) - 1) * 0.5
    plain = _window(samples).fluctuation(now)
    scaled = _window([each * scale for each in samples]).fluctuation(now)
    assert plain is not None
    assert plain >= 0
    assert scaled == pytest.approx(plain, abs=1e-9)


@given(watts, st.integers(min_value=25, max_value=400))
def test_steady_power_does_not_fluctuate(power: float, count: int) -> None:
    found = _window([power] * count).fluctuation((count - 1) * 0.5)
    assert found == pytest.approx(0, abs=1e-12)


def test_fluctuation_forgets_what_is_older_than_a_minute() -> None:
    assert _window([100.0] * 100 + [300.0] * 121).fluctuation(110) == 0


@pytest.mark.parametrize(
    ("count", "step", "late"),
    [(20, 0.5, 0), (40, 1.5, 0), (100, 0.5, 3), (0, 0.5, 0)],
    ids=["too short", "rarer than 1 Hz", "too old", "none"],
)
def test_without_enough_samples_there_is_no_fluctuation(
    count: int, step: float, late: float
) -> None:
    assert _window([200.0] * count, step).fluctuation((count - 1) * step + late) is None


@pytest.mark.parametrize("reading", [0.0, -5.0, 5000.0, 2147483.632, math.inf, math.nan])
def test_a_power_that_no_board_draws_is_refused(reading: float) -> None:
    with pytest.raises(ValueError, match="a power of"):
        plausible_watts(reading)


@given(st.lists(st.tuples(seconds, watts), min_size=1, max_size=50), st.data())
def test_the_hardwares_energy_is_what_was_used_whatever_reloads_there_were(
    steps: list[tuple[float, float]], data: st.DataObject
) -> None:
    counter, now, reading, used = EnergyCounter(), 0.0, 1e6, 0.0
    counter.read(now, reading)
    for duration, power in steps:
        now += duration
        # A reload shows only in a counter that is then lower than before.
        if duration * power < reading and data.draw(st.booleans()):
            reading = 0.0
        reading += duration * power
        used += duration * power
        counter.read(now, reading)
    assert counter.joules == {"hardware": pytest.approx(used, rel=1e-6)}


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=50))
def test_no_reading_makes_the_energy_fall_or_grow_beyond_reason(readings: list[float]) -> None:
    counter, total = EnergyCounter(), 0.0
    for now, reading in enumerate(readings):
        with contextlib.suppress(ValueError):
            counter.read(float(now), reading)
        after = counter.joules.get("hardware", 0.0)
        assert total <= after <= total + 5000 * (now + 1)
        total = after


@given(st.lists(st.tuples(seconds, watts), min_size=1, max_size=50))
def test_integrated_energy_lies_between_least_and_most_power(
    steps: list[tuple[float, float]],
) -> None:
    counter, now = EnergyCounter(), 0.0
    for duration, power in steps:
        now += duration
        counter.integrate(now, power)
    duration = now - steps[0][0]
    powers = [power for _, power in steps]
    joules = counter.joules["integrated"]
    assert min(powers) * duration - 1e-6 <= joules <= max(powers) * duration + 1e-6


def test_power_is_not_integrated_over_a_silence() -> None:
    counter = EnergyCounter()
    for now in (0, 1, 100, 101):
        counter.integrate(float(now), 300.0)
    assert counter.joules == {"integrated": 600}


def test_a_change_of_method_counts_nothing_twice() -> None:
    counter = EnergyCounter()
    counter.read(0.0, 1000.0)
    counter.read(1.0, 1300.0)
    counter.integrate(1.5, 300.0)
    counter.integrate(2.5, 300.0)
    counter.read(3.0, 1900.0)
    counter.read(4.0, 2200.0)
    assert counter.joules == {"hardware": 600, "integrated": 300}


@given(st.lists(st.tuples(seconds, st.integers(min_value=0, max_value=0xFFFF)), min_size=1))
def test_no_reason_holds_longer_than_the_time_that_passed(steps: list[tuple[float, int]]) -> None:
    clock, now = ThrottleClock(), 0.0
    for duration, mask in steps:
        now += duration
        clock.add(now, mask)
    assert set(clock.seconds) == set(REASONS)
    assert all(0 <= held <= now - steps[0][0] + 1e-6 for held in clock.seconds.values())


def test_an_unknown_reason_is_other_and_idleness_is_none() -> None:
    clock = ThrottleClock()
    for now, mask in enumerate((0, 0x1, 0x101, 0x4)):
        clock.add(float(now), mask)
    held = {reason: seconds for reason, seconds in clock.seconds.items() if seconds}
    assert held == {"other": 1, "sw_power_cap": 1}


@given(st.lists(st.integers(min_value=1, max_value=999), max_size=100))
def test_the_counts_of_xids_sum_to_all_that_came(xids: list[int]) -> None:
    counts = XidCounts()
    for when, xid in enumerate(xids):
        counts.add(xid, float(when))
    by_code, last = counts.view()
    assert sum(by_code.values()) == len(xids)
    assert len(by_code) <= 8
    assert last == (len(xids) - 1 if xids else None)
