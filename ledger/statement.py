"""The statement of a period: one balance sheet for each cluster and source, and its jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_actuary.catalogue.vocabulary import LIABILITIES
from gpu_actuary.errors import ActuaryError
from gpu_actuary.formulas.balance import BalanceSheet, balance_sheet
from gpu_actuary.formulas.efficiency import communication_efficiency, mfu

from .integration import Ledger, selector
from .timeline import build_timeline, interval_of, proven_interval, read_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_actuary.prometheus import PrometheusClient

    from .integration import Key
    from .period import Period

SECONDS_PER_HOUR = 3600.0
INVENTORY = "cluster:inventory_gpus:count"
LEDGER = "cluster:ledger_gpus:rate"
COST = "cluster:ledger_cost:money_per_hour"
INVENTORY_COST = "cluster:inventory_cost:money_per_hour"


@dataclass(frozen=True, slots=True)
class Job:
    """One job in the period. What was not recorded is None, never 0."""

    job_id: str
    gpu_hours_by_state: dict[str, float]
    cost: dict[str, float]
    """Money by currency."""
    communication_efficiency: float | None
    data_wait: float | None
    loss: float | None
    accuracy: float | None
    quality: float | None
    mfu: float | None
    roi: float | None

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that the job's ranks reported."""
        return sum(self.gpu_hours_by_state.values())

    @property
    def largest_waste(self) -> tuple[str, float] | None:
        """The liability state with the most GPU-hours, and its share of the job's hours."""
        waste = {s: h for s, h in self.gpu_hours_by_state.items() if s in LIABILITIES and h > 0}
        if not waste:
            return None
        state = max(waste, key=lambda name: waste[name])
        return state, waste[state] / self.gpu_hours


@dataclass(frozen=True, slots=True)
class Sheet:
    """The balance sheet of one cluster and source."""

    cluster: str
    source: str
    interval_seconds: float
    samples: int
    coverage: float
    """Share 0..1 of the period that samples stand for."""
    gpu_hours: BalanceSheet
    money: dict[str, BalanceSheet]
    """By currency."""
    elastic_budget: dict[str, float]
    """By currency, summed over the jobs at the end of the period; empty when nothing is known."""
    gpus_with_assumed_power: int
    jobs: tuple[Job, ...]

    @property
    def simulated(self) -> bool:
        """Whether the numbers come from a simulator."""
        return self.source == "simulated"


@dataclass(frozen=True, slots=True)
class Statement:
    """All sheets of one period."""

    url: str
    period: Period
    sheets: tuple[Sheet, ...]


