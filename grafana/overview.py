"""The overview: the catalogue's core metrics, and no others, for a reader with two minutes."""

from __future__ import annotations

from typing import Any

from . import ledger_panels, variables
from . import panels as p
from .frame import dashboard
from .layout import Page
from .queries import CLUSTER, JOB, by, per_job, select
from .tables import JOB_LABELS, Column, table

PROVEN = 'state=~"compute|evaluation"'

NOTE = """\
**What do the GPUs cost, what do they do, what do the jobs get out of it?** Read from the top. \
Hover over the **i** of a panel to see what it means, what is good and what to do.

*Missing is missing*: "No data" or a gap says that nothing was measured; it is never a zero. \
Simulated data is marked **SIMULATED** or *simulated* wherever it appears; choose *Real* above to \
leave it out. Money is in the currency named beside it."""


def overview() -> Any:
    """Build the dashboard."""
    page = Page()
    page.add(
        p.text("How to read this page", "What this page is for and how it marks its data.", NOTE),
        width=20,
        height=4,
    )
    page.add(ledger_panels.simulated_gpus(), width=4, height=4)
    _fleet(page)
    _time_and_money(page)
    _efficiency(page)
    _jobs(page)
    _trust(page)
    return dashboard(
        "gpu-actuary-overview",
        "Overview",
        "The core metrics of GPU Actuary: supply, use, cost, efficiency, value and risk.",
        page.panels,
        variables.shared(),
        since="now-6h",
    )


def _fleet(page: Page) -> None:
    page.row("What do we have, and is it at work?")
    page.add(
        p.stat(
            "GPUs",
            "GPUs of the inventory: declared, or seen in the last 7 days. Good is the number that "
            "you pay for. If it is lower, look for nodes without an exporter.",
            p.Query(select("cluster:inventory_gpus:count"), "{{cluster}} {{source}}"),
            "none",
        ),
        width=5,
        height=5,
    )
    page.add(
        p.stat(
            "Share of GPU time that is proven work",
            "GPU time that went into computing and evaluating, as a share of all GPU time supplied "
            "now. Higher is better. What is missing to 100 % is in the ledger below.",
            p.Query(
                f"{by('sum', CLUSTER, select('cluster:ledger_gpus:rate', PROVEN))}"
                f" / ({by('sum', CLUSTER, select('cluster:ledger_gpus:rate'))} > 0)",
                "{{cluster}} {{source}}",
            ),
            "percentunit",
            colour="green",
            decimals=1,
        ),
        width=5,
        height=5,
    )
    page.add(
        p.stat(
            "Cost per hour",
            "What the GPUs cost per hour now, price and energy, in the currency shown. Whether "
            "that is good depends on what the jobs below make of it.",
            p.Query(
                by(
                    "sum",
                    (*CLUSTER, "currency"),
                    select("cluster:ledger_cost:money_per_hour"),
                ),
                "{{currency}}, {{cluster}} {{source}}",
            ),
            "short",
            decimals=2,
        ),
        width=5,
        height=5,
    )
    page.add(
        p.stat(
            "Power",
            "Board power of all GPUs, each counted once. Good is power that follows the work; high "
            "power with little proven work is energy wasted.",
            p.Query(select("cluster:power:watts"), "{{cluster}} {{source}}"),
            "watt",
        ),
        width=5,
        height=5,
    )
    page.add(
        p.stat(
            "GPU utilisation",
            "Share of time in which something ran on the GPU, mean over the GPUs that report it. "
            "High is good but proves little: a GPU that waits inside a kernel counts as busy. Compare "
            "with proven work and MFU before you call it well used.",
            p.Query(select("cluster:utilization:ratio"), "{{cluster}} {{source}}"),
            "percentunit",
            decimals=1,
        ),
        width=4,
        height=5,
    )


def _time_and_money(page: Page) -> None:
    page.row("Where do time and money go? Cluster $cluster", repeat="cluster")
    page.add(ledger_panels.gpus_by_state(), width=12, height=10)
    page.add(ledger_panels.cost_by_state(), width=12, height=10)


def _efficiency(page: Page) -> None:
    page.row("How efficient is the training?")
    for title, description, name in (
        (
            "Model FLOPs utilisation (MFU)",
            "Floating-point operations of the models ÷ what the GPUs could do at their peak, over "
            "jobs whose peak is known. Higher is better; compare with your own best run. When it "
            "falls, look at the waits beside it first.",
            "cluster:mfu:ratio",
        ),
        (
            "Communication efficiency (η)",
            "1 − time in which ranks waited for communication ÷ iteration time. Near 100 % is "
            "good. When it falls, look for a slow link or a slow rank, or overlap communication "
            "with computing.",
            "cluster:communication_efficiency:ratio",
        ),
        (
            "Wait for data",
            "Share of iteration time in which GPUs waited for the input pipeline. Near 0 is good. "
            "When it rises, add loader workers, move the data closer, or simplify augmentation.",
            "cluster:data_wait:ratio",
        ),
    ):
        page.add(
            p.time_series(
                title,
                description,
                [p.Query(select(name), "{{cluster}} {{source}}")],
                "percentunit",
                maximum=None if name == "cluster:data_wait:ratio" else 1,
            ),
            width=8,
            height=7,
        )


