"""What happens while the sidecar runs: GPUs vanish, calls hang, drivers go and come, XIDs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_actuary.exporters.layout import METADATA_FIELDS, SLOT
from gpu_actuary.exporters.rankfile import RankFile, open_rank_file

from .running import NODE, Scrape, sidecar
from .shim import Control, Value, gpu, healthy, mig_uuid, uuid

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIXES = ("actuary_gpu", "actuary_nvml")


@pytest.fixture
def control(tmp_path: Path) -> Control:
    """Two healthy GPUs."""
    return Control(tmp_path / "control", {"gpus": 2}, healthy(0), healthy(1))


def _rank(folder: Path, **fields: str) -> RankFile:
    """A training's rank file among those that the sidecar reads."""
    (folder / "ranks").mkdir(exist_ok=True)
    metadata = {**dict.fromkeys(METADATA_FIELDS, ""), "job_id": "job", "rank": "0", **fields}
    file = open_rank_file(folder / "ranks", metadata)
    file.values[SLOT["actuary_steps_total"]] = 10.0
    file.publish()
    return file


def _steps(scrape: Scrape) -> float | None:
    return scrape.of_node("steps_total", job_id="job", rank="0")


def _up(scrape: Scrape) -> bool:
    return scrape.of_node("nvml_up") == 1


def _present(*gpus: int, missing: tuple[int, ...] = ()) -> Callable[[Scrape], bool]:
    def condition(scrape: Scrape) -> bool:
        return all(scrape.of(i, "present") == 1 for i in gpus) and all(
            scrape.of(i, "present") == 0 for i in missing
        )

    return condition


def test_a_gpu_that_falls_off_the_bus_is_not_present_until_it_is_back(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        node.wait(lambda s: s.of(0, "row_remap", state="pending") == 0, "its fields")
        control.set(gpu(0, lost=1))
        scrape = node.wait(_present(1, missing=(0,)), "the loss")
        assert scrape.fields(0) == {"present"}
        assert scrape.errors(0) == set(), "a lost GPU is not a failing field"
        assert "row_remap" in scrape.fields(1)
        assert _up(scrape)
        control.set(gpu(0, lost=None))
        scrape = node.wait(_present(0, 1), "the return")
        assert _up(scrape)
        assert "energy_joules_total" in scrape.fields(0)


def test_a_gpu_that_the_driver_no_longer_lists_has_vanished_and_the_others_keep_their_names(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        control.set({"gpus": 1, "gpu0.uuid": uuid(1)})
        scrape = node.wait(_present(1, missing=(0,)), "the loss")
        assert scrape.fields(0) == {"present"}
        control.set({"gpus": 3, "gpu0.uuid": None}, healthy(2))
        node.wait(_present(0, 1, 2), "its return and a new GPU", seconds=60)


def test_a_call_that_hangs_stops_neither_scrapes_nor_other_gpus(
    tmp_path: Path, library: Path, control: Control
) -> None:
    rank = _rank(tmp_path, device="cpu", local_rank="0")
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        control.set(gpu(0, **{"hang.nvmlDeviceGetPowerUsage": 1}))
        node.wait(lambda s: s.errors(0) == {"snapshot"}, "old values to be withheld")
        before, after = node.scrape(), node.scrape()
        assert before.fields(0) == after.fields(0) == set()
        counts = [s.of(0, "field_errors_total", field="snapshot") or 0 for s in (before, after)]
        assert counts[1] == counts[0] + 1, "each scrape that gets nothing is counted"
        assert after.errors(1) == set()
        assert "energy_joules_total" in after.fields(1)
        assert _steps(after) == 10
        control.set(gpu(0, **{"hang.nvmlDeviceGetPowerUsage": None}))
        node.wait(_present(0, 1), "the hanging call to end")
    rank.release()


def test_a_hanging_start_does_not_stop_the_training_metrics(
    tmp_path: Path, library: Path, control: Control
) -> None:
    control.set({"hang.nvmlInitWithFlags": 1})
    rank = _rank(tmp_path, device="cpu", local_rank="0")
    with sidecar(tmp_path, control.environment(library)) as node:
        scrape = node.wait(lambda s: _steps(s) == 10, "training metrics")
        assert scrape.of_node("nvml_up") == 0
        control.set({"hang.nvmlInitWithFlags": None})
        node.wait(_present(0, 1), "both GPUs")
    rank.release()


def test_a_sidecar_ends_when_it_is_told_to_although_nvml_hangs(
    tmp_path: Path, library: Path, control: Control
) -> None:
    control.set(gpu(0, **{"hang.nvmlDeviceGetPowerUsage": 1}))
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(1), "the other GPU")


def test_without_a_library_it_is_said_once_and_training_is_served(tmp_path: Path) -> None:
    rank = _rank(tmp_path, device="cpu", local_rank="0")
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    with sidecar(tmp_path, environment) as node:
        node.wait(lambda _: "NVML Shared Library Not Found" in node.log(), "the message")
        scrape = node.scrape()
        assert scrape.of_node("nvml_up") == 0
        assert _steps(scrape) == 10
        assert scrape.of_node("gpu_present", gpu_uuid=f"CPU-{NODE}-0", device="cpu") == 1
        assert not any("energy" in name or "field_errors" in name for name, _ in scrape.samples)
    assert node.log().count("No GPU data from NVML") == 1
    assert "Training metrics are served all the same" in node.log()
    rank.release()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"driver": 0}, "Driver Not Loaded"),
        ({"error.nvmlInitWithFlags": 18}, "restart the sidecar"),
    ],
    ids=["not loaded", "of another version than the library"],
)
def test_a_driver_that_comes_later_is_picked_up(
    tmp_path: Path, library: Path, control: Control, fault: dict[str, Value], message: str
) -> None:
    control.set(fault)
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(lambda _: message in node.log(), "the message")
        scrape = node.scrape()
        assert scrape.of_node("nvml_up") == 0
        assert scrape.of(0, "present") is None
        control.set({"driver": 1, "error.nvmlInitWithFlags": None})
        node.wait(lambda s: _up(s) and _present(0, 1)(s), "the driver")
        node.wait(lambda _: "NVML answers now. GPUs: 2." in node.log(), "the message")
        assert node.log().count("No GPU data from NVML") == 1


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ({"driver": 0}, {"driver": 1, "reload": 1}),
        ({"reload": 1}, {}),
        ({"error.nvmlDeviceGetCount_v2": 18}, {"error.nvmlDeviceGetCount_v2": None}),
    ],
    ids=["unloaded", "reloaded between two calls", "replaced by another version"],
)
def test_counters_outlive_the_driver(
    tmp_path: Path,
    library: Path,
    control: Control,
    away: dict[str, Value],
    back: dict[str, Value],
) -> None:
    def joules(expected: float) -> Callable[[Scrape], bool]:
        return lambda s: s.of(0, "energy_joules_total", method="hardware") == expected

    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(joules(0), "the first reading")
        control.set(gpu(0, energy=81_200_000, reasons=4, xids=""))
        scrape = node.wait(joules(200), "energy")
        node.wait(
            lambda s: (s.of(0, "throttle_seconds_total", reason="sw_power_cap") or 0) > 0,
            "throttling",
        )
        control.set(away)
        gone = node.wait(
            lambda s: not _up(s) and "No GPU data from NVML" in node.log(), "the loss of the driver"
        )
        assert gone.fields(0) == set(), "nothing is known of a GPU without a driver"
        assert node.log().count("No GPU data from NVML") == 1
        # The new driver counts energy from 0, and has counted 30 J when it is found.
        control.set(gpu(0, energy=30_000), back)
        scrape = node.wait(joules(230), "energy to go on")
        assert _up(scrape)
        assert (scrape.of(0, "throttle_seconds_total", reason="sw_power_cap") or 0) > 0


