"""Whatever stands in a spec, the answer is rules or a list of problems."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_actuary.generator.problems import SpecError
from gpu_actuary.generator.render import render

from .folders import SETTINGS, alert, builtin, recording, write
from .test_baseline import BASELINE

if TYPE_CHECKING:
    from pathlib import Path

SPECS: list[dict[str, Any]] = [
    document
    for text in (
        SETTINGS,
        recording("r", "cluster:a:b", "sum(up)"),
        alert("a", "up == 0"),
        BASELINE.format(options="seasonality: [day, week]"),
    )
    for document in yaml.safe_load_all(text)
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["<< x >>", "<% if %>", "5m", "5%", "up{", "up == 0", "Alert", "default"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += places(value[key], (*path, key))
    return found


@st.composite
def damaged_specs(draw: st.DrawFn) -> dict[str, Any]:
    spec = copy.deepcopy(draw(st.sampled_from(SPECS)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([p for p in places(spec) if p]))
        parent: Any = spec
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = draw(VALUES)
    return spec


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(spec=damaged_specs())
def test_a_damaged_spec_renders_or_is_refused_with_places(
    tmp_path: Path, spec: dict[str, Any]
) -> None:
    folder = builtin(tmp_path)
    write(tmp_path / "user", "spec.yaml", yaml.safe_dump(spec, allow_unicode=True))
    try:
        rendered = render(tmp_path / "user", builtin=folder)
    except SpecError as error:
        lines = [str(problem) for problem in error.problems]
        assert lines
        assert all("\n" not in line and ".yaml:" in line for line in lines)
    else:
        for text in rendered.files.values():
            yaml.safe_load(text)
