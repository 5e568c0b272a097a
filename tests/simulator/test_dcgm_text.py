"""The simulated DCGM text has the shape of the real exporter's."""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path

import pytest

from . import reading
from .reading import NODES, heads, lines, only, select, simulation, values

SAMPLES = Path(
    os.environ.get(
        "ACTUARY_TELEMETRY_SAMPLES",
        Path(__file__).parents[3] / "shared" / "data" / "telemetry",
    )
)
"""Folder of sample expositions; where it is missing, the few facts below are compared with."""

SHAPES_OF = {
    "sim-a": ("gen48_h100x8_k8s.prom",),
    "sim-b": ("gen49_h100x8_k8s.prom",),
    "sim-c": ("gen48_timeslicing_nvlink.prom", "gen48_h100x8_k8s.prom"),
    "sim-d": ("gen49_h100_mig.prom", "gen49_h100x8_k8s.prom"),
    "sim-e": ("gen49_h100x8_bare.prom",),
}
"""Which samples a node resembles; the first one gives the order and the help of the families."""

_OLD = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION")
_NEW = tuple(
    {
        "UUID": "uuid",
        "Hostname": "hostname",
        "DCGM_FI_DRIVER_VERSION": "DCGM_FI_SYSTEM_DRIVER_VERSION",
    }.get(key, key)
    for key in _OLD
)
_MIG = (*_NEW[:5], "GPU_I_PROFILE", "GPU_I_ID", *_NEW[5:])
_POD = ("container", "namespace", "pod")
_XID_POD = ("container", "err_code", "err_msg", "namespace", "pod")
_BARE = tuple(key.replace("uuid", "UUID") for key in _NEW)
FACTS = {
    "sim-a": {
        ("DCGM_FI_DEV_POWER_USAGE", (*_OLD, *_POD)),
        ("DCGM_FI_DEV_XID_ERRORS", (*_OLD, *_XID_POD)),
        ("DCGM_EXP_XID_ERRORS_COUNT", (*_OLD, "window_size_in_ms", *_POD)),
    },
    "sim-b": {
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", (*_NEW, *_POD)),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", _NEW),
        ("DCGM_FI_DEV_XID_ERROR", (*_NEW, "err_code", "err_msg")),
    },
    "sim-c": {
        ("DCGM_FI_DEV_POWER_USAGE", (*_OLD, *_POD, "vgpu")),
        ("DCGM_FI_DEV_XID_ERRORS", (*_OLD, *_XID_POD, "vgpu")),
    },
    "sim-d": {
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", (*_MIG, *_POD)),
        ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", _MIG),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", _NEW),
    },
    "sim-e": {
        ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", _BARE),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", _BARE),
    },
}


def _samples(node: str) -> list[str]:
    if not SAMPLES.is_dir():
        warnings.warn(f"{SAMPLES} is missing: compared with a few facts only", stacklevel=2)
        return []
    return [(SAMPLES / name).read_text() for name in SHAPES_OF[node]]


def _shapes(text: str) -> set[tuple[str, tuple[str, ...]]]:
    return {(name, keys) for name, keys, _ in lines(text)}


@pytest.mark.parametrize("node", NODES)
def test_label_keys_and_their_order_are_those_of_the_real_exporter(node: str) -> None:
    shown = _shapes(simulation().dcgm(node, 10))
    assert shown >= FACTS[node]
    samples = _samples(node)
    if samples:
        assert shown <= set().union(*map(_shapes, samples))


@pytest.mark.parametrize("node", NODES)
def test_families_types_and_help_texts_come_in_the_real_exporters_order(node: str) -> None:
    shown = heads(simulation().dcgm(node, 10))
    for sample in _samples(node)[:1]:
        expected = heads(sample)
        assert [head for head in expected if head in shown] == shown
    assert len(shown) >= 32


