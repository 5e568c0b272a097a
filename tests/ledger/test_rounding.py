from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.ledger.rounding import decimals_for, round_to_sum

amounts = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)
places = st.integers(min_value=0, max_value=6)


@given(st.lists(amounts, max_size=15), places)
def test_rows_sum_to_the_rounded_total_and_stay_within_a_unit(
    values: list[float], decimals: int
) -> None:
    rows = round_to_sum(values, decimals)
    unit = Decimal(1).scaleb(-decimals)
    exact = [Decimal(repr(value)) for value in values]
    assert len(rows) == len(values)
    assert abs(sum(rows) - sum(exact)) <= unit / 2
    assert all(abs(row - value) < unit for row, value in zip(rows, exact, strict=True))
    assert all(row == row.quantize(unit) for row in rows)


@given(st.lists(st.integers(min_value=-10_000, max_value=10_000), max_size=10), amounts, places)
def test_values_that_need_no_rounding_keep_their_value(
    units: list[int], other: float, decimals: int
) -> None:
    whole = [float(Decimal(unit).scaleb(-decimals)) for unit in units]
    rows = round_to_sum([*whole, other], decimals)
    assert [float(row) for row in rows[:-1]] == whole


def test_thirds_sum_to_one() -> None:
    assert round_to_sum([1 / 3, 1 / 3, 1 / 3], 2) == [
        Decimal("0.34"),
        Decimal("0.33"),
        Decimal("0.33"),
    ]


def test_a_residual_of_floating_point_stays_zero() -> None:
    rows = round_to_sum([3.6, 1.8, 1.8, -4.4e-16], 2)
    assert rows == [Decimal("3.60"), Decimal("1.80"), Decimal("1.80"), Decimal("0.00")]


@pytest.mark.parametrize(
    ("total", "decimals"),
    [(0.0, 2), (0.0123, 6), (0.123, 5), (7.2, 4), (123.4, 2), (5_000_000.0, 2)],
)
def test_small_totals_are_shown_with_more_decimals(total: float, decimals: int) -> None:
    assert decimals_for(total) == decimals
