from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_actuary.errors import UsageError
from gpu_actuary.generator.output import write_files
from gpu_actuary.generator.render import render
from gpu_actuary.generator.starter import write_starter
from gpu_actuary.generator.tools import check_alertmanager, check_rules, run_tests

if TYPE_CHECKING:
    from pathlib import Path


def test_the_starting_set_is_valid_and_its_own_rule_tests_pass(tmp_path: Path) -> None:
    written = write_starter(tmp_path / "mine")
    assert [file.name for file in written] == ["economics.yaml", "route.yaml", "rules.yaml"]
    out = tmp_path / "out"
    write_files(out, render(tmp_path / "mine").files)
    rules = sorted(out.glob("rules/*.yaml"))
    own = sorted(out.glob("tests/alert-large-job-converges-slowly-*.yaml"))
    outcomes = [
        check_rules(rules),
        run_tests(own, lambda _: None),
        *check_alertmanager(out / "alertmanager.yaml", rules),
    ]
    assert [o for o in outcomes if o.status != "ok"] == []
    assert len(own) == 1


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("mine")
    with pytest.raises(UsageError, match="already holds rules"):
        write_starter(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["rules.yaml"]
