"""The built-in rules on every shape of DCGM's text, scraped by a real Prometheus.

The small expositions of :mod:`tests.rules.expositions` are always served; the sample files, where
the folder is at hand, are served beside them, each under a cluster of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import servers
from tests.rules.expositions import LAST_STAGE
from tests.rules.stages import Fleet, Results, job, of, read, samples, settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OVERLAY = """
version: actuary/v1
kind: Ledger
name: default
evaluation_interval: 1s
scrape_interval: 1s
window: 10s
---
version: actuary/v1
kind: Inventory
name: default
silence_tolerance: 15s
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("rendered")
    (folder / "specs").mkdir()
    (folder / "specs" / "settings.yaml").write_text(OVERLAY)
    command = [sys.executable, "-m", "gpu_actuary", "render"]
    subprocess.run([*command, "-i", folder / "specs", "-o", folder / "out"], check=True)
    return sorted((folder / "out" / "rules").glob("*.yaml"))


@pytest.fixture(scope="module")
def history(rules: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Results]]:
    """What the rules record at the end of each stage, and, last, after a restart of Prometheus."""
    folder = tmp_path_factory.mktemp("shapes")
    fleet = Fleet()

    recorded: list[Results] = []
    with servers.exposition(fleet.text) as address:
        scrape = [job(path, address) for path in fleet.paths()]
        with servers.prometheus(folder, scrape=scrape, rule_files=rules) as client:
            for stage in range(LAST_STAGE + 1):
                fleet.stage = stage
                settle(client, fleet)
                recorded.append(read(client))
            servers.wait_for(
                lambda: read(client)["cluster:ledger_gpus:rate"]["dead", "unhealthy"] == 1,
                seconds=40,
                what="the silent node to count as gone",
            )
            recorded[-1] = read(client)
            failing = [
                (rule["name"], rule["lastError"])
                for group in client.rule_groups()
                for rule in group["rules"]
                if rule["health"] == "err"
            ]
            assert failing == []
        with servers.prometheus(folder, scrape=scrape, rule_files=rules) as client:
            settle(client, fleet)
            recorded.append(read(client))
        yield recorded


@pytest.fixture(scope="module")
def first(history: list[Results]) -> Results:
    return history[0]


@pytest.fixture(scope="module")
def last(history: list[Results]) -> Results:
    return history[LAST_STAGE]


def test_every_stage_balances_for_every_shape(history: list[Results]) -> None:
    for stage, results in enumerate(history):
        for (cluster,), residual in results["cluster:ledger_residual:ratio"].items():
            assert residual == pytest.approx(0, abs=1e-9), (stage, cluster)
        shares: dict[tuple[str, ...], float] = {}
        for key, share in results["gpu:ledger_share:rate"].items():
            shares[key[:-1]] = shares.get(key[:-1], 0) + share
        assert set(shares) == set(results["gpu:inventory:bool"]), stage
        assert list(shares.values()) == pytest.approx([1] * len(shares), rel=1e-9), stage
        for (cluster, *_), cost in results["cluster:inventory_cost:money_per_hour"].items():
            ledger = sum(of(results, "cluster:ledger_cost:money_per_hour", cluster).values())
            assert ledger == pytest.approx(cost, rel=1e-9), (stage, cluster)


def test_both_generations_say_the_same(first: Results) -> None:
    for cluster in ("old", "new"):
        assert of(first, "gpu:utilization:ratio", cluster) == {"GPU-0": 0.8, "GPU-1": 0}
        assert of(first, "gpu:power:watts", cluster) == {"GPU-0": 600.5, "GPU-1": 70}
        assert of(first, "gpu:allocated:bool", cluster) == {"GPU-0": 1}
        states = of(first, "cluster:ledger_gpus:rate", cluster)
        assert (states["uninstrumented"], states["idle_free"]) == (1, 1)


def test_two_exporters_of_one_gpu_count_once(first: Results) -> None:
    assert of(first, "cluster:inventory_gpus:count", "both") == {"both": 1}
    assert of(first, "cluster:power:watts", "both") == {"both": 301}
    assert of(first, "gpu:utilization:ratio", "both") == {"GPU-0": 0.5}
    assert of(first, "gpu:energy:joules", "both") == {"GPU-0": 5e6}
    assert of(first, "cluster:inventory_gpus:count", "two-nodes") == {"two-nodes": 1}
    assert of(first, "cluster:power:watts", "two-nodes") == {"two-nodes": 300}