def _jobs(page: Page) -> None:
    page.row("What does each job earn, and what is at risk?")
    page.add(_job_table(), width=24, height=9)
    for title, description, query, unit, minimum in (
        (
            "Training loss",
            "Loss of the last steps, mean over the ranks. Good is a steady fall. A jump or a "
            "flat line while cost runs on is the moment to look into the job.",
            p.Query(by("avg", JOB, select("actuary_loss")), "{{job_id}} {{source}}"),
            "none",
            None,
        ),
        (
            "Convergence speed",
            "How fast the loss falls: −d ln(loss)/dt per hour, 0 when it rises. Higher is better; "
            "it becomes smaller late in a training. Near 0 for hours: consider stopping.",
            p.Query(select("job:convergence:per_hour"), "{{job_id}} {{source}}"),
            "none",
            0,
        ),
        (
            "Return on compute (ROI)",
            "Quality × convergence speed ÷ (GPUs × energy cost per hour). Higher is better; compare "
            "a job with its own past and with similar jobs, not across currencies.",
            p.Query(select("job:roi:ratio"), "{{job_id}} {{source}}"),
            "short",
            0,
        ),
        (
            "Probability of an interruption",
            "Probability that a GPU failure interrupts the job within the horizon named in the "
            "legend. Low is good. When it rises, checkpoint more often or move the job.",
            p.Query(
                per_job("actuary_job_failure_probability", "horizon"),
                "{{job_id}} within {{horizon}} {{source}}",
            ),
            "percentunit",
            0,
        ),
        (
            "Age of the last checkpoint",
            "Time since the job's last durable checkpoint: the work that an interruption would "
            "destroy. Good is a saw-tooth that returns to 0. A line that only rises: checkpoints "
            "fail or are switched off.",
            p.Query(select("job:checkpoint_age:seconds"), "{{job_id}} {{source}}"),
            "s",
            0,
        ),
        (
            "Elastic budget",
            "Money to hold back for an interruption: probability × loss × recovery coefficient, in "
            "the currency named in the legend. Low is good. It falls with fresher checkpoints and "
            "healthier GPUs.",
            p.Query(
                per_job("actuary_elastic_budget", "currency"),
                "{{job_id}} in {{currency}} {{source}}",
            ),
            "short",
            0,
        ),
    ):
        page.add(
            p.time_series(title, description, [query], unit, minimum=minimum), width=8, height=7
        )


def _job_table() -> Any:
    return table(
        "Jobs now",
        "One row per running job: size, efficiency, value, cost and risk. Good is a high MFU and "
        "ROI at a low checkpoint age. An empty cell says that the job does not report it: quality "
        "needs an evaluation, MFU a known peak, risk the predictor.",
        JOB_LABELS,
        [
            Column("Ranks up", per_job("job:ranks:count"), "none"),
            Column("MFU", per_job("job:mfu:ratio"), "percentunit", 1),
            Column("Quality", per_job("job:quality:ratio"), "percentunit", 1),
            Column("Convergence/h", per_job("job:convergence:per_hour"), "none", 3),
            Column("ROI", per_job("job:roi:ratio"), "short"),
            Column("Cost per hour", per_job("job:cost:money_per_hour", "currency"), "short", 2),
            Column("Checkpoint age", per_job("job:checkpoint_age:seconds"), "s", 0),
            Column(
                "Interruption risk",
                per_job("actuary_job_failure_probability", "horizon"),
                "percentunit",
                2,
            ),
            Column("Elastic budget", per_job("actuary_elastic_budget", "currency"), "short", 2),
        ],
        sort_by="Cost per hour",
    )


def _trust(page: Page) -> None:
    page.row("Can these numbers be trusted?")
    page.add(
        p.stat(
            "Exporters that answer",
            "Share of the scrape targets of GPU Actuary and DCGM that answer. 100 % is good. Below "
            "that, every number on this page misses a part: look at Prometheus's target page.",
            p.Query(select("cluster:scrape_up:ratio"), "{{cluster}} {{source}}"),
            "percentunit",
            steps=(("red", None), ("orange", 0.9), ("green", 1)),
            decimals=1,
        ),
        width=12,
        height=5,
    )
    page.add(
        p.stat(
            "Ledger residual",
            "Size of (inventory − sum of the ledger) ÷ inventory. It must be 0 within 0.1 %. If "
            "not, some GPU time is in no state or in two: treat the balance sheet as wrong and "
            "look at the health of the rules.",
            p.Query(f"abs({select('cluster:ledger_residual:ratio')})", "{{cluster}} {{source}}"),
            "percentunit",
            steps=(("green", None), ("red", 0.001)),
            decimals=3,
        ),
        width=12,
        height=5,
    )
