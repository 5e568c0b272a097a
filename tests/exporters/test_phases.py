from __future__ import annotations

import math
import time

from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.catalogue.vocabulary import PHASES
from gpu_actuary.exporters import phases
from gpu_actuary.exporters.phases import PhaseClock, process_start

_actions = st.lists(
    st.tuples(
        st.sampled_from(["switch", "spent_as", "settle", "enter", "leave", "redo", "new"]),
        st.integers(0, len(PHASES) - 1),
        st.floats(0, 100),
    ),
    max_size=40,
)


@given(_actions)
def test_phases_sum_to_wall_time_whatever_happens(actions: list[tuple[str, int, float]]) -> None:
    seconds = [0.0] * len(PHASES)
    clock = PhaseClock(seconds, phase=phases.STARTUP, start=5.0)
    now = 5.0
    for action, phase, passed in actions:
        now += passed
        if action == "switch":
            clock.switch(phase, now)
        elif action == "spent_as":
            clock.switch(phase, now, spent_as=phases.BACKWARD)
        elif action == "settle":
            clock.settle(now)
        elif action == "enter":
            clock.enter(phase, now)
        elif action == "leave" and clock.enclosed:
            clock.leave(now)
        else:
            clock.count_as_recompute(action == "redo", now)
    clock.settle(now)
    assert math.isclose(sum(seconds), now - 5.0, abs_tol=1e-6)
    assert all(value >= 0 for value in seconds)


def test_an_evaluation_keeps_its_time_and_returns_to_the_phase_around_it() -> None:
    seconds = [0.0] * len(PHASES)
    clock = PhaseClock(seconds, phase=phases.OTHER, start=0.0)
    clock.enter(phases.EVALUATION, 1.0)
    clock.switch(phases.FORWARD, 2.0)
    clock.enter(phases.CHECKPOINT, 4.0)
    clock.leave(5.0)
    clock.leave(6.0)
    assert clock.current == phases.OTHER
    assert (seconds[phases.EVALUATION], seconds[phases.CHECKPOINT]) == (4.0, 1.0)
    assert seconds[phases.FORWARD] == 0.0


def test_redone_work_is_recompute_but_a_checkpoint_stays_a_checkpoint() -> None:
    seconds = [0.0] * len(PHASES)
    clock = PhaseClock(seconds, phase=phases.FORWARD, start=0.0)
    clock.count_as_recompute(True, 1.0)
    clock.enter(phases.CHECKPOINT, 3.0)
    clock.leave(7.0)
    clock.count_as_recompute(False, 8.0)
    clock.settle(10.0)
    assert seconds[phases.RECOMPUTE] == 3.0
    assert seconds[phases.CHECKPOINT] == 4.0
    assert seconds[phases.FORWARD] == 3.0


def test_iteration_time_leaves_checkpoint_evaluation_and_startup_out() -> None:
    clock = PhaseClock([1.0] * len(PHASES), phase=phases.STARTUP, start=0.0)
    clock.switch(phases.FORWARD, 2.0)
    clock.enter(phases.EVALUATION, 5.0)
    clock.leave(9.0)
    clock.settle(10.0)
    assert clock.iteration_seconds(10.0) == 4.0


def test_the_process_started_before_now_and_not_before_this_machine() -> None:
    assert 0 < time.monotonic() - process_start() < time.clock_gettime(time.CLOCK_BOOTTIME)
