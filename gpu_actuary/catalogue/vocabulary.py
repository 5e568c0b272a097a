"""The closed vocabularies: phases of a step, states of a GPU-second, layers of the product."""

from __future__ import annotations

from typing import Final

PHASES: Final = (
    "data_wait",
    "h2d",
    "forward",
    "backward",
    "comm_exposed",
    "optimizer",
    "checkpoint",
    "evaluation",
    "startup",
    "recompute",
    "other",
)
"""Exclusive phases of a rank's wall time; they sum to it."""

OUTSIDE_ITERATION: Final = ("checkpoint", "evaluation", "startup")
"""Phases that are not part of an iteration: the denominator of η leaves them out."""

REPORTED_STATES: Final[dict[str, tuple[str, ...]]] = {
    "compute": ("forward", "backward", "optimizer", "h2d"),
    "comm_wait": ("comm_exposed",),
    "data_wait": ("data_wait",),
    "checkpoint": ("checkpoint",),
    "evaluation": ("evaluation",),
    "startup": ("startup",),
    "recompute": ("recompute",),
    "other": ("other",),
}
"""Ledger states that training reports, each with the phases that it gathers."""

UNREPORTED_STATES: Final = ("idle_allocated", "idle_free", "uninstrumented", "unhealthy")
"""Ledger states of GPU-time on which no training reports."""

STATES: Final = (*REPORTED_STATES, *UNREPORTED_STATES)

LIABILITIES: Final = (
    "comm_wait",
    "data_wait",
    "checkpoint",
    "startup",
    "recompute",
    "other",
    "idle_allocated",
    "unhealthy",
)
EQUITY: Final[dict[str, str]] = {
    "compute": "proven",
    "evaluation": "proven",
    "idle_free": "available",
    "uninstrumented": "unproven",
}
"""Equity states with the kind of equity they are."""

SIDES: Final[dict[str, str]] = {
    **dict.fromkeys(LIABILITIES, "liability"),
    **dict.fromkeys(EQUITY, "equity"),
}
"""The side of the balance sheet on which each state stands."""

STAGES: Final = ("foundation", "value", "actuarial")
"""The adoption path; each stage contains the ones before it."""
