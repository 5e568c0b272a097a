"""Small folders of specs for tests: a built-in one with settings and routes, and users' ones."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from gpu_actuary.generator.problems import SpecError
from gpu_actuary.generator.render import Rendered, render

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = """\
version: actuary/v1
kind: Economics
name: default
currency: USD
energy: {price_per_kwh: 0.12, pue: 1.3}
prices:
  - {model: ".*H100.*", per_gpu_hour: 2.5}
default_price_per_gpu_hour: 2
price_includes_energy: true
assumed_watts: []
quality: {metric: accuracy, accuracy_weight: 0.5, target_loss: 0.1}
roi_reference: null
---
version: actuary/v1
kind: Inventory
name: default
memory: 7d
---
version: actuary/v1
kind: Ledger
name: default
evaluation_interval: 30s
window: 5m
busy_above: 5%
allocation_grace: 15m
---
version: actuary/v1
kind: Route
name: default
runbook_base: https://runbooks.example
group_by: [cluster, node, job_id]
receivers:
  default: {url: "http://127.0.0.1:9/alerts"}
default_receiver: default
"""

RECORDING = """\
version: actuary/v1
kind: Recording
name: {name}
rules:
  - record: {record}
    unit: ""
    help: For a test.
    expr: {expr}
"""

ALERT = """\
version: actuary/v1
kind: Alert
name: {name}
expr: {expr}
severity: ticket
team: platform
summary: It happened.
description: Look at it.
runbook: it-happened
"""


def write(folder: Path, name: str, text: str) -> Path:
    """Write ``text``, dedented, into ``folder``, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return file


def builtin(tmp_path: Path, **files: str) -> Path:
    """A built-in folder with all settings, and ``files`` (name without suffix → text)."""
    folder = tmp_path / "builtin"
    write(folder, "settings.yaml", SETTINGS)
    for name, text in files.items():
        write(folder, f"{name}.yaml", text)
    return folder


def recording(name: str, record: str, expr: str) -> str:
    """A spec with one recording rule of the user's own."""
    return RECORDING.format(name=name, record=record, expr=expr)


def alert(name: str, expr: str) -> str:
    """A spec with one alert, without tests."""
    return ALERT.format(name=name, expr=expr)


def expressions(rendered: Rendered) -> dict[str, str]:
    """The final PromQL of every rule by its name."""
    return {rule.name: rule.expression.text for rule in rendered.rules()}


def problems_of(tmp_path: Path, text: str, **builtin_files: str) -> list[str]:
    """What is wrong with a user's spec ``text``, without the folder in front."""
    user = tmp_path / "user"
    write(user, "spec.yaml", text)
    with pytest.raises(SpecError) as caught:
        render(user, builtin=builtin(tmp_path, **builtin_files))
    return [str(problem).replace(f"{user}/", "") for problem in caught.value.problems]
