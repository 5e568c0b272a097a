"""What the built-in specs render to, committed: a change of a rule shows as PromQL in review.

``prometheus/`` holds whole files. For every other target one file holds its groups, in which a rule
that is the same as on Prometheus is its name alone. ``stages.yaml`` says which rules a stage has.
Refresh with ``python -m tests.golden`` after a change of rules/ or generator/.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_actuary.generator.models import STAGES
from gpu_actuary.generator.output import as_yaml
from gpu_actuary.generator.render import Rendered, render
from gpu_actuary.generator.targets import TARGETS, server

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = Path(__file__).parent


def rendered() -> dict[str, str]:
    """Every golden file as it should be; without the rule tests, which repeat the specs."""
    prometheus = render()
    files = {
        f"prometheus/{name}": text
        for name, text in prometheus.files.items()
        if not name.startswith("tests/")
    }
    same = {_key(rule): rule for rule in _rules(prometheus)}
    for name in TARGETS:
        if name != "prometheus":
            files[f"{name}.yaml"] = as_yaml(_differences(render(server=server(name)), same))
    files["stages.yaml"] = as_yaml(
        {stage: [rule.name for rule in render(stage=stage).rules()] for stage in STAGES}
    )
    return files


def committed() -> dict[str, str]:
    """The files as they stand in the repository."""
    files = sorted(FOLDER.rglob("*.yaml"))
    return {f.relative_to(FOLDER).as_posix(): f.read_text("utf-8") for f in files}


def _differences(target: Rendered, same: dict[str, dict[str, Any]]) -> dict[str, Any]:
    documents = {}
    for name, text in target.rule_files().items():
        document = yaml.safe_load(text)
        for group in document.get("spec", document)["groups"]:
            group["rules"] = [
                _key(rule) if same[_key(rule)] == rule else rule for rule in group["rules"]
            ]
        documents[name] = document
    return documents


def _rules(target: Rendered) -> Iterator[dict[str, Any]]:
    for text in target.rule_files().values():
        for group in yaml.safe_load(text)["groups"]:
            yield from group["rules"]


def _key(rule: dict[str, Any]) -> str:
    return str(rule.get("record") or rule["alert"])
