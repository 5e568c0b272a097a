from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_actuary.generator.render import render

from .folders import alert, builtin, problems_of, recording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        (
            "rate(actuary_steps_total[30s])",
            "rate() of actuary_steps_total over 30 s sees fewer than two scrapes of 30s; expected "
            "a range of at least 60 s",
        ),
        (
            "rate(sum(actuary_steps_total)[5m:1m])",
            "rate() of an aggregation takes one target's restart for a reset of the whole; "
            "expected rate() inside, the aggregation outside",
        ),
        (
            "mad_over_time(up[5m])",
            "mad_over_time() is experimental in Prometheus; expected a stable function",
        ),
        ("limitk(1, up)", "limitk is experimental in Prometheus; expected a stable aggregation"),
        ("holt_winters(up[5m], 0.1, 0.1)", "PromQL: unknown function with name 'holt_winters'"),
        ("up +", "PromQL: "),
        ("sum(up) / sum(up)", "divides by sum(up), which may be 0; expected a guard: (… > 0)"),
        ("(1 - up / (up - 1)) > bool 0", "divides by (up - 1), which may be 0"),
        (
            "'{job=\"x\"}'",
            "a selector without a name reads every series; expected a name",
        ),
        (
            "actuary_step_total",
            "reads actuary_step_total, which nothing publishes (did you mean "
            "'actuary_steps_total'?); expected a known series, or `external: [name]`",
        ),
        (
            "job:mfu:ratio",
            "reads job:mfu:ratio, which no spec records; expected a rule that records it",
        ),
    ],
)
def test_a_mistake_in_a_recording_is_found(tmp_path: Path, expr: str, problem: str) -> None:
    [found] = problems_of(tmp_path, recording("x", "cluster:x:y", expr))
    assert found.startswith(f"spec.yaml:8: rules[0].expr: {problem}")


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        ("up", "fires whenever its series exist; expected a comparison, such as > 0"),
        ("up > bool 0", "fires whenever its series exist; expected a comparison, such as > 0"),
        ("topk(1, up) == 0", "topk makes alerts flap between the series that it chooses"),
    ],
)
def test_a_mistake_in_an_alert_is_found(tmp_path: Path, expr: str, problem: str) -> None:
    [found] = problems_of(tmp_path, alert("x", expr))
    assert found.startswith(f"spec.yaml:4: expr: {problem}")


@pytest.mark.parametrize(
    "expr",
    ["up == 0", "absent(up)", "up unless on (node) up", "gpu:sick:bool", "up < 1 or up > 5"],
)
def test_an_alert_that_filters_is_accepted(tmp_path: Path, expr: str) -> None:
    sick = recording("sick", "gpu:sick:bool", "up == 0")
    folder = builtin(tmp_path, sick=sick, x=alert("x", expr))
    assert [rule.name for rule in render(builtin=folder).rules()] == ["gpu:sick:bool", "X"]


@pytest.mark.parametrize(
    "expr",
    [
        "up / (up > 0)",
        "up / 24",
        "(up / up) >= 0 <= 1",
        "up / clamp_min(up, 1)",
        "up / count(up)",
        "up / ((up > 0) * (up != 0) / 2)",
        "up / ((up > 0) or (up != 3))",
    ],
)
def test_a_division_that_cannot_be_nan_is_accepted(tmp_path: Path, expr: str) -> None:
    folder = builtin(tmp_path, x=recording("x", "cluster:x:y", expr))
    assert len(render(builtin=folder).rules()) == 1


def test_a_value_in_a_label_makes_every_evaluation_a_new_alert(tmp_path: Path) -> None:
    text = alert("x", "up == 0") + 'labels: {level: "{{ $value }}"}\n'
    [found] = problems_of(tmp_path, text)
    assert "the label level holds the value, so each evaluation is a new alert" in found


def test_a_record_with_the_same_labels_stands_once(tmp_path: Path) -> None:
    twice = recording("a", "cluster:a:b", "up") + "---\n" + recording("b", "cluster:a:b", "up")
    [found] = problems_of(tmp_path, twice)
    assert found.startswith("spec.yaml:17: rules[0].expr: cluster:a:b with the same labels stands ")


def test_a_record_may_stand_several_times_with_different_labels(tmp_path: Path) -> None:
    first = recording("a", "cluster:a:b", "up") + "    labels: {side: left}\n"
    second = recording("b", "cluster:a:b", "up") + "    labels: {side: right}\n"
    assert len(render(builtin=builtin(tmp_path, a=first, b=second)).rules()) == 2


def test_a_record_of_ones_own_needs_unit_and_help(tmp_path: Path) -> None:
    text = """\
        version: actuary/v1
        kind: Recording
        name: x
        rules:
          - {record: job:mfo:ratio, expr: up}
        """
    assert problems_of(tmp_path, text) == [
        "spec.yaml:5: rules[0].record: job:mfo:ratio is not in the catalogue (did you mean "
        "'job:mfu:ratio'?); expected `unit` and `help` beside a record of your own"
    ]


def test_a_series_of_another_exporter_can_be_declared(tmp_path: Path) -> None:
    text = recording("x", "cluster:x:y", "sum(weather_degrees)") + "external: [weather_degrees]\n"
    assert len(render(builtin=builtin(tmp_path, x=text)).rules()) == 1


def test_a_rare_record_is_not_read_at_an_instant(tmp_path: Path) -> None:
    rare = recording("rare", "cluster:rare:sum", "sum(up)") + "interval: 5m\n"
    reader = recording("reader", "cluster:reader:sum", "cluster:rare:sum * 2")
    [found] = problems_of(tmp_path, rare + "---\n" + reader)
    assert "reads cluster:rare:sum, which is recorded every 300 s only" in found
    assert found.endswith("expected last_over_time(cluster:rare:sum[…])")


def test_a_stage_reads_no_later_stage(tmp_path: Path) -> None:
    late = recording("late", "cluster:late:sum", "sum(up)") + "stage: value\n"
    early = recording("early", "cluster:early:sum", "cluster:late:sum")
    [found] = problems_of(tmp_path, late + "---\n" + early)
    assert "stage foundation reads cluster:late:sum of stage value; expected stage: value" in found
