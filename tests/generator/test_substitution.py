from __future__ import annotations

from typing import TYPE_CHECKING

import promql_parser
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpu_actuary.generator.promql import parse
from gpu_actuary.generator.render import render
from gpu_actuary.generator.values import parse_regex

from .folders import builtin, expressions, problems_of, recording, write

if TYPE_CHECKING:
    from pathlib import Path

QUALITY = recording(
    "quality",
    "cluster:score:avg",
    "avg(actuary_evaluation_score{metric=<< economics.quality.metric | quote >>}) > 0",
)
MODEL = recording(
    "watts",
    "cluster:watts:sum",
    '"<% for p in economics.prices %>sum(DCGM_FI_DEV_POWER_USAGE{modelName=~<< p.model | regex >>})'
    ' * << p.per_gpu_hour >><% endfor %>"',
)
HOSTILE = st.text(
    st.sampled_from("\"'`\\{}()[]<>%#=~!,|\n\r\t a0.*+?$^") | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=40,
)  # fmt: skip
ON_TMP_PATH = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def literal(text: str) -> str:
    """A YAML double-quoted scalar that holds ``text``."""
    escapes = "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08X}" for c in text)
    return f'"{escapes}"'


def economics(field: str) -> str:
    return f"version: actuary/v1\nkind: Economics\nname: default\n{field}\n"


@ON_TMP_PATH
@given(text=HOSTILE)
@example(text='x"} or vector(1) #')
@example(text="<< 1 >> <% for %> {{ $x }}")
@example(text="\\")
def test_no_quality_metric_breaks_out_of_its_string(tmp_path: Path, text: str) -> None:
    folder = builtin(tmp_path, quality=QUALITY)
    write(tmp_path / "user", "mine.yaml", economics(f"quality: {{metric: {literal(text)}}}"))
    [expression] = expressions(render(tmp_path / "user", builtin=folder)).values()
    tree = parse(expression).tree
    assert isinstance(tree, promql_parser.BinaryExpr)
    [matcher] = tree.lhs.expr.matchers.matchers
    assert (matcher.name, matcher.value) == ("metric", text)


@ON_TMP_PATH
@given(text=HOSTILE)
@example(text='a"} or vector(1) #')
@example(text=r"H100\.80GB")
def test_no_model_pattern_breaks_out_of_its_string(tmp_path: Path, text: str) -> None:
    folder = builtin(tmp_path, watts=MODEL)
    mine = economics(f"prices: [{{model: {literal(text)}, per_gpu_hour: 2}}]")
    write(tmp_path / "user", "spec.yaml", mine)
    try:
        parse_regex(text)
    except ValueError:
        assert "regular expression" in problems_of(tmp_path, mine, watts=MODEL)[0]
        return
    [expression] = expressions(render(tmp_path / "user", builtin=folder)).values()
    tree = parse(expression).tree
    [matcher] = tree.lhs.expr.matchers.matchers
    assert (matcher.name, matcher.value) == ("modelName", text)


@pytest.mark.parametrize(
    "text",
    [
        "<< economics.quality.metric >>",
        "<< economics.quality.metric ~ '' >>",
        "<< '%s' % economics.quality.metric >>",
        "<< '{}'.format(economics.quality.metric) >>",
        "<< [economics.quality.metric] | join >>",
        "<< economics.quality.metric | upper >>",
        "<< economics.quality.metric | string >>",
        "<< economics.quality.metric | tojson >>",
        "<< economics.quality | string >>",
        "<< economics.quality.metric | replace('a', 'b') >>",
        "<< economics.quality.metric | escape >>",
        "<< economics.quality.metric._text >>",
        "<< economics.quality.metric.__class__ >>",
    ],
)
def test_a_text_of_the_settings_reaches_promql_through_quote_and_regex_only(
    tmp_path: Path, text: str
) -> None:
    spec = recording("x", "cluster:x:y", f'"vector(0) * up{{a=\\"{text}\\"}}"')
    [problem] = problems_of(tmp_path, spec)
    assert problem.startswith("spec.yaml:8: rules[0].expr: template: ")


@pytest.mark.parametrize(
    ("expr", "filled"),
    [
        ("up * << economics.energy.pue >>", "up * 1.3"),
        ("up > << ledger.busy_above >>", "up > 0.05"),
        ("rate(up[<< rate_window >>])", "rate(up[5m])"),
        ("time() - up > << inventory.memory | seconds >>", "time() - up > 604800"),
        ("sum by (<< by.job >>) (up)", "sum by (cluster, source, job_id) (up)"),
        ("'up{a=~<< outside_iteration | regex >>}'", 'up{a=~"checkpoint|evaluation|startup"}'),
        ("'up{a=~<< [\"a.b\", \"c|d\"] | regex >>}'", r'up{a=~"a\\.b|c\\|d"}'),
        ("sum_over_time(up[<< '1h' | open >>])", "sum_over_time(up[3599s999ms])"),
    ],
)  # fmt: skip
def test_settings_and_vocabulary_are_filled_in(tmp_path: Path, expr: str, filled: str) -> None:
    folder = builtin(tmp_path, x=recording("x", "cluster:x:y", expr))
    assert expressions(render(builtin=folder)) == {"cluster:x:y": filled}


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("up * << economics.price >>", "has no attribute 'price'"),
        ("up * << nothing >>", "'nothing' is undefined"),
        ("up * << economics.roi_reference >>", "None is no part of PromQL"),
        ("up * << economics.prices >>", "a list stands bare"),
        ("up * << 1", "unexpected end of template"),
        ("up * << economics.energy.pue | seconds >>", "seconds takes a duration, not a float"),
        ("up * << 1 / 0 >>", "ZeroDivisionError"),
        ("<% include 'x' %>", "there is no template 'x'"),
        ("<< ''.__class__ >>", "access to attribute '__class__'"),
    ],
)
def test_a_template_that_cannot_be_filled_in_is_a_problem_with_its_place(
    tmp_path: Path, expr: str, message: str
) -> None:
    [problem] = problems_of(tmp_path, recording("x", "cluster:x:y", f'"{expr}"'))
    assert problem.startswith("spec.yaml:8: rules[0].expr: ")
    assert message in problem


def test_prometheus_templates_pass_and_braces_of_a_setting_stay_braces(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(user, "e.yaml", economics('quality: {metric: "{{ $labels.x }}"}'))
    write(
        user,
        "a.yaml",
        """\
        version: actuary/v1
        kind: Alert
        name: low
        expr: up < 1
        severity: ticket
        team: platform
        summary: "{{ $labels.node }} << economics.quality.metric >>"
        description: "{{ $value }}"
        runbook: low
        """,
    )
    [rule] = render(user, builtin=builtin(tmp_path)).rules()
    assert rule.annotations["summary"] == '{{ $labels.node }} {{ "{{" }} $labels.x }}'


def test_macros_of_a_templates_folder_can_be_imported(tmp_path: Path) -> None:
    expr = """'<% from "m.jinja" import twice %><< twice("up") >>'"""
    folder = builtin(tmp_path, x=recording("x", "cluster:x:y", expr))
    (folder / "templates").mkdir()
    (folder / "templates/m.jinja").write_text(
        "<% macro twice(v) -%>sum by (<< by.node >>) (2 * << v >>)<%- endmacro %>"
    )
    assert expressions(render(builtin=folder)) == {
        "cluster:x:y": "sum by (cluster, source, node) (2 * up)"
    }
