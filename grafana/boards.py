"""All dashboards, finished, by file name."""

from __future__ import annotations

from .balance_sheet import balance_sheet
from .finish import as_text
from .overview import overview


def all_dashboards() -> dict[str, str]:
    """File name → finished JSON text, in the order in which people should meet them."""
    return {
        "overview.json": as_text(overview()),
        "balance-sheet.json": as_text(balance_sheet()),
    }
