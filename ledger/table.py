"""The statement as tables for a terminal; rounded rows add up to the printed totals."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gpu_actuary.catalogue.vocabulary import EQUITY, LIABILITIES

from .period import duration, iso
from .rounding import decimals_for, round_to_sum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from gpu_actuary.formulas.balance import BalanceSheet

    from .statement import Job, Sheet, Statement

MISSING = "–"
NAMES = {
    "comm_wait": "waiting for communication",
    "data_wait": "waiting for data",
    "checkpoint": "writing checkpoints",
    "startup": "starting up",
    "recompute": "doing lost steps again",
    "other": "other time of training",
    "idle_allocated": "allocated and idle",
    "unhealthy": "vanished or condemned",
    "compute": "computing",
    "evaluation": "evaluating",
    "idle_free": "free",
    "uninstrumented": "busy without reports",
}


def print_statement(console: Console, statement: Statement, *, jobs_shown: int) -> None:
    """Print every sheet with its jobs, ``jobs_shown`` at most, and what the numbers rest on."""
    for sheet in statement.sheets:
        console.print(_heading(statement, sheet))
        console.print(_balance_table(sheet))
        console.print(_below_the_line(statement, sheet))
        if sheet.jobs:
            console.print(_job_table(sheet, jobs_shown))
        rest = sheet.jobs[jobs_shown:]
        if rest:
            hours = sum(job.gpu_hours for job in rest)
            console.print(f"and {len(rest)} smaller jobs with {hours:.2f} GPU-hours (--jobs)")
        console.print()
    console.print(_assumptions(statement))


def _heading(statement: Statement, sheet: Sheet) -> Text:
    title = Text(f"\nBalance sheet of compute: cluster {sheet.cluster or '(no name)'}", "bold")
    if sheet.simulated:
        title.append("  SIMULATED, no real hardware", "bold magenta")
    elif sheet.source:
        title.append(f"  source {sheet.source}", "bold magenta")
    period = statement.period
    return title.append(f"\n{iso(round(period.since))} to {iso(round(period.until))}", "not bold")


def _rounded(balance: BalanceSheet, decimals: int) -> dict[str, Decimal]:
    """Rows by state and ``residual``, which together sum to the rounded assets."""
    rows = {**balance.liabilities, **balance.equity, "residual": balance.residual}
    return dict(zip(rows, round_to_sum(list(rows.values()), decimals), strict=True))


def _percent(balance: BalanceSheet) -> dict[str, Decimal] | None:
    if not balance.assets > 0:
        return None
    rows = {**balance.liabilities, **balance.equity, "residual": balance.residual}
    shares = [100 * value / balance.assets for value in rows.values()]
    return dict(zip(rows, round_to_sum(shares, 1), strict=True))


def _balance_table(sheet: Sheet) -> Table:
    columns = [_rounded(sheet.gpu_hours, decimals_for(sheet.gpu_hours.assets))]
    table = Table(pad_edge=False, header_style="bold")
    table.add_column("", min_width=36)
    table.add_column("GPU-hours", justify="right", no_wrap=True)
    for currency, balance in sheet.money.items():
        table.add_column(escape(currency), justify="right", no_wrap=True)
        columns.append(_rounded(balance, decimals_for(balance.assets)))
    table.add_column("% of assets", justify="right", no_wrap=True)
    percent = _percent(sheet.gpu_hours)

    def add(title: str, states: tuple[str, ...], style: str = "") -> None:
        cells = [f"{sum((c[s] for s in states), Decimal(0)):,f}" for c in columns]
        share = MISSING if percent is None else f"{sum((percent[s] for s in states), Decimal(0))}"
        table.add_row(title, *cells, share, style=style)

    everything = (*LIABILITIES, *EQUITY, "residual")
    add("Assets: all supplied hours", everything, "bold")
    table.add_section()
    for state in LIABILITIES:
        add(f"  {NAMES[state]}", (state,))
    add("Liabilities", LIABILITIES, "bold red")
    table.add_section()
    for state, kind in EQUITY.items():
        add(f"  {NAMES[state]} ({kind})", (state,))
    add("Equity", tuple(EQUITY), "bold green")
    table.add_section()
    add("Residual", ("residual",))
    return table


def _below_the_line(statement: Statement, sheet: Sheet) -> str:
    budgets = ", ".join(
        f"{value:.{decimals_for(value, digits=3)}f} {escape(currency)}"
        for currency, value in sorted(sheet.elastic_budget.items())
    )
    lines = [
        "Below the line",
        f"  contingent liability (elastic budgets at the end): {budgets or MISSING}",
        f"  coverage: {100 * sheet.coverage:.1f} % of the period has data "
        f"({sheet.samples} samples of {sheet.interval_seconds:g} s)",
    ]
    missing = statement.period.seconds * (1 - sheet.coverage)
    if missing > 2 * sheet.interval_seconds:
        lines.append(
            f"  [yellow]{duration(missing)} of the period have no data; "
            "they are not in this statement, nothing is extrapolated[/yellow]"
        )
    return "\n".join(lines)


def _job_table(sheet: Sheet, shown: int) -> Table:
    table = Table(pad_edge=False, header_style="bold", title="Jobs", title_justify="left")
    table.add_column("job", overflow="fold")
    for column in ("GPU-hours", *map(escape, sheet.money), "largest waste"):
        table.add_column(column, justify="right")
    for column in ("η", "data wait", "loss", "accuracy", "quality", "MFU", "ROI"):
        table.add_column(column, justify="right", no_wrap=True)
    decimals = decimals_for(sheet.gpu_hours.assets)
    for job in sheet.jobs[:shown]:
        table.add_row(*_job_cells(job, tuple(sheet.money), decimals))
    return table


def _job_cells(job: Job, currencies: tuple[str, ...], decimals: int) -> Iterator[str]:
    yield escape(job.job_id)
    yield f"{job.gpu_hours:,.{decimals}f}"
    for currency in currencies:
        cost = job.cost.get(currency)
        yield MISSING if cost is None else f"{cost:,.{decimals_for(cost, digits=3)}f}"
    waste = job.largest_waste
    yield MISSING if waste is None else f"{waste[0]} {100 * waste[1]:.1f} %"
    yield _figure(job.communication_efficiency, ".3f")
    yield MISSING if job.data_wait is None else f"{100 * job.data_wait:.1f} %"
    yield _figure(job.loss, ".4g")
    yield _figure(job.accuracy, ".3f")
    yield _figure(job.quality, ".3f")
    yield MISSING if job.mfu is None else f"{100 * job.mfu:.1f} %"
    yield _figure(job.roi, ".4g")


def _figure(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def _assumptions(statement: Statement) -> str:
    assumed = sum(sheet.gpus_with_assumed_power for sheet in statement.sheets)
    lines = [
        "What the numbers rest on",
        f"  Samples recorded by the rules in {escape(statement.url)}, each counted for the time it stands for.",
        "  Money: prices of the Economics spec that was in force when each sample was recorded "
        "(actuary explain Economics/default);",
        "  assets, in GPU-hours and in money, are the inventory's, apart from the states below them.",
        "  Jobs: hours that their ranks reported, cost of the GPUs that they held; η, data wait and "
        "MFU over the period;",
        "  loss, accuracy and quality at its end; ROI is the mean of the samples.",
    ]
    if assumed:
        lines.append(
            f"  Power of {assumed} devices is not measured but assumed; energy cost and ROI rest on it."
        )
    return "\n".join(lines)
