"""The compute balance sheet: supplied GPU-hours, what was lost, what they turned into."""

from __future__ import annotations

from typing import Any

from gpu_actuary.catalogue.vocabulary import EQUITY

from . import ledger_panels, states, variables
from . import panels as p
from .frame import dashboard
from .layout import Page
from .queries import CLUSTER, balance, by, per_job, select, select_whole_cluster
from .tables import JOB_LABELS, SOURCE, Column, Label, table

NOTE = """\
**Assets = liabilities + equity**, one sheet per cluster, over the *period* chosen above (it ends \
at the end of the time range). **Assets** are all GPU-hours that the inventory supplied. \
**Liabilities** are hours lost to waiting, saving, starting, repeating, idling while held, and \
broken GPUs. **Equity** is the rest, of three kinds: *proven* (computing, evaluating), *available* \
(idle and free), *unproven* (busy, but nobody reports on it). **Contingent liabilities** stand \
below the line: money to hold back for interruptions that may come.

Look at *coverage* first: below 100 % the period has gaps, and the sheet counts only what was \
measured. Periods longer than an hour are summed from whole hours: they lag by up to an hour and \
begin with the first. Simulated data is marked **SIMULATED** or *simulated*."""

EQUITY_KINDS: dict[str, tuple[str, str]] = {
    "proven": (
        "green",
        "went into computing and evaluating. Higher is better; it is what the money is for.",
    ),
    "available": (
        "blue",
        "was idle and free. A little is a good reserve; much of it for days is capacity to fill, to "
        "sell or to return.",
    ),
    "unproven": (
        "purple",
        "was busy, but no training reports on it: serving, notebooks, foreign jobs. Less is better: "
        "instrument those jobs to see whether they are worth their cost.",
    ),
}
STATEMENT_LABELS = (
    SOURCE,
    Label("side", "Side", 9, {"liability": ("Liability", "orange"), "equity": ("Equity", "green")}),
    Label("state", "State", None, states.TABLE_WORDS),
    Label("currency", "Currency", 8),
)


def balance_sheet() -> Any:
    """Build the dashboard."""
    page = Page()
    page.add(
        p.text(
            "How to read the balance sheet", "The terms of the sheet and how it is built.", NOTE
        ),
        width=20,
        height=5,
    )
    page.add(ledger_panels.simulated_gpus(), width=4, height=5)
    page.row("Balance sheet of $cluster over ${window:text}", repeat="cluster")
    _summary(page, "gpu_hours", "GPU-hours", CLUSTER, "{{cluster}} {{source}}")
    page.add(_coverage(), width=4, height=4)
    _summary(
        page,
        "money",
        "money",
        (*CLUSTER, "currency"),
        "{{currency}}, {{cluster}} {{source}}",
    )
    page.add(_contingent(), width=4, height=4)
    page.add(_statement(), width=14, height=13)
    page.add(_bars(), width=10, height=13)
    page.add(ledger_panels.gpus_by_state(), width=12, height=10)
    page.add(ledger_panels.cost_by_state(), width=12, height=10)
    page.add(_contingent_by_job(), width=16, height=8)
    page.add(_residual(), width=8, height=8)
    return dashboard(
        "gpu-actuary-balance-sheet",
        "Compute balance sheet",
        "Assets, liabilities and equity of each cluster in GPU-hours and in money.",
        page.panels,
        [*variables.shared(), variables.window()],
        since="now-6h",
    )


def _summary(page: Page, what: str, unit: str, labels: tuple[str, ...], legend: str) -> None:
    """Assets, liabilities and the three kinds of equity as one line of numbers."""
    rows: list[tuple[str, str, str, tuple[str, ...]]] = [
        (
            "Assets",
            "text",
            "All that the GPUs of the inventory supplied in the period, worked or not. It must "
            "equal liabilities + equity; judge it against what you pay for.",
            (),
        ),
        (
            "Liabilities",
            "orange",
            "What was lost: waiting, checkpoints, start-up, repeated steps, idling while held, "
            "broken GPUs. Lower is better. The bars below say where to begin.",
            ('side="liability"',),
        ),
    ]
    for kind, (colour, meaning) in EQUITY_KINDS.items():
        members = "|".join(state for state, of in EQUITY.items() if of == kind)
        rows.append(
            (
                f"Equity, {kind}",
                colour,
                f"The part of the assets that {meaning}",
                ('side="equity"', f'state=~"{members}"'),
            )
        )
    for title, colour, description, matchers in rows:
        page.add(
            p.stat(
                f"{title} ({unit})",
                description,
                p.Query(by("sum", labels, balance(what, *matchers)), legend),
                "short",
                colour=colour,
                decimals=2,
            ),
            width=4,
            height=4,
        )


