from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gpu_actuary import __version__
from gpu_actuary.cli import COMMANDS


def actuary(*arguments: str, prelude: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, after the Python code ``prelude``."""
    code = f"import sys\n{prelude}\nfrom gpu_actuary.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200"},
    )


def test_the_version_is_printed() -> None:
    done = actuary("--version")
    assert (done.returncode, done.stdout) == (0, f"actuary {__version__}\n")


def test_help_lists_every_command_without_loading_one() -> None:
    done = actuary("--help", prelude="import atexit; atexit.register(lambda: print(*sys.modules))")
    assert done.returncode == 0
    for name, command in COMMANDS.items():
        assert name in done.stdout
        assert command.help in done.stdout
        if not command.module.startswith("gpu_actuary.catalogue"):
            assert f"{command.module} " not in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = actuary(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [("fly",), ("catalogue", "--fly"), ("--fly",)])
def test_wrong_use_ends_with_two(arguments: tuple[str, ...]) -> None:
    done = actuary(*arguments)
    assert done.returncode == 2
    assert "fly" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_usage_error_is_one_message_and_two() -> None:
    done = actuary("catalogue", "--owner", "nobody")
    assert done.returncode == 2
    assert done.stderr.startswith("actuary: no component 'nobody' owns series; expected one of ")
    assert done.stdout == ""


def test_another_error_of_ours_is_one_message_and_one() -> None:
    done = actuary("statement", "--prometheus", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert done.stderr.startswith("actuary: http://127.0.0.1:9 cannot be reached")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("exporter", "prometheus_client", "exporter"), ("dashboards", "grafanalib", "dashboards")],
)
def test_a_missing_extra_says_how_to_install_it(name: str, library: str, extra: str) -> None:
    done = actuary(name, "--help", prelude=f"sys.modules[{library!r}] = None")
    assert done.returncode == 2
    assert f"needs the Python package {library!r}" in done.stderr
    assert f"pip install 'gpu-actuary[{extra}]'" in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m gpu_actuary catalogue --json | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == "[\n0\n"
    assert done.stderr == ""


def test_the_catalogue_is_printed_as_markdown_and_json() -> None:
    table = actuary("catalogue", "--core").stdout.splitlines()
    assert table[0].startswith("| series | type | unit |")
    assert len(table) == 2 + 20
    listed = json.loads(actuary("catalogue", "--owner", "predictor", "--json").stdout)
    assert {entry["owner"] for entry in listed} == {"predictor"}
    assert "actuary_elastic_budget" in {entry["name"] for entry in listed}
