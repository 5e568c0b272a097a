"""What finishing does to panels that the present dashboards may not have."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import grafanalib.core as g
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.grafana.finish import finish
from gpu_actuary.grafana.layout import Page
from gpu_actuary.grafana.panels import Query, bars, text, time_series
from gpu_actuary.grafana.tables import Column, Label, table

CHART = time_series("Chart", "About the chart.", [Query("up", "{{job}}")], "short")


def _finished(*panels: Any) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = finish(g.Dashboard(title="T", panels=list(panels)))["panels"]
    return done


def test_panels_inside_a_collapsed_row_are_finished_too() -> None:
    (row,) = _finished(g.RowPanel(title="Detail", collapsed=True, panels=[CHART]))
    (inner,) = row["panels"]
    assert inner["targets"][0]["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert "error" not in inner
    assert "targets" not in row


def test_an_interval_and_a_number_of_points_that_were_asked_for_stay() -> None:
    asked = g.TimeSeries(
        targets=[g.Target(expr="up", refId="A", interval="5m")], maxDataPoints=400, unit="short"
    )
    (panel,) = _finished(asked)
    assert panel["maxDataPoints"] == 400
    assert panel["targets"][0]["interval"] == "5m"


def test_range_and_instant_queries_exclude_each_other() -> None:
    instant, over_time = _finished(bars("Bars", "About bars.", Query("up", "x"), "none"), CHART)
    for panel, at_once in ((instant, True), (over_time, False)):
        (target,) = panel["targets"]
        assert (target["instant"], target["range"]) == (at_once, not at_once)


def test_a_hidden_legend_is_hidden_the_present_way() -> None:
    hidden = g.TimeSeries(targets=[g.Target(expr="up", refId="A")], legendDisplayMode="hidden")
    shown, gone = _finished(CHART, hidden)
    assert shown["options"]["legend"]["showLegend"] is True
    assert gone["options"]["legend"]["showLegend"] is False


def test_a_logarithmic_scale_keeps_its_base() -> None:
    curve = g.TimeSeries(
        targets=[g.Target(expr="up", refId="A")],
        scaleDistributionType="log",
        scaleDistributionLog=10,
    )
    (panel,) = _finished(curve)
    scale = panel["fieldConfig"]["defaults"]["custom"]["scaleDistribution"]
    assert scale == {"type": "log", "log": 10}


def test_a_note_has_no_queries() -> None:
    (note,) = _finished(text("Note", "About the note.", "# Hello"))
    assert "targets" not in note
    assert note["options"]["content"] == "# Hello"


def test_a_table_of_one_column_is_refused() -> None:
    label = Label("job", "Job", None)
    with pytest.raises(ValueError, match="at least two columns"):
        table("T", "About it.", [label], [Column("Up", "up", "none")], sort_by="Up")


@given(
    st.lists(
        st.tuples(st.integers(1, 24), st.integers(1, 12), st.booleans()), min_size=1, max_size=30
    )
)
def test_pages_never_overlap_whatever_is_placed(boxes: list[tuple[int, int, bool]]) -> None:
    page = Page()
    for width, height, new_row in boxes:
        if new_row:
            page.row("Section")
        page.add(text("Note", "About it.", ""), width=width, height=height)
    taken = [panel.gridPos for panel in page.panels]
    assert all(box.x >= 0 and box.x + box.w <= 24 for box in taken)
    for a, b in combinations(taken, 2):
        assert a.x + a.w <= b.x or b.x + b.w <= a.x or a.y + a.h <= b.y or b.y + b.h <= a.y
