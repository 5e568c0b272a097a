from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.ledger.integration import runs
from gpu_actuary.ledger.period import Period
from gpu_actuary.ledger.timeline import HOUR_MS, Timeline, build_timeline, proven_interval

DAY = 86_400
# Quarters of a second: some stand on full hours, none a single millisecond after one.
times = st.lists(st.integers(0, 4 * DAY), max_size=60, unique=True).map(
    lambda quarters: sorted(quarter * 250 for quarter in quarters)
)


def counted(timeline: Timeline, samples: list[int], *, left_end_belongs: bool) -> Counter[int]:
    """How often a server would count each sample."""
    counts: Counter[int] = Counter()
    for window in timeline.windows:
        left = window.end - timeline.range_of(window)
        for time in samples:
            if left < time <= window.end or (left_end_belongs and time == left):
                counts[time] += 1
    return counts


@given(times, st.booleans())
def test_every_sample_counts_once_in_every_generation_of_prometheus(
    samples: list[int], left_end_belongs: bool
) -> None:
    timeline = build_timeline(samples, Period(0, DAY), 30)
    expected = [time for time in samples if time >= 30_000]
    counts = counted(timeline, samples, left_end_belongs=left_end_belongs)
    assert counts == Counter(expected)
    assert timeline.samples == len(expected)


@given(times)
def test_windows_follow_each_other_and_make_few_queries(samples: list[int]) -> None:
    windows = build_timeline(samples, Period(0, DAY), 30).windows
    assert all(before.end == after.start for before, after in pairwise(windows))
    assert all(0 < window.end - window.start <= HOUR_MS for window in windows)
    pieces = list(runs(windows))
    assert [window for piece in pieces for window in piece] == list(windows)
    assert len(pieces) <= 3


@pytest.mark.parametrize(
    ("samples", "interval"),
    [
        ([0, 30_000, 60_000, 90_000], 30),
        ([0, 30_004, 59_998, 90_001, 600_000, 630_000], 30),
        ([0, 600_000], None),
        ([0], None),
        ([], None),
    ],
)
def test_an_interval_is_proven_by_repetition_only(
    samples: list[int], interval: float | None
) -> None:
    assert proven_interval(samples) == interval
