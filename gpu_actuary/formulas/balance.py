"""The compute ledger and its balance sheet (design formula 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_actuary.catalogue.vocabulary import EQUITY, LIABILITIES, REPORTED_STATES, STATES

if TYPE_CHECKING:
    from collections.abc import Mapping


def ledger_shares(
    reported_phases: Mapping[str, float],
    *,
    present: bool,
    condemned: bool = False,
    busy: bool = False,
    allocated: bool = False,
) -> dict[str, float]:
    """Split one GPU's second over the ledger states; the shares sum to 1.

    ``reported_phases`` holds seconds per second by phase, summed over the ranks on this GPU. Ranks
    that share a GPU report more than one second together and are scaled to it. What no rank
    reports goes to one state: ``unhealthy`` when the GPU is expected but not ``present``;
    ``uninstrumented`` when it is ``busy`` and no rank reports at all; else idle, allocated or
    free. A ``condemned`` GPU is unhealthy whatever it reports.

    Only states with a share are in the result. Raises ``KeyError`` for an unknown phase.
    """
    if condemned:
        return {"unhealthy": 1.0}
    state_of = {phase: state for state, phases in REPORTED_STATES.items() for phase in phases}
    reported: dict[str, float] = {}
    for phase, seconds in reported_phases.items():
        state = state_of[phase]
        reported[state] = reported.get(state, 0.0) + seconds
    total = sum(reported.values())
    scaled = {state: seconds / max(total, 1.0) for state, seconds in reported.items()}
    # After the division, in which the smallest of numbers become 0.
    shares = {state: share for state, share in scaled.items() if share > 0}
    remainder = 1.0 - min(total, 1.0)
    if remainder > 0:
        if not present:
            state = "unhealthy"
        elif busy and total == 0:
            state = "uninstrumented"
        elif allocated:
            state = "idle_allocated"
        else:
            state = "idle_free"
        shares[state] = shares.get(state, 0.0) + remainder
    return shares


@dataclass(frozen=True, slots=True)
class BalanceSheet:
    """Assets, liabilities and equity of one period in one unit (GPU-hours or money)."""

    liabilities: dict[str, float]
    equity: dict[str, float]
    assets: float

    @property
    def total_liabilities(self) -> float:
        """Supplied compute that produced nothing."""
        return sum(self.liabilities.values())

    @property
    def total_equity(self) -> float:
        """Supplied compute that produced something, or still could."""
        return sum(self.equity.values())

    @property
    def residual(self) -> float:
        """Assets − liabilities − equity; 0 in a ledger that balances."""
        return self.assets - self.total_liabilities - self.total_equity


def balance_sheet(by_state: Mapping[str, float], assets: float) -> BalanceSheet:
    """Sort ledger totals (one unit, one period) onto the two sides.

    ``assets`` comes from the inventory, independently of ``by_state``, so that the residual proves
    something. Raises ``ValueError`` for a state that the ledger does not know.
    """
    unknown = set(by_state) - set(STATES)
    if unknown:
        raise ValueError(f"unknown ledger states: {', '.join(sorted(unknown))}")
    return BalanceSheet(
        liabilities={state: by_state.get(state, 0.0) for state in LIABILITIES},
        equity={state: by_state.get(state, 0.0) for state in EQUITY},
        assets=assets,
    )
