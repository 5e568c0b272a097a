"""Panels about the ledger that more than one dashboard shows."""

from __future__ import annotations

from typing import Any, Final

from . import panels as p
from . import states
from .queries import CLUSTER, by, select

BOTTOM_TO_TOP: Final = ("equity", "liability")
"""Grafana stacks in the order of the queries: what was earned below, what was lost on top of it."""


def simulated_gpus() -> Any:
    """The note that says whether, and where, a page holds simulated data."""
    return p.stat(
        "Simulated GPUs on this page",
        "GPUs on this page that exist only in a simulator, by cluster. None is good in production. "
        "When there are some, choose Real above before you quote a number.",
        p.Query(
            select("cluster:inventory_gpus:count", 'source="simulated"'), "{{cluster}} SIMULATED"
        ),
        "none",
        colour="orange",
        background=True,
        no_value="None",
    )


def gpus_by_state() -> Any:
    """The present split of the GPUs over time, stacked."""
    return p.time_series(
        "GPUs by what they do",
        "Every GPU is in exactly one state at each moment; the layers sum to the inventory. Green "
        "is proven work, blue is free, purple is busy but unproven, yellow to red is lost. Good is "
        "green to the top. Start with the widest layer that is not green, and compare the moment "
        "it grew with deployments and alerts.",
        [
            p.Query(
                by(
                    "sum",
                    (*CLUSTER, "state"),
                    select("cluster:ledger_gpus:rate", f'side="{side}"'),
                ),
                states.LEGEND,
            )
            for side in BOTTOM_TO_TOP
        ],
        "short",
        stacked=True,
        overrides=states.overrides(),
    )


def cost_by_state() -> Any:
    """The present cost of each state over time, stacked."""
    return p.time_series(
        "Cost per hour by what the GPUs do",
        "The same states in money per hour, in the currency named in the legend. Good is most of "
        "the money in green. The widest layer that is not green costs most: act on it first.",
        [
            p.Query(
                by(
                    "sum",
                    (*CLUSTER, "state", "currency"),
                    select("cluster:ledger_cost:money_per_hour", f'side="{side}"'),
                ),
                states.MONEY_LEGEND,
            )
            for side in BOTTOM_TO_TOP
        ],
        "short",
        stacked=True,
        overrides=states.overrides(money=True),
    )