def test_repetitions_of_a_gpu_count_once(first: Results) -> None:
    assert of(first, "gpu:power:watts", "mig") == {"GPU-0": 338.412, "GPU-1": 201.775}
    assert of(first, "gpu:utilization:ratio", "mig") == {"GPU-0": 0.7, "GPU-1": 0.3}
    assert of(first, "gpu:power:watts", "hpc") == {"GPU-0": 100, "GPU-1": 101, "GPU-2": 102}
    assert of(first, "gpu:power:watts", "time-slices") == {"GPU-0": 500}
    assert of(first, "cluster:inventory_gpus:count", "time-slices") == {"time-slices": 1}


def test_a_workload_allocates_and_the_exporter_s_own_pod_does_not(first: Results) -> None:
    for cluster in ("scraped", "pod-name"):
        assert of(first, "gpu:allocated:bool", cluster) == {"GPU-0": 1}
    assert set(of(first, "gpu:allocated:bool", "hpc")) == {"GPU-0", "GPU-1"}


def test_sentinels_and_broken_signals_fall_out_and_are_counted(first: Results) -> None:
    assert of(first, "gpu:power:watts", "sentinels") == {}
    assert of(first, "gpu:energy:joules", "sentinels") == {}
    assert of(first, "gpu:temperature:celsius", "sentinels") == {"GPU-0": 40}
    assert of(first, "gpu:xid:last", "sentinels") == {}
    states = of(first, "cluster:ledger_gpus:rate", "sentinels")
    assert (states["uninstrumented"], states["idle_free"]) == (2, 0)
    assert of(first, "gpu:utilization:ratio", "broken") == {
        "GPU-0": 0.9,
        "GPU-1": 0.98,
        "GPU-2": 0,
    }
    assert of(first, "gpu:sm_active:ratio", "broken") == {"GPU-0": 0.8, "GPU-2": 0}
    broken = {"utilization": 1, "sm_active": 1, "power": 1}
    assert of(first, "cluster:gpu_signal_broken:count", "broken") == broken
    assert of(first, "cluster:gpu_signal_broken:count", "old") == {}


def test_what_is_not_a_number_reaches_no_record(history: list[Results]) -> None:
    bad = [
        (stage, name, key, value)
        for stage, results in enumerate(history)
        for name, found in results.items()
        for key, value in found.items()
        if not -1e300 < value < 1e300
    ]
    assert bad == []
    assert of(history[0], "cluster:power:watts", "not-a-number") == {"not-a-number": 500}
    assert of(history[0], "cluster:inventory_gpus:count", "not-a-number") == {"not-a-number": 2}


def test_the_unit_of_the_utilisation_ratio_is_detected_and_said(first: Results) -> None:
    utilization = of(first, "gpu:utilization:ratio", "percent")
    assert utilization == {"GPU-0": 0.6, "GPU-1": 0.01, "GPU-3": 1}
    chosen = of(first, "cluster:gpu_util_ratio_series:count", "percent")
    assert chosen == {"percent": 2, "ratio": 2}
    assert of(first, "cluster:gpu_signal_broken:count", "percent") == {"utilization": 1}


def test_an_exposition_that_cannot_be_parsed_is_a_target_down_not_a_gpu(first: Results) -> None:
    assert of(first, "cluster:scrape_up:ratio", "unescaped") == {"unescaped": 0}
    assert of(first, "cluster:inventory_gpus:count", "unescaped") == {}


def test_a_fleet_without_a_cluster_label_is_a_cluster_too(first: Results) -> None:
    assert first["cluster:inventory_gpus:count"]["",] == 1
    assert first["cluster:power:watts"]["",] == 200


def test_a_gpu_that_vanishes_beside_others_is_unhealthy_at_once(history: list[Results]) -> None:
    for cluster in ("vanished", "no-slots"):
        assert of(history[2], "cluster:ledger_gpus:rate", cluster)["unhealthy"] == 0
        for results in history[3:]:
            assert of(results, "cluster:inventory_gpus:count", cluster) == {cluster: 2}
            assert of(results, "cluster:ledger_gpus:rate", cluster)["unhealthy"] == 1


def test_the_memory_of_a_vanished_gpu_survives_a_restart_of_prometheus(
    history: list[Results],
) -> None:
    assert of(history[-1], "gpu:inventory:bool", "vanished") == {"GPU-0": 1, "GPU-1": 1}
    assert of(history[-1], "gpu:present:bool", "vanished") == {"GPU-0": 1}


def test_a_renamed_node_takes_its_gpu_along(history: list[Results]) -> None:
    assert [*history[2]["gpu:inventory:bool"]].count(("renamed", "n", "GPU-0")) == 1
    for results in history[3:]:
        assert of(results, "cluster:inventory_gpus:count", "renamed") == {"renamed": 1}
        assert ("renamed", "n.example", "GPU-0") in results["gpu:inventory:bool"]


