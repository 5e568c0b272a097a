"""How the ledger's states read to people: one wording and one colour for every panel."""

from __future__ import annotations

from typing import Any, Final

WORDS: Final[dict[str, str]] = {
    "compute": "Computing",
    "evaluation": "Evaluating the model",
    "idle_free": "Idle, free to use",
    "uninstrumented": "Busy, nobody reports on it",
    "comm_wait": "Waiting for communication",
    "data_wait": "Waiting for data",
    "checkpoint": "Writing checkpoints",
    "startup": "Starting up",
    "recompute": "Repeating lost steps",
    "other": "Other time of the job",
    "idle_allocated": "Held by a job, but idle",
    "unhealthy": "Broken or vanished",
}
"""Ledger state → what a person reads. Equity first, then liabilities."""

COLOURS: Final[dict[str, str]] = {
    "compute": "dark-green",
    "evaluation": "light-green",
    "idle_free": "blue",
    "uninstrumented": "purple",
    "comm_wait": "dark-orange",
    "data_wait": "orange",
    "checkpoint": "super-light-orange",
    "startup": "light-yellow",
    "recompute": "dark-yellow",
    "other": "semi-dark-orange",
    "idle_allocated": "light-red",
    "unhealthy": "dark-red",
}
"""Green is proven work, blue and purple other equity, yellow to red liabilities."""

LEGEND: Final = "{{state}} {{source}}"
MONEY_LEGEND: Final = "{{state}} {{currency}} {{source}}"
"""The legends that :func:`overrides` recognises; the second keeps the currency beside the amount."""


def overrides(*, money: bool = False) -> list[dict[str, Any]]:
    """Colour and wording per state, for series with :data:`LEGEND` or :data:`MONEY_LEGEND`.

    Real and simulated series need rules of their own: a simulated one says so in its name.
    """
    between, tail = (r" \S+", ", ${__field.labels.currency}") if money else ("", "")
    rules = []
    for state, words in WORDS.items():
        for pattern, name in (
            (rf"/^{state}{between}\s*$/", f"{words}{tail}"),
            (rf"/^{state}{between} simulated$/", f"{words}{tail} (SIMULATED)"),
        ):
            rules.append(
                {
                    "matcher": {"id": "byRegexp", "options": pattern},
                    "properties": [
                        {"id": "color", "value": {"mode": "fixed", "fixedColor": COLOURS[state]}},
                        {"id": "displayName", "value": name},
                    ],
                }
            )
    return rules


TABLE_WORDS: Final = {state: (words, COLOURS[state]) for state, words in WORDS.items()}
"""State → (text, colour) in a table's cell."""
