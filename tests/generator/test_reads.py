from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.generator.promql import parse
from gpu_actuary.generator.reads import Read, later, rewrite
from gpu_actuary.generator.render import render


def moved(text: str, seconds: float = 30) -> str:
    return rewrite(text, lambda read: later(read, seconds), lag_seconds=seconds)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up", "up offset 30s"),
        ('up{a="}",b=~"x|y"} == 1', 'up{a="}",b=~"x|y"} offset 30s == 1'),
        ('{__name__=~"a.*"}', '{__name__=~"a.*"} offset 30s'),
        ("rate(x_total[5m])", "rate(x_total[5m] offset 30s)"),
        ("x offset 1m30s", "x offset 120s"),
        ("x[5m] offset -10s", "x[5m] offset 20s"),
        ("x offset -30s + y", "x + y offset 30s"),
        ("x @ 5 + x @ end() offset 1m", "x @ 5 + x @ end() offset 1m"),
        ("max_over_time(x[1h:1m])", "max_over_time(x[1h:1m] offset 30s)"),
        ("max_over_time(sum(x)[1h:1m])", "max_over_time(sum(x offset 30s)[1h:1m])"),
        ("sum by (up, x) (up) / on (up) group_left (x) y", None),
        ("sum(up) by (up)", "sum(up offset 30s) by (up)"),
        ("up and on () vector(time()) > 5", "up offset 30s and on () vector((time() - 30)) > 5"),
        ("hour() > 8", "hour(vector(time() - 30)) > 8"),
        ("up > bool 1e-5 # up", "up offset 30s > bool 1e-5 # up"),
        ("up > -Inf < +Inf != NaN", "up offset 30s > -Inf < +Inf != NaN"),
        ("a:b:c unless d", "a:b:c offset 30s unless d offset 30s"),
    ],
)
def test_every_read_looks_further_back_and_nothing_else_changes(
    text: str, expected: str | None
) -> None:
    if expected is None:
        expected = "sum by (up, x) (up offset 30s) / on (up) group_left (x) y offset 30s"
    assert moved(text) == expected
    parse(expected)


def test_no_lag_changes_nothing() -> None:
    text = "time() - x offset 5m > hour()"
    assert moved(text, 0) == text


def test_what_is_found_in_every_built_in_rule_is_what_the_parser_finds() -> None:
    for rule in render().rules():
        reads: list[Read] = []

        def note(read: Read, reads: list[Read] = reads) -> str:
            reads.append(read)
            return read.text

        assert rewrite(rule.expression.text, note) == rule.expression.text
        found = [(read.name, bool(read.range)) for read in reads]
        assert found == [
            (s.name, s.range_seconds is not None) for s in rule.expression.selectors
        ], rule.name


NAMES = st.sampled_from(["up", "a:b:c", "sum_x", 'm{l="offset 5m [1m] time()"}', '{__name__="n"}'])


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, st.sampled_from([" + ", " and ", "\nor on (a)", " > bool "]), inner)
    return st.one_of(
        pairs.map("".join),
        inner.map(lambda e: f"({e})"),
        inner.map(lambda e: f"sum by (up, by_x) ({e})"),
        inner.map(lambda e: f"abs({e}) # {{up}}\n"),
        inner.map(lambda e: f"max_over_time(({e})[1h:5m])"),
        NAMES.map(lambda n: f"rate({n}[5m])"),
        NAMES.map(lambda n: f"{n} offset 1m"),
    )


@given(st.recursive(NAMES, combined, max_leaves=8))
def test_moving_there_and_back_reads_the_same(text: str) -> None:
    def back(read: Read) -> str:
        return later(read, -7)

    there = moved(text, 7)
    assert str(parse(rewrite(there, back)).tree) == str(parse(text).tree)
    assert len(parse(there).selectors) == len(parse(text).selectors)
