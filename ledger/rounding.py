"""Rounding that adds up: printed rows sum exactly to the printed total."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def decimals_for(total: float, *, digits: int = 5, least: int = 2, most: int = 6) -> int:
    """Decimals that show ``digits`` significant digits of ``total``, within ``least..most``."""
    if not total > 0:
        return least
    return min(max(digits - 1 - math.floor(math.log10(total)), least), most)


def round_to_sum(values: Sequence[float], decimals: int) -> list[Decimal]:
    """Round ``values`` so that they sum to their rounded sum (largest remainder).

    Each result is within one unit of the last decimal of its value, and a value that is an exact
    number of units keeps it.
    """
    scale = Decimal(1).scaleb(decimals)
    exact = [Decimal(repr(value)) * scale for value in values]
    floors = [math.floor(value) for value in exact]
    remainders = [value - floor for value, floor in zip(exact, floors, strict=True)]
    missing = int(sum(exact, Decimal(0)).to_integral_value()) - sum(floors)
    order = sorted(range(len(values)), key=lambda index: (-remainders[index], index))
    for index in order[:missing]:
        floors[index] += 1
    return [Decimal(units).scaleb(-decimals) for units in floors]
