"""What must hold at any time: phases sum to wall time, energy is power's integral, counters grow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_actuary.simulator.fleet import Fleet, Load, Place
from gpu_actuary.simulator.samplefleet import sample_fleet

from .reading import NODES, Sample, select, sidecar_text, simulation, values

TIMES = st.floats(min_value=0, max_value=3e6, allow_nan=False)
SEEDS = st.integers(min_value=0, max_value=3)
RESTARTS = st.sampled_from([None, 75.0, 333.3])
BEGAN_BEFORE = {job.job_id: job.began_before_seconds for job in sample_fleet().jobs}

few = settings(max_examples=25, deadline=None)


def _phase_sums(text: str) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], list[float]] = {}
    for (_, labels), value in select(values(text), "actuary_step_seconds_total").items():
        named = dict(labels)
        sums.setdefault((named["job_id"], named["rank"]), []).append(value)
    return {rank: math.fsum(parts) for rank, parts in sums.items()}


@few
@given(seed=SEEDS, elapsed=TIMES)
def test_the_phases_of_a_rank_sum_to_its_wall_time(seed: int, elapsed: float) -> None:
    for node in ("sim-a", "sim-b", "sim-e"):
        for (job_id, _), total in _phase_sums(
            sidecar_text(simulation(seed), node, elapsed)
        ).items():
            assert total == pytest.approx(BEGAN_BEFORE[job_id] + elapsed, abs=1e-5)


@few
@given(elapsed=st.floats(min_value=0, max_value=5000))
def test_over_crashes_the_phases_sum_to_the_time_that_the_processes_lived(elapsed: float) -> None:
    every, down = 300.0, 25.0
    crashes = int(elapsed // every)
    dead = sum(min(down, elapsed - every * n) for n in range(1, crashes + 1))
    text = sidecar_text(simulation(restart_every=every), "sim-a", elapsed)
    for total in _phase_sums(text).values():
        assert total == pytest.approx(7200 + elapsed - dead, abs=1e-5)


def _counters(text: str) -> dict[Sample, float]:
    """Counters and the parts of histograms; the XID window and NVLink only claim to be counters."""
    claims = ("DCGM_EXP_XID_ERRORS_COUNT", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")
    found = values(text, types=("counter", "histogram"))
    return {key: value for key, value in found.items() if key[0] not in claims}


@few
@given(
    node=st.sampled_from(NODES), seed=SEEDS, times=st.tuples(TIMES, TIMES), restart_every=RESTARTS
)
def test_counters_never_fall(
    node: str, seed: int, times: tuple[float, float], restart_every: float | None
) -> None:
    earlier, later = sorted(min(t, 20_000) if restart_every else t for t in times)
    fleet = simulation(seed, restart_every=restart_every)
    for show in (fleet.dcgm, lambda n, t: sidecar_text(fleet, n, t)):
        before, after = _counters(show(node, earlier)), _counters(show(node, later))
        assert set(before) == set(after)
        fallen = {key: (before[key], after[key]) for key in before if after[key] < before[key]}
        assert not fallen


@few
@given(start=st.floats(min_value=0, max_value=10_000), gap=st.floats(min_value=0, max_value=3e-5))
def test_counters_never_fall_between_scrapes_that_almost_coincide(start: float, gap: float) -> None:
    fleet = simulation(restart_every=75.0)
    before, after = (_counters(sidecar_text(fleet, "sim-a", t)) for t in (start, start + gap))
    assert all(after[key] >= value for key, value in before.items())


ENERGY = {
    "sim-a": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE", 1e-3),
    "sim-b": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "DCGM_FI_DEV_BOARD_POWER_WATTS", 1.0),
    "sim-c": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE", 1e-3),
    "sim-d": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "DCGM_FI_DEV_BOARD_POWER_WATTS", 1.0),
    "sim-e": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "DCGM_FI_DEV_BOARD_POWER_WATTS", 1.0),
}


def _of_family(text: str, name: str) -> dict[frozenset[tuple[str, str]], float]:
    found = {labels: value for (_, labels), value in select(values(text), name).items()}
    assert len(found) >= 8
    return found


@few
@given(node=st.sampled_from(NODES), seed=SEEDS, start=TIMES)
def test_energy_is_the_integral_of_power(node: str, seed: int, start: float) -> None:
    """Power is a mean over a second, so the powers of successive seconds sum to the energy."""
    energy, power, joules = ENERGY[node]
    fleet = simulation(seed)
    before, after = (_of_family(fleet.dcgm(node, t), energy) for t in (start, start + 3))
    seconds = [_of_family(fleet.dcgm(node, start + n), power) for n in range(1, 4)]
    for labels, value in before.items():
        total = sum(watts[labels] for watts in seconds)
        assert (after[labels] - value) * joules == pytest.approx(total, abs=2 * joules + 1e-2)


@few
@given(node=st.sampled_from(NODES), seed=SEEDS, elapsed=TIMES)
def test_sensors_stay_in_their_ranges(node: str, seed: int, elapsed: float) -> None:
    for (name, labels), value in values(simulation(seed).dcgm(node, elapsed)).items():
        assert math.isfinite(value)
        if name.endswith(("_ACTIVE", "_UTIL_RATIO", "_OCCUPANCY_RATIO", "_OCCUPANCY")):
            assert 0 <= value <= 1, (name, labels)
        elif name.endswith("_UTIL"):
            assert 0 <= value <= 100, (name, labels)
        elif "POWER" in name:
            assert 50 < value < 720, (name, labels)
        elif "TEMP" in name:
            assert 20 < value < 95, (name, labels)
        assert value >= 0, (name, labels)


@few
@given(elapsed=TIMES, restart_every=RESTARTS)
def test_no_sidecar_value_is_infinite_or_not_a_number(
    elapsed: float, restart_every: float | None
) -> None:
    moment = min(elapsed, 20_000) if restart_every else elapsed
    fleet = simulation(restart_every=restart_every)
    assert all(map(math.isfinite, values(sidecar_text(fleet, "sim-a", moment)).values()))


def test_ranks_of_a_job_take_their_steps_together() -> None:
    found = select(values(sidecar_text(simulation(), "sim-a", 77.7)), "actuary_steps_total")
    assert len(found) == 8
    assert len(set(found.values())) == 1


def test_the_histogram_counts_every_step_of_every_rank() -> None:
    found = values(sidecar_text(simulation(restart_every=75.0), "sim-a", 400))
    steps = sum(select(found, "actuary_steps_total").values())
    (count,) = select(found, "actuary_step_duration_seconds_count").values()
    (infinite,) = select(found, "actuary_step_duration_seconds_bucket", le="+Inf").values()
    assert steps == count == infinite


def test_a_fleet_that_cannot_be_is_refused() -> None:
    fleet = sample_fleet()
    job = fleet.jobs[0]
    with pytest.raises(ValueError, match="same name"):
        Fleet((*fleet.nodes, fleet.nodes[0]), ())
    with pytest.raises(ValueError, match="same job_id"):
        Fleet(fleet.nodes, (job, job))
    with pytest.raises(ValueError, match="leaves the range"):
        Load(0.9, 0.2)
    mig = next(node for node in fleet.nodes if node.gpus[0].instances)
    for place, message in ((Place("elsewhere", 0), "does not exist"), (Place(mig.name, 0), "MIG")):
        with pytest.raises(ValueError, match=message):
            Fleet(fleet.nodes, (replace(job, places=(place,)),))
