from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_actuary.errors import UsageError
from gpu_actuary.generator import tools
from gpu_actuary.generator.check import check
from gpu_actuary.generator.output import write_files
from gpu_actuary.generator.render import render

from .folders import alert, builtin, recording, write

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_actuary.generator.tools import Outcome

TESTS = """\
tests:
  - name: fires and resolves
    input: [{series: 'up{node="n"}', values: "1x4 0x10"}]
    expect:
      - {at: 1m, alert: []}
      - {at: 5m, alert: {labels: {node: n}}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small built-in folder in the place of the product's own, to keep runs short."""
    return builtin(tmp_path, down=alert("down", "up == 0") + TESTS)


def outcomes(path: Path | None, folder: Path) -> dict[str, Outcome]:
    return {outcome.check: outcome for outcome in check(path, lambda _: None, builtin=folder)}


def test_good_specs_pass_every_check(small: Path) -> None:
    found = outcomes(None, small)
    assert {name: outcome.status for name, outcome in found.items()} == {
        "specs": "ok",
        "alert tests": "ok",
        "promtool check rules": "ok",
        "promtool test rules": "ok",
        "amtool check-config": "ok",
        "amlint check": "ok",
    }


def test_a_rendered_folder_is_checked_as_it_stands(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_files(out, render(builtin=small).files)
    assert {o.status for o in outcomes(out, small).values()} == {"ok"}
    rules = out / "rules/gpu-actuary-30s.yaml"
    rules.write_text(rules.read_text().replace("up == 0", "up == 1"))
    found = outcomes(out, small)
    assert found["promtool check rules"].status == "ok"
    assert found["promtool test rules"].status == "failed"
    assert "alert-down-30s.yaml" in found["promtool test rules"].detail


def test_wrong_specs_are_findings(small: Path, tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(user, "x.yaml", recording("x", "cluster:x:y", "sum("))
    [outcome] = outcomes(user, small).values()
    assert outcome.status == "failed"
    assert outcome.detail.startswith(f"{user}/x.yaml:8: rules[0].expr: PromQL: unclosed left paren")


@pytest.mark.parametrize(
    ("tests", "missing"),
    [
        ("", "x has no test in which it fires and none in which it does not fire"),
        (TESTS.replace("- {at: 1m, alert: []}", ""), "x has no test in which it does not fire"),
        (TESTS.replace("alert: {labels: {node: n}}", "alert: []"), "x has no test in which it fires"),
    ],
)  # fmt: skip
def test_every_alert_needs_a_test_that_fires_and_one_that_does_not(
    small: Path, tmp_path: Path, tests: str, missing: str
) -> None:
    write(tmp_path / "user", "x.yaml", alert("x", "up == 0") + tests)
    outcome = outcomes(tmp_path / "user", small)["alert tests"]
    assert outcome.status == "failed"
    assert missing in outcome.detail


def test_a_tool_that_is_missing_is_named_with_its_package(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "find", lambda _: None)
    found = outcomes(None, small)
    skipped = {name: o.detail for name, o in found.items() if o.status == "skipped"}
    assert skipped == {
        "promtool check rules": "promtool is missing; install the Debian package prometheus",
        "promtool test rules": "promtool is missing; install the Debian package prometheus",
        "amtool check-config": "amtool is missing; install the Debian package "
        "prometheus-alertmanager",
        "amlint check": "amlint is missing; install the Python package amlint",
    }


def test_a_path_that_is_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected one with specs or rendered files"):
        outcomes(tmp_path / "nowhere", tmp_path)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": ""}  # without tools: only the specs are judged
    return subprocess.run(
        [sys.executable, "-m", "gpu_actuary", *arguments],
        capture_output=True,
        text=True,
        env=environment,
    )


def test_the_command_ends_with_1_for_findings_and_2_for_wrong_use(tmp_path: Path) -> None:
    write(tmp_path / "user", "x.yaml", recording("x", "cluster:x:y", "sum("))
    findings = run("check", str(tmp_path / "user"), "--json")
    assert findings.returncode == 1
    document = json.loads(findings.stdout)
    assert document["ok"] is False
    assert document["checks"][0]["check"] == "specs"
    assert run("check", str(tmp_path / "nowhere")).returncode == 2
    refused = run("render", "-i", str(tmp_path / "user"), "-o", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert refused.stderr.startswith("actuary: 1 problem in the specs\n")
    assert not (tmp_path / "out").exists()
