"""What one scrape says of GPUs that are well, that fail in one field, and that answer nonsense."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gpu_actuary.catalogue import get
from gpu_actuary.catalogue.exported import NVML

from .running import Scrape, Sidecar, sidecar
from .shim import Control, gpu, healthy, uuid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL_FIELDS = {
    "present",
    "power_fluctuation_ratio",
    "energy_joules_total",
    "ecc_errors_total",
    "row_remap",
    "throttle_seconds_total",
}
BUSY, NO_COUNTER, NOTHING, IMPOSSIBLE, SENTINELS, MIG, LOST, NAMELESS, TWIN = range(7, 16)

# Each fails in one function: its field is missing, and nothing else is.
FAILING = {
    0: ("nvmlDeviceGetPowerUsage", "power", "power_fluctuation_ratio"),
    1: ("nvmlDeviceGetTotalEnergyConsumption", "energy", "energy_joules_total"),
    2: ("nvmlDeviceGetCurrentClocksEventReasons", "throttle", "throttle_seconds_total"),
    3: ("nvmlDeviceGetTotalEccErrors", "ecc", "ecc_errors_total"),
    4: ("nvmlDeviceGetRemappedRows", "row_remap", "row_remap"),
    5: ("nvmlDeviceGetMigMode", "mig", None),
    6: ("nvmlDeviceRegisterEvents", "xid", None),
}


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Control:
    return Control(
        tmp_path_factory.mktemp("control") / "control",
        {"gpus": 16},
        *(healthy(i, **{f"error.{function}": 999}) for i, (function, _, _) in FAILING.items()),
        healthy(
            BUSY, power="200000,400000", reasons=0x8C | 0x1, ecc="3,0,12,1", remap="2,1,1,0", xids=0
        ),
        healthy(NO_COUNTER, energy=None),
        healthy(IMPOSSIBLE, power=0, energy=0, reasons=2**64 - 1, remap="0,0,7,0"),
        gpu(IMPOSSIBLE, ecc=",".join([str(2**64 - 1)] * 4)),
        healthy(SENTINELS, power=0x7FFFFFF0, energy=2**63, remap="4294967295,0,0,0"),
        gpu(SENTINELS, ecc=f"{0x7FFFFFF1},{140737488355328},55000000000,7"),
        healthy(MIG, mig=3),
        healthy(LOST, lost=1),
        healthy(NAMELESS, **{"error.nvmlDeviceGetUUID": 999}),
        healthy(TWIN, uuid=uuid(BUSY), power=1000, ecc="99,99,99,99"),
    )


@pytest.fixture(scope="module")
def node(
    control: Control, library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("node")
    with sidecar(folder, control.environment(library)) as running:
        yield running


@pytest.fixture(scope="module")
def scrape(node: Sidecar, control: Control) -> Scrape:
    """A scrape after a while, when every figure is there and two XIDs have come."""
    node.wait(lambda s: s.of(BUSY, "power_fluctuation_ratio") is not None, "a window of power")
    control.set(gpu(BUSY, xids="0,48,48"), gpu(NOTHING, xids=""))
    return node.wait(lambda s: s.of(BUSY, "xid_total", xid="48") == 2, "the XIDs")


def test_a_gpu_that_supports_everything_shows_everything(scrape: Scrape) -> None:
    assert scrape.fields(BUSY) == {*ALL_FIELDS, "xid_total", "xid_last_timestamp_seconds"}
    assert scrape.of(BUSY, "present") == 1
    assert scrape.of(BUSY, "power_fluctuation_ratio") == pytest.approx(1 / 3, rel=0.02)
    assert scrape.of(BUSY, "ecc_errors_total", type="corrected", scope="volatile") == 3
    assert scrape.of(BUSY, "ecc_errors_total", type="uncorrected", scope="volatile") == 0
    assert scrape.of(BUSY, "ecc_errors_total", type="corrected", scope="aggregate") == 12
    assert scrape.of(BUSY, "ecc_errors_total", type="uncorrected", scope="aggregate") == 1
    assert scrape.all_of(BUSY, "row_remap", "state") == {
        "correctable": 2,
        "uncorrectable": 1,
        "pending": 1,
        "failure": 0,
    }
    assert scrape.errors(BUSY) == set()
    assert scrape.of_node("nvml_up") == 1


def test_names_types_help_and_labels_are_exactly_the_catalogues(scrape: Scrape) -> None:
    lines = scrape.text.splitlines()
    for series in NVML:
        assert f"# TYPE {series.name} {series.type}" in lines
        assert f"# HELP {series.name} {series.help}" in lines
    exposed = {name for name, _ in scrape.samples}
    assert {series.name for series in NVML} <= exposed
    for name, labels in scrape.samples:
        series = get("actuary_exporter_build_info" if name.endswith("build_info") else name)
        assert {label for label, _ in labels} == set(series.labels), name
        for label, value in labels:
            assert value in series.values.get(label, (value,)), (name, label, value)


def test_no_name_is_dcgms(scrape: Scrape) -> None:
    assert all(name.startswith("actuary_") for name, _ in scrape.samples)


def test_no_gpu_costs_more_series_than_its_budget(scrape: Scrape) -> None:
    costs: dict[tuple[str, str], int] = {}
    for name, labels in scrape.samples:
        owner = dict(labels).get("gpu_uuid", "")
        costs[name, owner] = costs.get((name, owner), 0) + 1
    for (name, owner), cost in costs.items():
        if owner:
            assert cost <= get(name).series_each, (name, owner)


def test_promtool_has_nothing_to_say(scrape: Scrape) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape.text, text=True, capture_output=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("index", FAILING)
def test_a_field_that_fails_is_absent_and_counted_and_hides_no_other(
    scrape: Scrape, index: int
) -> None:
    _, field, series = FAILING[index]
    assert scrape.fields(index) == ALL_FIELDS - {series}
    assert scrape.errors(index) == {field}


def test_the_first_failure_of_a_field_is_said_once_and_names_all(node: Sidecar) -> None:
    said = [line for line in node.log().splitlines() if f"cannot read power of {uuid(0)}" in line]
    assert len(said) == 1
    assert "nvmlDeviceGetPowerUsage" in said[0]
    assert "Unknown Error" in said[0]


def test_several_reasons_hold_the_clocks_at_a_time_and_an_idle_gpu_is_not_held(
    scrape: Scrape,
) -> None:
    held = scrape.all_of(BUSY, "throttle_seconds_total", "reason")
    assert set(held) == set(get("actuary_gpu_throttle_seconds_total").values["reason"])
    assert {reason for reason, seconds in held.items() if seconds > 0} == {
        "sw_power_cap",
        "hw_slowdown",
        "hw_power_brake",
    }
    assert held["sw_power_cap"] == held["hw_power_brake"]


def test_without_a_counter_energy_is_integrated_power_and_says_so(scrape: Scrape) -> None:
    assert set(scrape.all_of(NO_COUNTER, "energy_joules_total", "method")) == {"integrated"}
    joules = scrape.of(NO_COUNTER, "energy_joules_total", method="integrated")
    seconds = scrape.of(BUSY, "throttle_seconds_total", reason="sw_power_cap")
    assert joules is not None
    assert seconds is not None
    # Both grew in the same samples of about the same time.
    assert joules / 300 == pytest.approx(seconds, abs=2)
    assert scrape.errors(NO_COUNTER) == set()


def test_what_is_not_supported_is_absent_and_no_error(scrape: Scrape) -> None:
    assert scrape.fields(NOTHING) == {"present"}
    assert scrape.errors(NOTHING) == set()


def test_impossible_values_are_withheld_and_counted(scrape: Scrape) -> None:
    assert scrape.fields(IMPOSSIBLE) == {"present"}
    assert scrape.errors(IMPOSSIBLE) == {"power", "energy", "throttle", "ecc", "row_remap"}


def test_sentinels_are_withheld_and_large_true_counts_are_not(scrape: Scrape) -> None:
    assert scrape.fields(SENTINELS) == {"present", "ecc_errors_total", "throttle_seconds_total"}
    assert scrape.errors(SENTINELS) == {"power", "energy", "ecc", "row_remap"}
    assert scrape.all_of(SENTINELS, "ecc_errors_total", "scope") == {"aggregate": 7}
    aggregate = scrape.of(SENTINELS, "ecc_errors_total", type="corrected", scope="aggregate")
    assert aggregate == 55_000_000_000


def test_a_gpu_with_mig_instances_is_one_gpu(scrape: Scrape) -> None:
    assert scrape.fields(MIG) == ALL_FIELDS
    assert scrape.errors(MIG) == set()
    assert "MIG-" not in scrape.text


def test_gpus_that_cannot_be_named_or_share_a_name_are_counted_for_the_node(
    scrape: Scrape,
) -> None:
    assert scrape.errors("") == {"identity"}
    assert scrape.of(LOST, "present") is None, "it was never there"
    assert scrape.of(NAMELESS, "present") is None
    assert scrape.of(TWIN, "present") is None


def test_energy_counts_from_the_start_and_survives_nonsense(
    node: Sidecar, control: Control, scrape: Scrape
) -> None:
    assert scrape.of(BUSY, "energy_joules_total", method="hardware") == 0

    def counted(joules: float) -> None:
        node.wait(
            lambda s: s.of(BUSY, "energy_joules_total", method="hardware") == joules,
            f"{joules} J",
        )

    control.set(gpu(BUSY, energy=81_000_500))
    counted(0.5)
    control.set(gpu(BUSY, energy=999_000_000_000))
    node.wait(lambda s: "energy" in s.errors(BUSY), "the jump to be counted")
    control.set(gpu(BUSY, energy=81_000_500))
    node.wait(
        lambda s: (s.of(BUSY, "field_errors_total", field="energy") or 0) >= 2, "the jump back"
    )
    control.set(gpu(BUSY, energy=81_002_000))
    counted(2.0)
