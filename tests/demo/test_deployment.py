"""Files under deploy/ that nothing here can run: their contents are held to what they rest on."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
GENERATIONS = ("counters.csv", "counters-4.9.csv")


def counters(name: str) -> list[tuple[str, str]]:
    """(field, type) of each counter of a file."""
    lines = (ROOT / "deploy" / "dcgm" / name).read_text().splitlines()
    rows = list(csv.reader([line for line in lines if not line.startswith("#")]))
    assert all(len(row) == 3 for row in rows), "a comma in a help text breaks dcgm-exporter"
    return [(field.strip(), kind.strip()) for field, kind, _ in rows]


def fields_that_rules_read() -> set[str]:
    """DCGM's names in the rules, outside their tests."""
    names: set[str] = set()
    for path in (ROOT / "rules").rglob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            document.pop("tests", None)
            names |= set(re.findall(r"DCGM_FI_[A-Z0-9_]*[A-Z0-9]", str(document)))
    for path in (ROOT / "rules").rglob("*.jinja"):
        for prefix, group in re.findall(r"(DCGM_FI_\w*)\(([A-Z0-9_|]+)\)", path.read_text()):
            names |= {prefix + name for name in group.split("|")}
    return {name for name in names if not name.endswith(("_DEV", "_PROF", "_DRIVER_VERSION"))}


def test_the_counters_are_exactly_those_that_the_rules_read() -> None:
    listed = {f for name in GENERATIONS for f, kind in counters(name) if kind != "label"}
    assert listed == fields_that_rules_read()


def test_each_generation_carries_its_own_label_of_the_driver() -> None:
    """By it the rules tell in which unit the utilisation is, see ``gpu_util_ratio``."""
    old, new = ({f for f, kind in counters(name) if kind == "label"} for name in GENERATIONS)
    assert old == {"DCGM_FI_DRIVER_VERSION"}
    assert new == {"DCGM_FI_SYSTEM_DRIVER_VERSION"}


def test_both_generations_list_the_same_things() -> None:
    old, new = (counters(name) for name in GENERATIONS)
    assert len(old) == len(new)
    assert [kind for _, kind in old] == [kind for _, kind in new]
    assert len({field for field, _ in (*old, *new)}) == len(old) + len(new)


def test_the_example_of_a_scrape_configuration_is_valid() -> None:
    path = ROOT / "deploy" / "prometheus" / "prometheus.yaml"
    subprocess.run(["promtool", "check", "config", path], check=True, capture_output=True)
    document = yaml.safe_load(path.read_text())
    jobs = {job["job_name"]: job for job in document["scrape_configs"]}
    assert set(jobs) == {
        *("actuary-sidecar", "dcgm", "actuary-predictor", "prometheus", "alertmanager")
    }
    assert jobs["actuary-predictor"]["honor_labels"] is True


def test_grafana_finds_what_the_demonstration_renders() -> None:
    document = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    mounts = dict(volume.split(":", 1) for volume in document["services"]["grafana"]["volumes"])
    assert mounts == {
        "../.demo/grafana/provisioning": "/etc/grafana/provisioning:ro",
        "../.demo/grafana/json": "/etc/grafana/gpu-actuary:ro",
    }


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_make_lists_its_targets() -> None:
    done = make("help")
    assert done.returncode == 0
    for target in ("venv", "tools", "lint", "test", "demo", "golden", "clean"):
        assert f"make {target} " in done.stdout


@pytest.mark.parametrize("programs", [("id",), ()])
def test_tools_that_cannot_be_installed_are_named(
    tmp_path: Path, programs: tuple[str, ...]
) -> None:
    for program in programs:
        (tmp_path / program).write_text("#!/bin/sh\necho 1000\n")
        (tmp_path / program).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", ROOT / "deploy" / "tools.sh"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "missing: prometheus promtool amtool alertmanager" in done.stderr
    assert "apt-get install prometheus prometheus-alertmanager" in done.stderr
