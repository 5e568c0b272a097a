"""Behaviour of the rendered baseline, judged by promtool on synthetic series."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from gpu_actuary.generator.render import render

from .folders import builtin, problems_of
from .promtool import run_rule_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HOUR = 60
DAY = 24 * HOUR
"""Minutes, which is also the distance of the samples."""

BASELINE = """\
version: actuary/v1
kind: Baseline
name: step-time
series: job:step_time:seconds5m
by: [job_id]
team: platform
severity: ticket
summary: Slow.
runbook: slow
{options}
---
version: actuary/v1
kind: Recording
name: step-time
rules:
  - record: job:step_time:seconds5m
    expr: sum by (job_id) (step_time) < 0
external: [step_time]
"""
FIRES = "alert: {labels: {job_id: j}}"
SILENT = "alert: []"


def noisy(
    minutes: int, level: Callable[[int], float], *, seed: int, noise: float = 0.03
) -> list[float]:
    draw = random.Random(seed)
    return [level(m) * (1 + noise * draw.gauss(0, 1)) for m in range(minutes)]


def judge(
    tmp_path: Path,
    values: Sequence[float | None],
    expected: dict[int, str],
    options: str = "",
) -> None:
    """Render a baseline with ``options`` and hold it to ``expected`` (minute → expectation)."""
    samples = " ".join("_" if v is None else f"{v:.6g}" for v in values)
    lines = [
        "tests:",
        "  - name: behaves",
        "    interval: 1m",
        "    evaluation_interval: 4m",
        f"    input: [{{series: 'job:step_time:seconds5m{{job_id=\"j\"}}', values: '{samples}'}}]",
        "    expect:",
        *(f"      - {{at: {minute}m, {what}}}" for minute, what in expected.items()),
    ]
    text, _, rest = BASELINE.partition("---\n")
    spec = text.format(options=options) + "\n".join(lines) + "\n---\n" + rest
    rendered = render(builtin=builtin(tmp_path, baseline=spec))
    assert run_rule_tests(rendered, tmp_path / "out") == ""


def test_a_threefold_step_fires_at_once_and_becomes_normal_after_the_time_given(
    tmp_path: Path,
) -> None:
    values = noisy(30 * HOUR, lambda m: 1 if m < 10 * HOUR else 3, seed=1)
    expected = {
        9 * HOUR + 56: SILENT,
        10 * HOUR + 16: FIRES,
        21 * HOUR: FIRES,
        22 * HOUR + 40: SILENT,
        29 * HOUR: SILENT,
    }
    judge(tmp_path, values, expected)


def test_a_third_less_fires_also_a_day_after_a_large_incident(tmp_path: Path) -> None:
    def level(minute: int) -> float:
        if 10 * HOUR <= minute < 11 * HOUR:
            return 3
        return 0.67 if minute >= 35 * HOUR else 1

    expected = {
        10 * HOUR + 20: FIRES,
        12 * HOUR: SILENT,
        34 * HOUR: SILENT,
        35 * HOUR + 20: FIRES,
    }
    judge(tmp_path, noisy(37 * HOUR, level, seed=2), expected)


def test_the_direction_decides_which_side_is_worse(tmp_path: Path) -> None:
    values = noisy(14 * HOUR, lambda m: 1 if m < 10 * HOUR else 0, seed=3)
    judge(tmp_path, values, {10 * HOUR + 16: FIRES}, "direction: below")
    judge(tmp_path, values, {10 * HOUR + 16: SILENT, 13 * HOUR: SILENT}, "direction: above")


def test_noise_a_daily_cycle_and_a_gap_are_silent(tmp_path: Path) -> None:
    def level(minute: int) -> float:
        return 1 + 0.3 * math.sin(2 * math.pi * minute / DAY)

    values: list[float | None] = [*noisy(2 * DAY, level, seed=4)]
    values[30 * HOUR : 30 * HOUR + 20] = [None] * 20
    values[33 * HOUR] = math.nan
    judge(tmp_path, values, dict.fromkeys(range(4 * HOUR, 2 * DAY, 2 * HOUR), SILENT))


def test_a_series_that_has_just_begun_is_silent(tmp_path: Path) -> None:
    values = noisy(5 * HOUR, lambda m: 1 if m < HOUR else 5, seed=5)
    judge(tmp_path, values, dict.fromkeys(range(4, 5 * HOUR, 20), SILENT))


def test_an_absolute_deviation_keeps_zeros_with_one_count_silent(tmp_path: Path) -> None:
    values = [0.0] * (10 * HOUR) + [1.0] + [0.0] * HOUR
    expected = {10 * HOUR + minutes: SILENT for minutes in (0, 4, 8, 12)}
    judge(tmp_path, values, expected, "deviation: {absolute: 2}")


def test_a_relative_deviation_forgives_what_is_small_against_the_mean(tmp_path: Path) -> None:
    values = noisy(11 * HOUR, lambda m: 1 if m < 10 * HOUR else 1.4, seed=6, noise=0.001)
    judge(tmp_path, values, {10 * HOUR + 20: FIRES})
    judge(tmp_path, values, {10 * HOUR + 20: SILENT}, "deviation: {relative: 50%}")


def test_values_out_of_range_are_data_faults_and_neither_learnt_nor_alerted_on(
    tmp_path: Path,
) -> None:
    values = noisy(13 * HOUR, lambda m: 3600 if 10 * HOUR <= m < 11 * HOUR else 1, seed=7)
    expected = {
        10 * HOUR + 20: SILENT,
        12 * HOUR: "query: 'round(job:step_time_baseline:mean, 0.1)', "
        "samples: [{series: '{job_id=\"j\"}', value: 1}]",
    }
    judge(tmp_path, values, expected, "range: {min: 0s, max: 100s}")


def test_what_came_on_both_days_before_is_forgiven_and_a_single_incident_is_not(
    tmp_path: Path,
) -> None:
    def batch(minute: int) -> float:
        return 2 if 10 * HOUR <= minute % DAY < 11 * HOUR else 1

    third_day = 2 * DAY + 10 * HOUR + 20
    season = "seasonality: [day]"
    values = noisy(2 * DAY + 11 * HOUR, batch, seed=8)
    judge(tmp_path, values, {DAY + 10 * HOUR + 20: FIRES, third_day: SILENT}, season)

    def second_and_third(minute: int) -> float:
        return batch(minute) if minute >= DAY else 1

    values = noisy(2 * DAY + 11 * HOUR, second_and_third, seed=9)
    judge(tmp_path, values, {third_day: FIRES}, season)


def test_a_series_that_is_no_record_is_refused(tmp_path: Path) -> None:
    text = BASELINE.format(options="").replace("series: job:step_time:seconds5m", "series: up")
    assert problems_of(tmp_path, text)[0] == (
        "spec.yaml:4: series: 'up' does not fit; expected level:metric:operation, level one of "
        "cluster, node, gpu, job, rank, team"
    )