@pytest.mark.parametrize("node", NODES)
def test_integers_are_written_plainly_and_doubles_with_six_decimals(node: str) -> None:
    for sample in _samples(node)[:1]:
        is_double = {name: "." in value for name, _, value in lines(sample)}
        for name, _, value in lines(simulation().dcgm(node, 10)):
            assert ("." in value) == is_double[name], name
    for name, _, value in lines(simulation().dcgm(node, 10)):
        assert "." not in value or len(value.partition(".")[2]) == 6, name


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("elapsed", [0.0, 100.0, 86_400.0])
def test_text_parses_strictly_and_no_series_stands_twice(node: str, elapsed: float) -> None:
    text = simulation().dcgm(node, elapsed)
    assert values(text)
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    lint = ("snake_case", '"_total" suffix', "should not include type")
    findings = [f for f in checked.stderr.splitlines() if not any(word in f for word in lint)]
    assert findings == []
    assert checked.returncode in (0, 3)  # 3: naming lint only, 1: it does not parse


def test_mig_instances_repeat_the_boards_power_and_have_no_utilisation() -> None:
    found = values(simulation().dcgm("sim-d", 10))
    power = select(found, "DCGM_FI_DEV_BOARD_POWER_WATTS", gpu="0")
    assert len(power) == 3
    assert len(set(power.values())) == 1
    assert not select(found, "DCGM_FI_DEV_GPU_UTIL_RATIO", gpu="0")
    engines = select(found, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", gpu="0")
    assert len(set(engines.values())) == 3
    assert select(found, "DCGM_FI_DEV_GPU_UTIL_RATIO", gpu="2")


def test_time_slicing_gives_each_pod_the_whole_power() -> None:
    found = values(simulation().dcgm("sim-c", 10))
    shared = select(found, "DCGM_FI_DEV_POWER_USAGE", gpu="6")
    assert {dict(labels)["pod"] for _, labels in shared} == {"embed-0", "rerank-0"}
    assert len(set(shared.values())) == 1


def test_an_xid_changes_the_gauge_once_and_stays() -> None:
    fleet = simulation()
    codes = [
        only(values(fleet.dcgm("sim-c", t)), "DCGM_FI_DEV_XID_ERRORS", gpu="2")
        for t in (0, 29.9, 30, 1000)
    ]
    assert codes == [0, 0, 31, 31]
    (after,) = select(values(fleet.dcgm("sim-c", 30)), "DCGM_FI_DEV_XID_ERRORS", gpu="2")
    assert dict(after[1])["err_code"] == "31"


def test_a_row_remap_becomes_pending_with_its_error_and_leaves_the_window_count() -> None:
    fleet = simulation()
    before, after, later = (values(fleet.dcgm("sim-b", t)) for t in (44, 46, 400))
    pending = "DCGM_FI_DEV_ROW_REMAP_PENDING"
    assert [only(found, pending, gpu="5") for found in (before, after, later)] == [0, 1, 1]
    assert only(after, pending, gpu="4") == 0
    for name in ("ECC_DBE_VOL_TOTAL", "ECC_DBE_AGG_TOTAL", "ROW_REMAP_UNCORRECTABLE_TOTAL"):
        grown = only(after, f"DCGM_FI_DEV_{name}", gpu="5") - only(
            before, f"DCGM_FI_DEV_{name}", gpu="5"
        )
        assert grown == 1, name
    assert only(after, "DCGM_EXP_XID_ERRORS_COUNT", gpu="5", xid="63") == 1
    assert only(later, "DCGM_EXP_XID_ERRORS_COUNT", gpu="5") == 0
    assert only(later, "DCGM_FI_DEV_XID_ERROR", gpu="5") == 63


def test_idle_gpus_draw_little_and_training_ones_much() -> None:
    fleet = simulation()
    watts = {
        gpu: sum(
            only(values(fleet.dcgm("sim-b", t)), "DCGM_FI_DEV_BOARD_POWER_WATTS", gpu=str(gpu))
            for t in range(0, 40, 4)
        )
        / 10
        for gpu in (0, 4, 7)
    }
    assert watts[0] > 250
    assert 50 < watts[4] < 100
    assert 50 < watts[7] < 100


def test_the_same_seed_gives_the_same_text_and_another_seed_another() -> None:
    first, again, other = (simulation(seed).dcgm("sim-a", 12.3) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    uuids = [{dict(labels)["UUID"] for _, labels in values(text)} for text in (first, other)]
    assert uuids[0] == uuids[1]
    assert reading.sidecar_text(simulation(1), "sim-a", 5) != reading.sidecar_text(
        simulation(2), "sim-a", 5
    )
