from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_actuary.generator.render import render

from .folders import alert, builtin, problems_of, recording

if TYPE_CHECKING:
    from pathlib import Path


def test_rules_follow_what_they_read_and_alerts_come_last(tmp_path: Path) -> None:
    folder = builtin(
        tmp_path,
        a=alert("low", "cluster:third:sum < 1"),
        b=recording("third", "cluster:third:sum", "cluster:second:sum"),
        c=recording("second", "cluster:second:sum", "'{__name__=~\"cluster:fir.*\"}'"),
        d=recording("first", "cluster:first:sum", "sum(up)"),
    )
    [group] = render(builtin=folder).groups
    assert [rule.name for rule in group.rules] == [
        "cluster:first:sum",
        "cluster:second:sum",
        "cluster:third:sum",
        "Low",
    ]


def test_rules_of_one_interval_form_one_group(tmp_path: Path) -> None:
    folder = builtin(
        tmp_path,
        a=recording("a", "cluster:a:sum", "sum(up)"),
        b=recording("b", "cluster:b:sum", "sum(up)") + "interval: 60s\n",
        c=recording("c", "cluster:c:sum", "sum(up)") + "interval: 1m\n",
        d=recording("d", "cluster:d:sum", "sum(up)"),
    )
    rendered = render(builtin=folder)
    assert [(group.name, len(group.rules)) for group in rendered.groups] == [
        ("gpu-actuary-30s", 2),
        ("gpu-actuary-60s", 2),
    ]
    assert set(rendered.rule_files()) == {"gpu-actuary-30s.yaml", "gpu-actuary-60s.yaml"}


def test_rules_that_read_each_other_at_an_instant_are_a_loop(tmp_path: Path) -> None:
    text = "---\n".join(
        [
            recording("a", "cluster:a:sum", "cluster:b:sum"),
            recording("b", "cluster:b:sum", "cluster:c:sum + up"),
            recording("c", "cluster:c:sum", "cluster:a:sum"),
        ]
    )
    [found] = problems_of(tmp_path, text)
    assert found.startswith("spec.yaml:8: rules[0].expr: rules read each other in a loop: ")
    assert "cluster:a:sum → cluster:b:sum → cluster:c:sum → cluster:a:sum" in found


def test_a_recursion_through_the_past_is_no_loop(tmp_path: Path) -> None:
    folder = builtin(
        tmp_path,
        a=recording("state", "cluster:state:sum", "last_over_time(cluster:change:sum[1h]) or up"),
        b=recording("change", "cluster:change:sum", "cluster:state:sum * 2"),
        c=recording("own", "cluster:own:sum", "cluster:own:sum + 1 or up"),
    )
    [group] = render(builtin=folder).groups
    names = [rule.name for rule in group.rules]
    assert sorted(names) == ["cluster:change:sum", "cluster:own:sum", "cluster:state:sum"]
    assert names.index("cluster:state:sum") < names.index("cluster:change:sum")
