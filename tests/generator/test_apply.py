from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_actuary.errors import PrometheusError, UsageError
from gpu_actuary.generator.apply import LOCK, PREVIOUS, ApplyError, apply
from gpu_actuary.generator.render import render
from gpu_actuary.prometheus import PrometheusClient
from tests.servers import free_port, prometheus, wait_for

from .folders import SETTINGS, alert, builtin, recording, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_actuary.generator.render import Rendered

TWO = 'label_replace(vector(1), "a", "1", "", "") or label_replace(vector(1), "a", "2", "", "")'
ODD_LABELS = f"'vector(1) * on () group_left () ({TWO})'"
"""Parses, but fails whenever it is evaluated: its one-side has two series."""


@pytest.fixture
def rules_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    write(
        folder, "theirs.yaml", "groups: [{name: theirs, rules: [{record: x, expr: vector(1)}]}]\n"
    )
    return folder


@pytest.fixture
def server(tmp_path: Path, rules_dir: Path) -> Iterator[PrometheusClient]:
    with prometheus(tmp_path / "prometheus", rule_files=[rules_dir / "*.yaml"]) as client:
        yield client


def rendered(tmp_path: Path, expr: str = "sum(up)") -> Rendered:
    folder = builtin(
        tmp_path, a=recording("a", "cluster:a:sum", expr), b=alert("down", "cluster:a:sum < 1")
    )
    write(folder, "settings.yaml", SETTINGS.replace("interval: 30s", "interval: 1s"))
    return render(builtin=folder)


def loaded(client: PrometheusClient) -> dict[str, str]:
    return {r["name"]: r["query"] for g in client.rule_groups() for r in g["rules"]}


def contents(folder: Path) -> dict[str, str]:
    return {f.name: f.read_text() for f in folder.glob("*.yaml")}