def read_statement(
    client: PrometheusClient,
    period: Period,
    clusters: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Statement:
    """Read the ledger of the period from Prometheus.

    ``clusters`` limits it to these; all that have data otherwise. ``progress`` is told what is
    being read. Raises :class:`ActuaryError` when there is no data, and the client's errors.
    """
    progress("clusters")
    found = _find_ledgers(client, period)
    missing = sorted(set(clusters) - {cluster for cluster, _ in found})
    if missing or not found:
        raise ActuaryError(_no_data(client.url, period, missing, found))
    sheets = []
    for cluster, source in found:
        if not clusters or cluster in clusters:
            progress(f"{cluster or 'cluster without name'} {source}".rstrip())
            sheets.append(_read_sheet(client, period, cluster, source))
    return Statement(client.url, period, tuple(sheets))


def _find_ledgers(client: PrometheusClient, period: Period) -> list[tuple[str, str]]:
    width = round(period.seconds * 1000)
    samples = client.query(
        f"group by (cluster, source) (count_over_time({INVENTORY}[{width}ms]))", at=period.until
    )
    return sorted((s.labels.get("cluster", ""), s.labels.get("source", "")) for s in samples)


def _no_data(
    url: str, period: Period, missing: Sequence[str], found: Sequence[tuple[str, str]]
) -> str:
    span = f"in the {period.seconds:g} s of the period"
    if not found:
        return (
            f"{url} has no samples of {INVENTORY} {span}. Are the rules of GPU Actuary loaded "
            "there, and is anything scraped? Rules record nothing for the time before they ran."
        )
    known = ", ".join(sorted({repr(cluster) for cluster, _ in found}))
    wanted = ", ".join(map(repr, missing))
    return f"{url} has no ledger of the cluster {wanted} {span}; it has {known}"


def _read_sheet(client: PrometheusClient, period: Period, cluster: str, source: str) -> Sheet:
    name = f"the ledger of cluster {cluster!r}" + (f", source {source!r}," if source else "")
    times = read_times(client, selector(INVENTORY, cluster=cluster, source=source), period)
    interval = proven_interval(times) or interval_of(client, INVENTORY)
    if interval is None:
        raise ActuaryError(
            f"{name} has too few samples in the period ({len(times)}) to tell how long each stands "
            f"for, and {client.url} does not evaluate the rule itself: choose a longer period"
        )
    timeline = build_timeline(times, period, interval)
    if not timeline.windows:
        raise ActuaryError(
            f"{name} has no sample that stands for time inside the period alone; one sample "
            f"stands for {interval:g} s: choose a longer period"
        )
    ledger = Ledger(client, cluster, source, timeline)
    assets = ledger.integrate(INVENTORY, ("cluster",))
    states = ledger.integrate(LEDGER, ("state",))
    if not states:
        raise ActuaryError(
            f"{name} has an inventory but no {LEDGER} in the period: "
            "load the rules of the stage actuarial"
        )
    return Sheet(
        cluster=cluster,
        source=source,
        interval_seconds=interval,
        samples=timeline.samples,
        coverage=min(timeline.covered_seconds / period.seconds, 1.0),
        gpu_hours=_balance(name, _hours(states), sum(_hours(assets).values())),
        money=_money(name, ledger),
        elastic_budget=_elastic_budget(ledger),
        gpus_with_assumed_power=_assumed_power(ledger),
        jobs=_read_jobs(ledger),
    )


def _hours(totals: Mapping[Key, float]) -> dict[str, float]:
    return {key[0]: value / SECONDS_PER_HOUR for key, value in totals.items()}


def _balance(name: str, by_state: Mapping[str, float], assets: float) -> BalanceSheet:
    if not all(map(math.isfinite, (*by_state.values(), assets))):
        raise ActuaryError(f"{name} holds NaN or infinity: a rule of the ledger was changed")
    try:
        return balance_sheet(by_state, assets)
    except ValueError as error:
        raise ActuaryError(f"{name} was recorded by another version: {error}") from error


def _money(name: str, ledger: Ledger) -> dict[str, BalanceSheet]:
    by_currency: dict[str, dict[str, float]] = {}
    for (state, currency), value in ledger.integrate(COST, ("state", "currency")).items():
        by_currency.setdefault(currency, {})[state] = value / SECONDS_PER_HOUR
    assets = ledger.integrate(INVENTORY_COST, ("currency",))
    return {
        currency: _balance(name, by_state, assets.get((currency,), 0.0) / SECONDS_PER_HOUR)
        for currency, by_state in sorted(by_currency.items())
    }


def _elastic_budget(ledger: Ledger) -> dict[str, float]:
    budgets = ledger.at_end(
        f"sum by (currency) (max by (job_id, currency) "
        f"({ledger.selector('actuary_elastic_budget')}))",
        ("currency",),
    )
    return {currency: value for (currency,), value in budgets.items() if math.isfinite(value)}


def _assumed_power(ledger: Ledger) -> int:
    assumed = ledger.selector("gpu:power:watts", method="assumed")
    counts = ledger.at_end(f"count(group by (node, gpu_uuid) ({assumed}))", ())
    return int(sum(counts.values()))


def _read_jobs(ledger: Ledger) -> tuple[Job, ...]:
    hours: dict[str, dict[str, float]] = {}
    for (job, state), value in ledger.integrate(
        "job:ledger_gpus:rate", ("job_id", "state")
    ).items():
        if value > 0:
            hours.setdefault(job, {})[state] = value / SECONDS_PER_HOUR
    cost: dict[str, dict[str, float]] = {}
    for (job, currency), value in ledger.integrate(
        "job:cost:money_per_hour", ("job_id", "currency")
    ).items():
        cost.setdefault(job, {})[currency] = value / SECONDS_PER_HOUR

    def over_period(name: str) -> dict[str, float]:
        return _by_job(ledger.integrate(name, ("job_id",)))

    def latest(name: str) -> dict[str, float]:
        return _by_job(ledger.last(name, ("job_id",)))

    iteration = over_period("job:iteration_time:rate")
    exposed = over_period("job:comm_exposed_time:rate")
    measured = over_period("job:comm_iteration_time:rate")
    data_wait = over_period("job:data_wait_time:rate")
    flops, peak = over_period("job:model_flops:rate"), over_period("job:peak_flops:sum")
    loss, quality = latest("job:loss:avg"), latest("job:quality:ratio")
    accuracy = latest("job:quality_accuracy:ratio")
    roi = _by_job(ledger.mean("job:roi:ratio", ("job_id",)))
    jobs = [
        Job(
            job_id=job,
            gpu_hours_by_state=hours[job],
            cost=cost.get(job, {}),
            communication_efficiency=_ratio(
                communication_efficiency, exposed.get(job), measured.get(job)
            ),
            data_wait=_ratio(_share, data_wait.get(job), iteration.get(job)),
            loss=loss.get(job),
            accuracy=accuracy.get(job),
            quality=quality.get(job),
            mfu=_ratio(mfu, flops.get(job), peak.get(job)),
            roi=roi.get(job),
        )
        for job in hours
    ]
    return tuple(sorted(jobs, key=lambda job: (-job.gpu_hours, job.job_id)))


def _by_job(values: Mapping[Key, float]) -> dict[str, float]:
    return {job: value for (job,), value in values.items() if math.isfinite(value)}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 and 0 <= part <= whole else None


def _ratio(
    formula: Callable[[float, float], float | None], part: float | None, whole: float | None
) -> float | None:
    return None if part is None or whole is None else formula(part, whole)