def test_a_swapped_gpu_never_comes_back(history: list[Results]) -> None:
    assert set(of(history[1], "gpu:inventory:bool", "swapped")) == {"GPU-old", "GPU-1"}
    for results in history[2:]:
        assert set(of(results, "gpu:inventory:bool", "swapped")) == {"GPU-new", "GPU-1"}


def test_a_short_silence_of_a_node_changes_nothing(history: list[Results]) -> None:
    """An exporter restarts: no GPU is claimed dead, free or sound that was not before."""
    for results in history[2:6]:
        states = of(results, "cluster:ledger_gpus:rate", "restarted")
        assert (states["unhealthy"], states["idle_allocated"]) == (1, 1)
        assert of(results, "gpu:condemned:bool", "restarted") == {"row_remap_failure": 1}


def test_a_node_that_stays_silent_is_lost(history: list[Results], last: Results) -> None:
    assert of(history[2], "cluster:ledger_gpus:rate", "dead")["unhealthy"] == 0
    assert of(last, "cluster:ledger_gpus:rate", "dead")["unhealthy"] == 1
    assert of(last, "cluster:inventory_gpus:count", "dead") == {"dead": 1}


def test_xid_64_condemns_until_the_driver_is_reloaded(history: list[Results]) -> None:
    """Neither the next XID nor a restart of the exporter lifts it; without energy nothing does."""
    condemned = [
        {key[2] for key in results.get("gpu:condemned:bool", {}) if key[0] == "xid-64"}
        for results in history
    ]
    both = {"GPU-0", "GPU-blind"}
    assert condemned == [
        set(),
        both,
        both,
        both,
        both,
        both,
        {"GPU-blind"},
        {"GPU-blind"},
        {"GPU-blind"},
    ]


def test_odd_ranks_keep_the_ledger_whole(last: Results) -> None:
    assert of(last, "cluster:inventory_gpus:count", "ranks") == {"ranks": 3}
    assert {key[1] for key in last["gpu:inventory:bool"] if key[0] == "ranks"} == {"n"}
    assert of(last, "gpu:allocated:bool", "ranks") == {"GPU-0": 1, "GPU-1": 1, "GPU-2": 1}
    assert last["job:cost:money_per_hour"]["ranks", "j"] == 5
    shares = {
        key[2:]: value for key, value in last["gpu:ledger_share:rate"].items() if key[0] == "ranks"
    }
    assert shares["GPU-0", "compute"] == pytest.approx(0.5, rel=0.1)
    assert shares["GPU-0", "other"] == pytest.approx(0.5, rel=0.1)
    assert shares["GPU-1", "compute"] > 0.6
    assert shares["GPU-2", "compute"] == pytest.approx(0.5, rel=0.1)


def test_samples_count_each_gpu_and_its_power_once(first: Results) -> None:
    """Every file, whatever its generation, repetitions and labels; read here with a plain regex."""
    files = samples()
    for name, text in files.items():
        power = {
            uuid: float(value)
            for uuid, value in re.findall(
                r'_(?:POWER_USAGE|BOARD_POWER_WATTS)\{.*?(?:UUID|uuid)="([^"]+)".*\} (\S+)', text
            )
        }
        cluster = f"sample-{name}"
        possible = {uuid: watts for uuid, watts in power.items() if 0 < watts < 5000}
        assert of(first, "cluster:inventory_gpus:count", cluster) == {cluster: len(power)}
        assert of(first, "gpu:power:watts", cluster) == possible
    if files:
        assert len(of(first, "gpu:power:watts", "sample-gen48_h100x8_hpc")) == 8
        mig = of(first, "gpu:power:watts", "sample-gen48_h100_mig").values()
        assert {338.412, 201.775} <= set(mig)
        condemned = of(first, "gpu:condemned:bool", "sample-broken_signals")
        assert condemned == {"row_remap_failure": 1, "xid_64": 1}


def test_samples_of_one_node_over_time_tell_their_story(history: list[Results]) -> None:
    cluster = "sample-sequence"
    if not samples():
        assert cluster not in {key[0] for key in history[0]["gpu:inventory:bool"]}
        return
    xids = [sorted(of(results, "gpu:xid:last", cluster).values()) for results in history[:6]]
    assert xids == [[0, 0], [0, 31], [0, 31], [0, 31], [0, 94], [0, 94]]
    unhealthy = [of(r, "cluster:ledger_gpus:rate", cluster)["unhealthy"] for r in history]
    assert unhealthy == [0, 0, 0, 0, 0, 0, 1, 0, 0]
    for results in history:
        assert of(results, "cluster:inventory_gpus:count", cluster) == {cluster: 2}
        assert of(results, "gpu:condemned:bool", cluster) == {}
    before, after = (set(of(history[s], "gpu:inventory:bool", cluster)) for s in (6, 7))
    assert len(before & after) == 1