def test_rules_are_installed_evaluated_and_beside_those_of_others(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    applied = apply(rendered(tmp_path), rules_dir, server, wait_seconds=30)
    assert (applied.rules, applied.groups, applied.pending, applied.unhealthy) == (2, 1, (), ())
    assert loaded(server) == {
        "x": "vector(1)",
        "cluster:a:sum": "sum(up)",
        "Down": "cluster:a:sum < 1",
    }


def test_the_version_before_is_kept(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    apply(rendered(tmp_path), rules_dir, server, wait_seconds=30)
    first = (rules_dir / "gpu-actuary-1s.yaml").read_text()
    apply(rendered(tmp_path, "count(up)"), rules_dir, server, wait_seconds=30)
    assert loaded(server)["cluster:a:sum"] == "count(up)"
    apply(rendered(tmp_path, "count(up)"), rules_dir, server, wait_seconds=30)
    assert (rules_dir / PREVIOUS / "gpu-actuary-1s.yaml").read_text() == first


def test_a_rule_that_cannot_be_evaluated_undoes_everything(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    apply(rendered(tmp_path), rules_dir, server, wait_seconds=30)
    before = contents(rules_dir), loaded(server)
    with pytest.raises(ApplyError) as caught:
        apply(rendered(tmp_path, ODD_LABELS), rules_dir, server, wait_seconds=30)
    message = str(caught.value)
    assert message.startswith("1 rule cannot be evaluated:\ncluster:a:sum: found duplicate series")
    assert message.endswith("The files of before are back and loaded.")
    assert (contents(rules_dir), loaded(server)) == before


def test_a_rule_that_cannot_be_evaluated_can_be_kept(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    applied = apply(
        rendered(tmp_path, ODD_LABELS), rules_dir, server, wait_seconds=30, keep_unhealthy=True
    )
    assert [rule.partition(":")[0] for rule in applied.unhealthy] == ["cluster"]
    assert "cluster:a:sum" in loaded(server)


@pytest.mark.parametrize("loaded_from_the_right_folder", [False, True])
def test_a_folder_that_the_configuration_does_not_match_is_noticed_and_left_as_it_was(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient, loaded_from_the_right_folder: bool
) -> None:
    if loaded_from_the_right_folder:
        apply(rendered(tmp_path), rules_dir, server, wait_seconds=30)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = loaded(server)
    with pytest.raises(ApplyError, match="rule_files in its configuration matches nothing in"):
        apply(rendered(tmp_path), elsewhere, server, wait_seconds=30)
    assert contents(elsewhere) == {}
    assert loaded(server) == before


def test_a_reload_that_another_file_spoils_undoes_everything(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    apply(rendered(tmp_path), rules_dir, server, wait_seconds=30)
    before = contents(rules_dir)
    write(rules_dir, "broken.yaml", "groups: [{name: broken, rules: [{record: 1 x, expr: up(}]}]")
    with pytest.raises(ApplyError) as caught:
        apply(rendered(tmp_path, "count(up)"), rules_dir, server, wait_seconds=30)
    assert "could not reload (HTTP 500)" in str(caught.value)
    assert (
        "The files of before are back. Prometheus goes on with the rules that it has loaded"
        in str(caught.value)
    )
    (rules_dir / "broken.yaml").unlink()
    assert contents(rules_dir) == before
    assert loaded(server)["cluster:a:sum"] == "sum(up)"


def test_rules_that_promtool_refuses_change_nothing(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    before = contents(rules_dir)
    newer = rendered(tmp_path, '\'up{"quoted.name"="x"}\'')  # of Prometheus 3, unknown to 2.42
    with pytest.raises(ApplyError, match="promtool refuses the rules; nothing was changed"):
        apply(newer, rules_dir, server, wait_seconds=30)
    assert contents(rules_dir) == before


def test_a_terminated_apply_puts_everything_back(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    """A cancelled CI job sends SIGTERM while the slow groups have not been evaluated yet."""
    before = contents(rules_dir)
    command = [sys.executable, "-m", "gpu_actuary", "apply", "--rules-dir", rules_dir]
    process = subprocess.Popen([*command, "--prometheus", server.url, "--wait", "200"])
    try:
        wait_for(lambda: "gpu:present:bool" in loaded(server), seconds=30, what="the new rules")
        process.terminate()
        assert process.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert contents(rules_dir) == before
    assert set(loaded(server)) == {"x"}


def test_two_applies_at_once_are_refused(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    with (rules_dir / LOCK).open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(ApplyError, match="another apply is at work"):
            apply(rendered(tmp_path), rules_dir, server, wait_seconds=30)
    assert "gpu-actuary-1s.yaml" not in contents(rules_dir)


def test_a_server_that_cannot_be_reached_changes_nothing(tmp_path: Path, rules_dir: Path) -> None:
    before = contents(rules_dir)
    with (
        PrometheusClient(f"http://127.0.0.1:{free_port()}") as client,
        pytest.raises(PrometheusError, match="cannot be reached"),
    ):
        apply(rendered(tmp_path), rules_dir, client, wait_seconds=30)
    assert contents(rules_dir) == before


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with (
        PrometheusClient("http://127.0.0.1:1") as client,
        pytest.raises(UsageError, match="rule_files of Prometheus matches"),
    ):
        apply(rendered(tmp_path), tmp_path / "nowhere", client, wait_seconds=1)


def test_a_disk_that_takes_no_more_is_one_message_and_changes_nothing(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    before = contents(rules_dir)
    program = f"""
import resource, sys
sys.argv = ["actuary", "apply", "--rules-dir", {str(rules_dir)!r}, "--prometheus", {server.url!r}]
from gpu_actuary.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
main()
"""
    environment = {**os.environ, "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1
    assert done.stderr.startswith("actuary: cannot write ")
    assert len(done.stderr.splitlines()) == 1
    assert contents(rules_dir) == before


def test_every_built_in_rule_is_read_back_as_it_was_written(
    tmp_path: Path, rules_dir: Path, server: PrometheusClient
) -> None:
    applied = apply(render(), rules_dir, server, wait_seconds=0)
    assert applied.rules > 50
    assert applied.unhealthy == ()
    files = [yaml.safe_load(text) for name, text in contents(rules_dir).items() if "gpu-" in name]
    written = [r for f in files for g in f["groups"] for r in g["rules"]]
    assert len(written) == applied.rules
