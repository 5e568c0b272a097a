"""The command: pages, targets, node death, signals, wrong use; and a real Prometheus beside it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from gpu_actuary.serving import serving
from gpu_actuary.simulator.server import pages_of
from tests.servers import prometheus, wait_for

from .reading import NODES, simulation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from gpu_actuary.cli import main; main()", "simulate"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@contextlib.contextmanager
def _simulator(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        [*COMMAND, "--listen", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        announced = process.stdout.readline()
        found = re.search(r"SIMULATED fleet at (http://\S+)/", announced)
        assert found, announced
        yield found[1], process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_silently(number: signal.Signals) -> None:
    with _simulator() as (address, process):
        assert httpx.get(f"{address}/-/healthy").status_code == 200
        assert httpx.get(f"{address}/-/ready").status_code == 200
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")


def test_a_taken_port_is_a_clear_message_and_exit_2() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = _run("--listen", f"127.0.0.1:{port}")
    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--listen", "9430"), "--listen '9430': expected HOST:PORT"),
        (("--listen", "127.0.0.1:70000"), "expected HOST:PORT"),
        (("--listen", "::1:9430"), "in brackets: [::1]:9430"),
        (("--die-after", "60"), "--die-after '60': expected a duration"),
        (("--restart-every", "5s"), "--restart-every 5s: expected at least 75s"),
    ],
)
def test_wrong_options_are_named_with_what_was_expected(
    arguments: tuple[str, ...], message: str
) -> None:
    ended = _run(*arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_folder_that_cannot_be_written_is_a_clear_message(tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    ended = _run("--listen", "127.0.0.1:0", "--targets", str(obstacle / "folder"))
    assert ended.returncode == 2
    assert "--targets" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_first_page_lists_every_path_and_says_simulated() -> None:
    with serving(pages_of(simulation(), lambda: 1.0), "127.0.0.1", 0) as port:
        page = httpx.get(f"http://127.0.0.1:{port}/")
        paths = re.findall(r'href="([^"]+)"', page.text)
        assert "SIMULATED" in page.text
        assert len(paths) == 2 * len(NODES)
        for path in paths:
            answer = httpx.get(f"http://127.0.0.1:{port}{path}?x=1")
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/plain; version=")
        assert httpx.get(f"http://127.0.0.1:{port}/nodes/none/dcgm").status_code == 404


def test_a_mortal_node_dies_and_the_others_live() -> None:
    moment = 4.9
    fleet = simulation(die_after=5.0)
    with serving(pages_of(fleet, lambda: moment), "127.0.0.1", 0) as port:
        paths = [f"/nodes/{node}/{kind}" for node in NODES for kind in ("dcgm", "sidecar")]

        def down() -> set[str]:
            answers = {path: httpx.get(f"http://127.0.0.1:{port}{path}") for path in paths}
            return {path for path, answer in answers.items() if answer.status_code == 503}

        assert down() == set()
        moment = 5.0
        assert down() == {"/nodes/sim-e/dcgm", "/nodes/sim-e/sidecar"}


def test_prometheus_scrapes_every_path_through_the_targets_files(tmp_path: Path) -> None:
    folder = tmp_path / "targets"
    jobs = ("dcgm", "actuary-sidecar")
    scrape = [
        {
            "job_name": job,
            "honor_labels": True,
            "file_sd_configs": [{"files": [str(folder / f"{job}.json")]}],
        }
        for job in jobs
    ]
    with (
        _simulator("--targets", str(folder)),
        prometheus(tmp_path / "prometheus", scrape=scrape) as client,
    ):
        wait_for(
            lambda: len(client.query('up{source="simulated"} == 1')) == 2 * len(NODES),
            seconds=30,
            what="all targets up",
        )
        time.sleep(2)  # two more scrapes, so that series that come back are looked at as well
        assert client.query("up == 0") == []
        assert client.query("scrape_samples_scraped == 0") == []
        gpus = client.query('count(count by (UUID, uuid) ({__name__=~"DCGM_FI_DEV_GPU_TEMP.*"}))')
        assert gpus[0].value == 8 * len(NODES)
        assert client.query('{exported_node!=""}') == []
        unmarked = client.query('{__name__=~"actuary_.*|DCGM_.*",source!="simulated"}')
        assert unmarked == []
        log = (tmp_path / "prometheus" / "prometheus.log").read_text()
        assert not re.findall(r"level=(?:warn|error).*", log)
    described = json.loads((folder / "dcgm.json").read_text())
    assert {group["labels"]["cluster"] for group in described} == {"simulated"}
