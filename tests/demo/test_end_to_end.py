"""The whole stack through ``python -m demo``, as ``make demo`` runs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from pathlib import Path

import pytest

from tests.demo.running import ROOT, free_base, processes_of, run, start
from tests.servers import wait_for

pytestmark = pytest.mark.end_to_end


def ranks_and_servers(folder: Path) -> bool:
    """Whether the training's ranks and Prometheus run."""
    lines = processes_of(folder)
    return any("--storage.tsdb.path" in line for line in lines) and (
        (folder / "training" / "rank-1.pid").exists()
    )


def visible(folder: Path) -> set[str]:
    """Names in a folder, without caches and the like."""
    return {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")}


def test_everything_runs_reports_balances_and_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    base = free_base()
    before = visible(ROOT)
    code, output = run(folder, "--once", DEMO_PORT_BASE=str(base), DEMO_SECONDS="220")
    assert code == 0, output

    summary = json.loads((folder / "summary.json").read_text())
    assert summary["passed"]
    assert len(summary["checks"]) == 8
    assert all(check["passed"] for check in summary["checks"])

    figures = summary["figures"]
    assert 0 < figures["η"] < 1
    assert 0 < figures["data-wait share"] < 1
    assert 0 < figures["loss"] < 2.4
    assert 0 < figures["accuracy"] <= 1
    assert 0 < figures["quality"] <= 1
    assert 0 < figures["MFU"] < 1
    assert figures["ROI"] >= 0

    sheets = {sheet["cluster"]: sheet for sheet in summary["statement"]["sheets"]}
    assert set(sheets) == {"demo", "simulated"}
    assert [sheets["demo"]["simulated"], sheets["simulated"]["simulated"]] == [False, True]
    for sheet in sheets.values():
        total = sheet["liabilities_gpu_hours"] + sheet["equity_gpu_hours"]
        assert total == pytest.approx(sheet["assets_gpu_hours"], rel=0.001)
        assert sum(row["gpu_hours"] for row in sheet["states"]) == pytest.approx(total)
        assert sheet["assets_money_by_currency"]["USD"] > 0
    (job,) = sheets["demo"]["jobs"]
    assert job["gpu_hours_by_state"]["recompute"] > 0
    states = {row["state"]: row["gpu_hours"] for row in sheets["simulated"]["states"]}
    assert states["unhealthy"] > 0, "the dead node"

    assert "killed rank 1" in output
    assert f"http://127.0.0.1:{base}" in output
    assert "SIMULATED, no real hardware" in output
    assert processes_of(folder) == []
    assert visible(ROOT) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_demonstration(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "demo"
    process = start(folder, DEMO_PORT_BASE=str(free_base()))
    try:
        wait_for(lambda: ranks_and_servers(folder), seconds=90, what="ranks and servers")
    finally:
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 1), output
    wait_for(lambda: not processes_of(folder), seconds=30, what="the processes' end")


def test_a_taken_port_is_named_with_the_variable_that_moves_it(tmp_path: Path) -> None:
    base = free_base()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 1))
        taken.listen()
        code, output = run(tmp_path / "demo", DEMO_PORT_BASE=str(base))
    assert code == 1
    assert output.count("\n") == 1
    assert f"port {base + 1}, meant for alertmanager, is taken" in output
    assert "DEMO_PORT_BASE" in output
    assert not (tmp_path / "demo").exists()


def test_a_missing_server_is_named_with_what_installs_it(tmp_path: Path) -> None:
    code, output = run(tmp_path / "demo", DEMO_PORT_BASE=str(free_base()), PATH=str(tmp_path))
    assert code == 1
    assert output.count("\n") == 1
    assert "the program prometheus is not installed" in output
    assert "make tools" in output
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DEMO_PORT_BASE", "many"), ("DEMO_PORT_BASE", "99999"), ("DEMO_SECONDS", "-3")],
)
def test_a_bad_setting_is_named(tmp_path: Path, variable: str, value: str) -> None:
    code, output = run(tmp_path / "demo", **{variable: value})
    assert code == 1
    assert output.startswith(f"demo: {variable}=")
    assert output.count("\n") == 1


def test_a_folder_with_anything_else_in_it_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "thesis.tex"
    precious.write_text("chapter 1")
    code, output = run(tmp_path, DEMO_PORT_BASE=str(free_base()))
    assert code == 1
    assert "is not a folder of the demonstration" in output
    assert precious.read_text() == "chapter 1"


def test_a_server_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    broken = programs / "prometheus-alertmanager"
    broken.write_text("#!/bin/sh\necho out of order\nexit 3\n")
    broken.chmod(0o755)
    path = f"{programs}{os.pathsep}{Path(shutil.which('prometheus') or '').parent}:/usr/bin:/bin"
    folder = tmp_path / "demo"
    code, output = run(folder, DEMO_PORT_BASE=str(free_base()), PATH=path)
    assert code == 1
    assert "alertmanager ended at its start:\nout of order" in output
    assert processes_of(folder) == []
