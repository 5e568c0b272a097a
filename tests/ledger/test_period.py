from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.errors import UsageError
from gpu_actuary.ledger.period import Period, duration, iso, parse_period

NOW = 1_735_689_600.0  # 2025-01-01T00:00:00Z


@given(st.text())
def test_any_text_is_a_period_or_a_clear_refusal(text: str) -> None:
    try:
        period = parse_period(text, None, now=NOW)
    except UsageError as error:
        assert "since" in str(error)
    else:
        assert 0 <= period.since < period.until == NOW


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("24h", None, Period(NOW - 86_400, NOW)),
        ("1h", "1h", Period(NOW - 7200, NOW - 3600)),
        ("2024-12-31", "2024-12-31T12:00:00+02:00", Period(NOW - 86_400, NOW - 50_400)),
        ("1735689500.25", "2025-01-01", Period(NOW - 99.75, NOW)),
        ("2024-12-31T23:00:00Z", None, Period(NOW - 3600, NOW)),
    ],
)
def test_ends_are_durations_or_times_and_utc_without_a_zone(
    since: str, until: str | None, expected: Period
) -> None:
    assert parse_period(since, until, now=NOW) == expected


@pytest.mark.parametrize(
    ("since", "until", "complaint"),
    [
        ("yesterday", None, "--since 'yesterday' is neither a duration"),
        ("1h", "soon", "--until 'soon' is neither a duration"),
        ("1h", "2025-01-02", "lies in the future"),
        ("2025-01-01", "2024-12-31", "is not before its end"),
        ("0s", None, "is not before its end"),
        ("99y", None, "before 1970"),
        ("9" * 400, None, "neither a duration"),
        ("9" * 40 + "y", None, "neither a duration"),
    ],
)
def test_a_bad_period_is_refused_with_what_was_expected(
    since: str, until: str | None, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_period(since, until, now=NOW)


def test_times_are_printed_in_utc() -> None:
    assert iso(NOW) == "2025-01-01T00:00:00Z"
    assert iso(NOW + 0.25) == "2025-01-01T00:00:00.250000Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.4, "0s"), (59.7, "1m"), (720, "12m"), (4325, "1h12m"), (90061, "1d1h")],
)
def test_lengths_are_printed_in_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
