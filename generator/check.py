"""All checks over a folder of specs or a rendered folder, in the order in which mistakes matter."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_actuary.errors import UsageError

from .models import Alert, Baseline
from .output import is_ours, write_files
from .problems import Problem, SpecError, format_path
from .render import render
from .targets import DEFAULT, PROMETHEUS, TARGETS, Server
from .tools import Outcome, check_alertmanager, check_rules, check_vmalert, run_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .models import Tested
    from .render import Rendered
    from .targets import Target


def check(
    path: Path | None,
    progress: Callable[[str], None],
    *,
    builtin: Path | None = None,
    server: Server = DEFAULT,
) -> Iterator[Outcome]:
    """Check ``path``: a rendered folder, or specs over the built-in ones, or these alone (None).

    ``builtin`` stands for the product's own specs. Specs are checked as Prometheus evaluates them,
    and then what is rendered for ``server``, where it is another one.

    Raises :class:`UsageError` when ``path`` is no folder.
    """
    if path is not None and not path.is_dir():
        raise UsageError(f"{path} is not a folder; expected one with specs or rendered files")
    if path is not None and _is_rendered(path):
        yield from _check_files(path, progress)
        return
    try:
        rendered = render(path, builtin=builtin)
    except SpecError as error:
        yield Outcome("specs", "failed", "\n".join(map(str, error.problems)))
        return
    yield Outcome(
        "specs", "ok", f"{len(rendered.specs.loaded)} specs, {len(rendered.rules())} rules"
    )
    yield _every_alert_is_tested(rendered)
    if rendered.left_out:
        yield Outcome(
            "rule tests",
            "skipped",
            f"{rendered.left_out} tests of built-in specs assume the built-in settings",
        )
    with tempfile.TemporaryDirectory(prefix="gpu-actuary-") as folder:
        write_files(Path(folder), rendered.files)
        yield from _check_files(Path(folder), progress)
    if server.target is not PROMETHEUS:
        yield from _check_target(path, server, builtin)


def _check_target(path: Path | None, server: Server, builtin: Path | None) -> Iterator[Outcome]:
    name = f"specs for {server.target.name}"
    try:
        rendered = render(path, builtin=builtin, server=server)
    except SpecError as error:
        yield Outcome(name, "failed", "\n".join(map(str, error.problems)))
        return
    yield Outcome(name, "ok", "; ".join([f"{len(rendered.groups)} groups", *rendered.notes]))
    vmalert = server.target is TARGETS["vmalert"]
    files = rendered.rule_files() if vmalert else rendered.plain_rule_files()
    with tempfile.TemporaryDirectory(prefix="gpu-actuary-") as folder:
        write_files(Path(folder), files)
        rules = sorted(Path(folder).iterdir())
        outcome = check_vmalert(rules) if vmalert else check_rules(rules)
        yield Outcome(f"{outcome.check} for {server.target.name}", outcome.status, outcome.detail)


def _is_rendered(folder: Path) -> bool:
    return any(is_ours(file) for file in folder.glob("rules/*.yaml"))


def _check_files(folder: Path, progress: Callable[[str], None]) -> Iterator[Outcome]:
    rules = sorted(folder.glob("rules/*.yaml"))
    target = _rendered_for(rules[0]) if rules else PROMETHEUS
    if target is TARGETS["vmalert"]:
        yield check_vmalert(rules)
    elif target.layout == "rule file" and not target.group_fields:
        yield check_rules(rules)
    else:
        advice = f"promtool cannot read what is for {target.title}; check the specs"
        yield Outcome("rule files", "skipped", f"{advice} with --target {target.name}")
        rules = []
    yield run_tests(sorted(folder.glob("tests/*.yaml")), progress)
    alertmanager = folder / "alertmanager.yaml"
    if alertmanager.is_file():
        yield from check_alertmanager(alertmanager, rules)


def _rendered_for(file: Path) -> Target:
    """The target that the first line of a rendered ``file`` names."""
    with file.open(encoding="utf-8") as stream:
        named = re.search(r"--target (\w+)", stream.readline())
    return TARGETS.get(named[1], PROMETHEUS) if named else PROMETHEUS


def _every_alert_is_tested(rendered: Rendered) -> Outcome:
    """Each alert has a test in which it fires and a moment at which it does not."""
    problems = []
    alerts = 0
    for entry in rendered.specs.loaded:
        spec = entry.spec
        if not isinstance(spec, Alert | Baseline):
            continue
        alerts += 1
        missing = _missing_expectations(spec)
        if missing:
            problems.append(
                Problem(entry.locate("tests"), format_path(("tests",)), missing, "`alert` in both")
            )
    if problems:
        return Outcome("alert tests", "failed", "\n".join(map(str, problems)))
    return Outcome("alert tests", "ok", f"{alerts} alerts fire in one test and are silent in one")


def _missing_expectations(spec: Tested) -> str:
    expected = [e.alert for test in spec.tests for e in test.expect]
    lacks = []
    if not any(expected):
        lacks.append("fires")
    if not any(alerts == [] for alerts in expected):
        lacks.append("does not fire")
    return (
        f"{spec.name} has no test in which it {' and none in which it '.join(lacks)}"
        if lacks
        else ""
    )
