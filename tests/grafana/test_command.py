"""``actuary dashboards`` as a person calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def _actuary(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from gpu_actuary.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "dashboards", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_writes_dashboards_and_provisioning_and_names_each_file(tmp_path: Path) -> None:
    result = _actuary(
        *("-o", str(tmp_path / "new" / "folder")),
        *("--prometheus-url", "https://mimir.example/prometheus"),
        *("--dashboards-path", "/srv/boards"),
    )
    assert result.returncode == 0, result.stderr
    out = tmp_path / "new" / "folder"
    written = {str(path) for path in out.rglob("*") if path.is_file()}
    assert set(result.stdout.split()) == written
    assert len(written) == 4
    assert json.loads((out / "json" / "overview.json").read_text())["panels"]
    text = (out / "provisioning" / "datasources" / "gpu-actuary.yaml").read_text()
    assert yaml.safe_load(text)["datasources"][0]["url"] == "https://mimir.example/prometheus"
    text = (out / "provisioning" / "dashboards" / "gpu-actuary.yaml").read_text()
    assert yaml.safe_load(text)["providers"][0]["options"]["path"] == "/srv/boards"


def test_writing_again_replaces_its_own_files_and_leaves_others_alone(tmp_path: Path) -> None:
    own, foreign = tmp_path / "json" / "overview.json", tmp_path / "json" / "theirs.json"
    own.parent.mkdir()
    own.write_text("old")
    foreign.write_text("theirs")
    assert _actuary("-o", str(tmp_path)).returncode == 0
    assert json.loads(own.read_text())["uid"] == "gpu-actuary-overview"
    assert foreign.read_text() == "theirs"
    assert not [path for path in own.parent.iterdir() if path.name.startswith(".")]


def test_a_folder_that_cannot_be_written_is_named_without_a_traceback(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    result = _actuary("-o", str(blocked))
    assert result.returncode == 2
    assert str(blocked) in result.stderr
    assert "Not a directory" in result.stderr or "File exists" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_that_is_none_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    result = _actuary("-o", str(tmp_path / "out"), "--prometheus-url", "prometheus:9090")
    assert result.returncode == 2
    assert "prometheus:9090" in result.stderr
    assert "http://prometheus:9090" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_relative_dashboards_path_is_refused(tmp_path: Path) -> None:
    result = _actuary("-o", str(tmp_path / "out"), "--dashboards-path", "boards")
    assert result.returncode == 2
    assert "absolute path" in result.stderr


def test_help_says_where_the_files_belong() -> None:
    result = _actuary("--help")
    assert result.returncode == 0
    assert "/etc/grafana/provisioning" in result.stdout
