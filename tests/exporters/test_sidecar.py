"""The sidecar: what it exposes of a folder of rank files."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gpu_actuary.errors import UsageError
from gpu_actuary.exporters.layout import BUCKET_BOUNDS, SLOT, STEP_DURATION
from gpu_actuary.exporters.sidecar import Sidecar

from ..servers import prometheus, wait_for
from .reading import exposed, scrape, sidecar
from .writing import rank_file

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_actuary.exporters.rankfile import RankFile

HOSTILE = 'a "quoted" \\ back\\slash\nnew line {x="1"} ünïcode 🚂 \x01'


def _age(file: RankFile, seconds: float) -> None:
    """Let the last heartbeat of a file lie in the past, as if its writer had died then."""
    real_clock, real_time = time.clock_gettime, time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "clock_gettime", lambda clock: real_clock(clock) - seconds)
        patch.setattr(time, "time", lambda: real_time() - seconds)
        file.publish()


def test_a_node_without_training_is_healthy_and_says_so(tmp_path: Path) -> None:
    with sidecar(tmp_path / "missing") as url:
        names = {name for name, _ in scrape(url)}
        assert names == {
            "actuary_exporter_build_info",
            "actuary_exporter_scrape_seconds",
            "actuary_rank_files_rejected_total",
        }
        for path, status in (("/", 200), ("/-/healthy", 200), ("/-/ready", 200), ("/x", 404)):
            assert httpx.get(url + path, trust_env=False).status_code == status
        assert httpx.post(f"{url}/metrics", trust_env=False).status_code == 405


def test_a_folder_that_cannot_be_read_makes_the_sidecar_not_ready(tmp_path: Path) -> None:
    (tmp_path / "ranks").write_text("no folder")
    with sidecar(tmp_path / "ranks") as url:
        answer = httpx.get(f"{url}/-/ready", trust_env=False)
        assert answer.status_code == 503
        assert "Not a directory" in answer.text
        rejected = {
            dict(labels)["reason"]: value
            for (name, labels), value in scrape(url).items()
            if name == "actuary_rank_files_rejected_total"
        }
        assert rejected["unreadable"] == 1


def test_a_live_rank_is_up_with_gauges_and_counters(tmp_path: Path) -> None:
    file = rank_file(tmp_path, team="vision", rank="3", local_rank="1")
    shown = exposed(tmp_path)
    key = (("job_id", "job"), ("node", "n1"), ("rank", "3"))
    assert shown["actuary_rank_up"] == {key: 1}
    assert shown["actuary_loss"] == {key: 2.5}
    assert shown["actuary_steps_total"] == {key: 10}
    assert "actuary_learning_rate" not in shown
    (info,) = shown["actuary_rank_info"]
    assert dict(info)["gpu_uuid"] == "CPU-n1-1"
    (job,) = shown["actuary_job_info"]
    assert dict(job)["team"] == "vision"
    assert shown["actuary_gpu_present"] == {
        (("device", "cpu"), ("gpu_uuid", "CPU-n1-1"), ("node", "n1")): 1
    }
    file.release()


def test_a_silent_rank_is_down_without_gauges_but_with_its_counters(tmp_path: Path) -> None:
    file = rank_file(tmp_path)
    _age(file, 16.0)
    shown = exposed(tmp_path)
    assert list(shown["actuary_rank_up"].values()) == [0]
    assert "actuary_loss" not in shown
    assert list(shown["actuary_steps_total"].values()) == [10]
    assert "actuary_gpu_present" in shown
    assert list(exposed(tmp_path, stale_after=60.0)["actuary_rank_up"].values()) == [1]
    file.release()


def test_a_rank_that_ended_well_is_neither_up_nor_down(tmp_path: Path) -> None:
    rank_file(tmp_path, closed=True)
    shown = exposed(tmp_path)
    assert "actuary_rank_up" not in shown
    assert "actuary_rank_heartbeat_timestamp_seconds" not in shown
    assert "actuary_loss" not in shown
    assert list(shown["actuary_steps_total"].values()) == [10]


def test_a_gpu_is_present_while_its_rank_is_alive(tmp_path: Path) -> None:
    file = rank_file(tmp_path, device="cuda", gpu_uuid="GPU-1234")
    other = rank_file(tmp_path, device="cuda", gpu_uuid="GPU-1234", rank="1")  # shares the GPU
    assert list(exposed(tmp_path)["actuary_gpu_present"]) == [
        (("device", "cuda"), ("gpu_uuid", "GPU-1234"), ("node", "n1"))
    ]
    _age(file, 60)
    _age(other, 60)
    assert "actuary_gpu_present" not in exposed(tmp_path)
    file.release()
    other.release()


@pytest.mark.parametrize(
    ("closed", "age", "kept"),
    [
        (True, 14 * 60, True),
        (True, 16 * 60, False),
        (False, 23 * 3600, True),
        (False, 25 * 3600, False),
    ],
)
def test_files_expire_and_are_deleted(tmp_path: Path, closed: bool, age: float, kept: bool) -> None:
    file = rank_file(tmp_path)
    file.values[SLOT[".closed"]] = float(closed)
    _age(file, age)
    file.release()
    assert ("actuary_steps_total" in exposed(tmp_path)) == kept
    assert file.path.exists() == kept


def test_bad_files_are_counted_and_do_not_hide_the_good_ones(tmp_path: Path) -> None:
    file = rank_file(tmp_path)
    (tmp_path / "foreign.rank").write_bytes(b"no rank file at all" * 2000)
    (tmp_path / "empty.rank").write_bytes(b"")
    (tmp_path / "short.rank").write_bytes(file.path.read_bytes()[:9000])
    (tmp_path / "link.rank").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "fifo.rank")
    (tmp_path / "notes.txt").write_text("not looked at")
    shutil.copy(file.path, tmp_path / "copy.rank")
    with sidecar(tmp_path) as url:
        for scrapes in (1, 2):
            samples = scrape(url)
            rejected = {
                dict(labels)["reason"]: value / scrapes
                for (name, labels), value in samples.items()
                if name == "actuary_rank_files_rejected_total"
            }
            assert rejected == {
                "foreign": 2,
                "truncated": 2,
                "unreadable": 1,
                "duplicate": 1,
                "layout": 0,
                "torn": 0,
            }
            assert [v for (name, _), v in samples.items() if name == "actuary_steps_total"] == [10]
    file.release()


def test_ranks_of_different_attempts_give_the_job_one_description(tmp_path: Path) -> None:
    old = rank_file(tmp_path)
    _age(old, 5)
    old.release()
    rank_file(tmp_path, rank="1", closed=False)
    new = rank_file(tmp_path, rank="1")
    (job,) = exposed(tmp_path)["actuary_job_info"]
    assert dict(job)["attempt"] == "2"
    new.release()


def _with_durations(folder: Path, rank: str, counts: int) -> RankFile:
    file = rank_file(folder, rank=rank)
    for bound in BUCKET_BOUNDS:
        file.values[SLOT[f"{STEP_DURATION}/{bound}"]] = 0.0
    file.values[SLOT[f"{STEP_DURATION}/0.1"]] = counts
    file.values[SLOT[f"{STEP_DURATION}/sum"]] = counts * 0.08
    file.publish()
    return file


def test_step_durations_are_summed_over_ranks_and_never_fall(tmp_path: Path) -> None:
    files = [_with_durations(tmp_path, "0", 100), _with_durations(tmp_path, "1", 40)]

    def count(url: str) -> float:
        samples = scrape(url)
        (total,) = (v for (name, _), v in samples.items() if name == f"{STEP_DURATION}_count")
        (at_bound,) = (
            value
            for (name, labels), value in samples.items()
            if name == f"{STEP_DURATION}_bucket" and dict(labels)["le"] == "0.1"
        )
        assert total == at_bound
        return total

    with sidecar(tmp_path) as url:
        assert count(url) == 140
        files[1].path.unlink()
        files[1].release()
        assert count(url) == 140
        anew = _with_durations(tmp_path, "1", 5)
        assert count(url) == 145
    files[0].release()
    anew.release()


@given(label=st.text(st.characters(codec="utf-8"), max_size=30))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_survives_as_a_label(tmp_path: Path, label: str) -> None:
    file = rank_file(tmp_path, team=label, job_id=f"j{label}")
    try:
        (labels,) = exposed(tmp_path)["actuary_job_info"]
        assert dict(labels)["team"] == label.partition("\0")[0]
        assert dict(labels)["job_id"] == f"j{label}".partition("\0")[0]
    finally:
        file.path.unlink()
        file.release()


def test_openmetrics_is_served_to_who_asks_for_it(tmp_path: Path) -> None:
    file = rank_file(tmp_path, team=HOSTILE)
    file.name_score(0, "accuracy")
    file.values[SLOT["actuary_evaluation_score/0"]] = 0.5
    file.publish()
    with sidecar(tmp_path) as url:
        accept = "application/openmetrics-text; version=1.0.0"
        answer = httpx.get(f"{url}/metrics", headers={"Accept": accept}, trust_env=False)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    parse: Any = text_string_to_metric_families  # the package leaves it untyped
    families = {family.name: family for family in parse(answer.text)}
    assert families["actuary_steps"].type == "counter"
    assert families["actuary_job"].samples[0].labels["team"] == HOSTILE
    assert families["actuary_evaluation_score"].samples[0].labels["metric"] == "accuracy"
    file.release()


def test_promtool_has_nothing_to_say_about_the_exposition(tmp_path: Path) -> None:
    file = _with_durations(tmp_path, "0", 3)
    with sidecar(tmp_path) as url:
        text = httpx.get(f"{url}/metrics", trust_env=False).text
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    file.release()


def test_a_real_prometheus_stores_hostile_labels_as_they_are(tmp_path: Path) -> None:
    file = rank_file(tmp_path / "ranks", team=HOSTILE, job_id=f"job/{HOSTILE}")
    with sidecar(tmp_path / "ranks") as url:
        target: dict[str, object] = {
            "job_name": "actuary-sidecar",
            "static_configs": [{"targets": [url.removeprefix("http://")]}],
        }
        with prometheus(tmp_path / "prometheus", scrape=[target]) as client:
            wait_for(lambda: bool(client.query("actuary_job_info")), seconds=30, what="a scrape")
            (sample,) = client.query("actuary_job_info")
            assert client.query("up")[0].value == 1
            (steps,) = client.query("actuary_steps_total")
    assert sample.labels["team"] == HOSTILE
    assert steps.labels["job_id"] == f"job/{HOSTILE}"
    file.release()


def test_ipv6_is_served(tmp_path: Path) -> None:
    try:
        server = Sidecar("::1", 0, directory=tmp_path, node="n", stale_after=15.0)
    except UsageError as error:  # a machine without IPv6 at least gets a clear message
        assert "cannot listen on [::1]" in str(error)
        return
    assert server.url.startswith("http://[::1]:")
    server._server.server_close()


def _command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gpu_actuary", "exporter", *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_told_to_stop(
    tmp_path: Path, ending: signal.Signals
) -> None:
    file = rank_file(tmp_path)
    process = _command("--listen", "127.0.0.1:0", "--directory", str(tmp_path), "--node", "gpu7")
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        url = line.split()[1].removesuffix("/metrics")
        labels = dict(
            next(labels for (name, labels) in scrape(url) if name == "actuary_steps_total")
        )
        assert labels["node"] == "gpu7"
        process.send_signal(ending)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate()
        file.release()


def test_a_taken_port_is_one_clear_message_and_exit_code_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = _command("--listen", address, "--directory", str(tmp_path))
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == (
        f"actuary: cannot listen on {address}: Address already in use; "
        "choose another address with --listen\n"
    )


def test_a_file_as_directory_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = _command("--directory", str(tmp_path / "file"))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "expected a folder" in errors