def test_a_session_in_which_every_call_fails_is_down_and_begun_again(
    tmp_path: Path, library: Path, control: Control
) -> None:
    broken: dict[str, Value] = {
        f"error.{name}": 999
        for name in (
            "nvmlDeviceGetHandleByIndex_v2",
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetTotalEnergyConsumption",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetTotalEccErrors",
            "nvmlDeviceGetRemappedRows",
            "nvmlDeviceGetMigMode",
        )
    }
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        control.set(broken)
        scrape = node.wait(
            lambda s: not _up(s) and "every call of every GPU fails" in node.log(), "the failure"
        )
        assert scrape.fields(0) == set()
        control.set(dict.fromkeys(broken))
        node.wait(lambda s: _up(s) and _present(0, 1)(s), "the recovery")


def test_a_call_that_hangs_while_the_driver_goes_holds_up_only_nvml(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        control.set(gpu(0, **{"hang.nvmlDeviceGetPowerUsage": 1}))
        control.set({"driver": 0})
        node.wait(lambda s: not _up(s) and "cannot be started again" in node.log(), "the message")
        control.set(gpu(0, **{"hang.nvmlDeviceGetPowerUsage": None}), {"driver": 1})
        node.wait(lambda s: _up(s) and _present(0, 1)(s), "the recovery")


def test_every_xid_is_counted_with_its_repeats_and_the_time_of_the_last(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        # The watch begins a moment after the sampling: an early XID may not be seen.
        seen = ["45"]

        def first(scrape: Scrape) -> bool:
            if scrape.of(0, "xid_total", xid="45") is None:
                seen.append("45")
                control.set(gpu(0, xids=",".join(seen)))
            return scrape.of(0, "xid_total", xid="45") is not None

        node.wait(first, "the first XID")
        unknown = ["0", "1000", str(2**40)]
        control.set(gpu(0, xids=",".join([*seen, "31", "31", *unknown, "31"])), gpu(1, xids="79"))
        scrape = node.wait(
            lambda s: s.of(0, "xid_total", xid="31") == 3 and s.of(1, "xid_total", xid="79") == 1,
            "all XIDs",
        )
        assert scrape.of(0, "field_errors_total", field="xid") == len(unknown)
        assert set(scrape.all_of(0, "xid_total", "xid")) == {"45", "31"}
        assert set(scrape.all_of(1, "xid_total", "xid")) == {"79"}
        before, after = (scrape.of(i, "xid_last_timestamp_seconds") for i in (0, 1))
        assert before is not None
        assert after is not None
        # An XID says why a GPU is lost, so it stays when the GPU or the driver is.
        control.set(gpu(1, lost=1))
        scrape = node.wait(_present(0, missing=(1,)), "the loss")
        assert scrape.of(1, "xid_total", xid="79") == 1
        assert scrape.of(1, "xid_last_timestamp_seconds") == after
        control.set({"driver": 0})
        scrape = node.wait(lambda s: not _up(s), "the loss of the driver")
        assert scrape.fields(1) == {"xid_total", "xid_last_timestamp_seconds"}


def test_many_codes_of_one_gpu_share_a_series(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        codes = [str(code) for code in range(100, 120)]
        rounds = []

        def all_seen(scrape: Scrape) -> bool:
            if not rounds or not scrape.all_of(0, "xid_total", "xid"):
                rounds.extend(codes)
                control.set(gpu(0, xids=",".join(rounds[:40])))
            return sum(scrape.all_of(0, "xid_total", "xid").values()) >= len(codes)

        scrape = node.wait(all_seen, "all XIDs")
        found = scrape.all_of(0, "xid_total", "xid")
        assert set(found) == {*codes[:7], "other"}
        assert found["other"] == sum(found.values()) - sum(found[code] for code in codes[:7])


def test_a_wait_for_xids_that_fails_is_counted_and_goes_on(
    tmp_path: Path, library: Path, control: Control
) -> None:
    control.set({"error.nvmlEventSetWait_v2": 15})
    with sidecar(tmp_path, control.environment(library)) as node:
        scrape = node.wait(lambda s: s.errors("") == {"xid"}, "the failure")
        assert _present(0, 1)(scrape)
        control.set({"error.nvmlEventSetWait_v2": None}, gpu(0, xids="13"))
        node.wait(lambda s: s.of(0, "xid_total", xid="13") == 1, "the XID")


def test_a_rank_on_a_mig_instance_runs_on_its_physical_gpu(
    tmp_path: Path, library: Path, control: Control
) -> None:
    control.set(gpu(1, mig=2))
    # CUDA may name an instance without its prefix, and the monitor then writes GPU-.
    bare = mig_uuid(1, 1).replace("MIG-", "GPU-")
    ranks = [
        _rank(tmp_path, rank="0", device="cuda", gpu_uuid=mig_uuid(1, 0)),
        _rank(tmp_path, rank="1", device="cuda", gpu_uuid=bare),
    ]
    with sidecar(tmp_path, control.environment(library)) as node:
        scrape = node.wait(
            lambda s: _present(0, 1)(s) and mig_uuid(1, 0) not in s.text, "the instances"
        )
    present = [labels for name, labels in scrape.samples if name == "actuary_gpu_present"]
    assert len(present) == 2
    infos = [dict(labels) for name, labels in scrape.samples if name == "actuary_rank_info"]
    assert [info["gpu_uuid"] for info in infos] == [uuid(1), uuid(1)]
    for rank in ranks:
        rank.release()


def test_nvml_decides_whether_the_gpu_of_a_live_rank_is_present(
    tmp_path: Path, library: Path, control: Control
) -> None:
    rank = _rank(tmp_path, device="cuda", gpu_uuid=uuid(0))
    with sidecar(tmp_path, control.environment(library)) as node:
        node.wait(_present(0, 1), "both GPUs")
        control.set(gpu(0, lost=1))
        node.wait(_present(1, missing=(0,)), "the loss")
        rank.publish()
        control.set({"driver": 0})
        node.wait(lambda s: not _up(s) and _present(0)(s), "the rank's word without NVML")
    rank.release()


def test_an_old_driver_lacks_fields_and_reports_no_errors(
    tmp_path: Path, old_library: Path, control: Control
) -> None:
    control.set(gpu(0, reasons=0x84))
    with sidecar(tmp_path, control.environment(old_library)) as node:
        scrape = node.wait(
            lambda s: (s.of(0, "throttle_seconds_total", reason="hw_power_brake") or 0) > 0,
            "throttling by its former name",
        )
        assert scrape.fields(0) == {
            "present",
            "energy_joules_total",
            "ecc_errors_total",
            "throttle_seconds_total",
        }
        assert scrape.of(0, "energy_joules_total", method="integrated") is not None
        assert scrape.errors(0) == scrape.errors("") == set()


def test_no_nvml_touches_no_driver(tmp_path: Path, library: Path, control: Control) -> None:
    with sidecar(tmp_path, control.environment(library), "--no-nvml") as node:
        scrape = node.scrape()
        assert not any(name.startswith(PREFIXES) for name, _ in scrape.samples)
        assert "NVML" not in node.log()
        maps = Path(f"/proc/{node.pid}/maps").read_text()
        assert "libnvidia-ml" not in maps
