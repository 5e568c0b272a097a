"""The architecture, read from the source: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HUB = "gpu_actuary"
SPOKES = ("exporters", "generator", "grafana", "ledger", "predictor", "rules", "simulator")
HUB_LIBRARIES = {"httpx", "typer"}
"""All that the hub may import beside the standard library: it is loaded by every command."""
HEAVY = (
    *("torch", "numpy", "scipy", "sklearn", "pydantic", "jinja2", "yaml", "promql_parser"),
    *("prometheus_client", "grafanalib", "pynvml"),
)


def sources(folder: str) -> list[Path]:
    """The Python files of a top-level folder."""
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> list[tuple[int, str]]:
    """(level, module) of every import, also of those inside functions; level 0 is absolute."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found.append((node.level, module))
            # `from gpu_actuary import exporters` is an import of gpu_actuary.exporters.
            if not node.level and module == HUB:
                found += [(0, f"{HUB}.{alias.name}") for alias in node.names]
    return found


def spoke_of(module: str) -> str | None:
    """The spoke that an absolute module name belongs to."""
    parts = module.split(".")
    return parts[1] if parts[0] == HUB and len(parts) > 1 and parts[1] in SPOKES else None


@pytest.mark.parametrize("spoke", SPOKES)
def test_a_spoke_imports_itself_relatively_and_no_other_spoke(spoke: str) -> None:
    assert sources(spoke)
    for path in sources(spoke):
        depth = len(path.relative_to(ROOT / spoke).parts)
        for level, module in imports(path):
            if level:
                assert level <= depth, f"{path}: a relative import leaves the spoke"
                continue
            assert spoke_of(module) is None, f"{path}: imports the spoke {module}"
            assert module.split(".")[0] not in SPOKES, f"{path}: imports {module} as top level"


def test_the_hub_imports_no_spoke_and_nothing_heavy() -> None:
    allowed = {HUB, *HUB_LIBRARIES, *sys.stdlib_module_names}
    for path in sources(HUB):
        for level, module in imports(path):
            assert level == 0, f"{path}: the hub imports itself absolutely"
            assert spoke_of(module) is None, f"{path}: imports the spoke {module}"
            assert module.split(".")[0] in allowed, f"{path}: imports {module}"


def test_the_demonstration_uses_commands_and_the_training_monitor_only() -> None:
    used = {
        (path.name, module)
        for path in sources("demo")
        for level, module in imports(path)
        if not level and spoke_of(module) is not None
    }
    assert used == {("train.py", "gpu_actuary.exporters.pytorch")}


def test_the_command_line_starts_without_any_spoke_or_heavy_library() -> None:
    code = (
        "import sys, gpu_actuary.cli, gpu_actuary.prometheus, gpu_actuary.catalogue.cli\n"
        "import gpu_actuary.formulas.balance\n"
        "print(*sorted(sys.modules))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not [name for name in loaded if spoke_of(name)]
    assert not [name for name in loaded if name in HEAVY]


def test_the_wheel_holds_every_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    on_disk = set()
    for folder in (HUB, *SPOKES):
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT).parts
            on_disk.add(".".join(parts if folder == HUB else (HUB, *parts)))
    assert set(settings["packages"]) == on_disk
    assert settings["package-dir"] == {HUB: HUB} | {f"{HUB}.{s}": s for s in SPOKES}