def _coverage() -> Any:
    return p.stat(
        "Coverage of the period",
        "Share of the period for which the ledger has samples. 100 % is good. Below it the sheet "
        "shows only what was measured: choose a shorter period, or find out why rules or targets "
        "stood still. A new installation covers a long period only after that long.",
        p.Query(balance("coverage"), "{{cluster}} {{source}}"),
        "percentunit",
        steps=(("red", None), ("orange", 0.9), ("green", 0.99)),
        decimals=1,
    )


def _contingent() -> Any:
    budget = by(
        "max", (*CLUSTER, "job_id", "currency"), select_whole_cluster("actuary_elastic_budget")
    )
    return p.stat(
        "Contingent liabilities (money)",
        "Sum of the elastic budgets of all jobs of the cluster: what to hold back for "
        "interruptions that may come. It is not part of assets, liabilities or equity. Lower is "
        "better; fresher checkpoints and healthier GPUs lower it.",
        p.Query(by("sum", (*CLUSTER, "currency"), budget), "{{currency}}, {{cluster}} {{source}}"),
        "short",
        colour="red",
        decimals=2,
    )


def _statement() -> Any:
    labels = (*CLUSTER, "side", "state")
    hours = by("sum", labels, balance("gpu_hours"))
    assets = f"({by('sum', CLUSTER, balance('gpu_hours'))} > 0)"
    return table(
        "Statement",
        "Every state with its hours, its share of the assets and its cost. Good is most of the "
        "share on the equity side, under computing. An empty money cell says that no price is set.",
        STATEMENT_LABELS,
        [
            Column("GPU-hours", hours, "short", 2),
            Column(
                "Share of assets",
                f"{hours} / on ({', '.join(CLUSTER)}) group_left () {assets}",
                "percentunit",
                1,
            ),
            Column("Money", by("sum", (*labels, "currency"), balance("money")), "short", 2),
        ],
        hidden=("cluster",),
        sort_by="GPU-hours",
    )


def _bars() -> Any:
    return p.bars(
        "Where the GPU-hours went",
        "GPU-hours of the period by state, largest first. Good is a long green bar on top. The "
        "longest bar in yellow to red is the cheapest place to look for more compute.",
        p.Query(
            f"sort_desc({by('sum', (*CLUSTER, 'state'), balance('gpu_hours'))})", states.LEGEND
        ),
        "short",
        overrides=states.overrides(),
    )


def _contingent_by_job() -> Any:
    return table(
        "Contingent liabilities by job",
        "What an interruption of each job would cost, how probable it is, and the budget that "
        "follows. Good is a small loss: checkpoint the jobs at the top more often, or move them "
        "off the GPUs that are likely to fail. Empty without the predictor.",
        JOB_LABELS,
        [
            Column("Elastic budget", per_job("actuary_elastic_budget", "currency"), "short", 2),
            Column(
                "Loss if interrupted", per_job("actuary_interruption_loss", "currency"), "short", 2
            ),
            Column(
                "Interruption risk",
                per_job("actuary_job_failure_probability", "horizon"),
                "percentunit",
                2,
            ),
        ],
        sort_by="Elastic budget",
    )


def _residual() -> Any:
    return p.time_series(
        "Ledger residual",
        "(Inventory − sum of the ledger) ÷ inventory: time in no state, or in two. It must be 0 "
        "within 0.1 %. If it is not, treat the sheet as wrong and look at the rules' health.",
        [p.Query(select("cluster:ledger_residual:ratio"), "{{cluster}} {{source}}")],
        "percentunit",
        minimum=None,
    )
