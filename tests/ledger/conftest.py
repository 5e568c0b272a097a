"""One Prometheus with several histories, all small enough to compute by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.histories import HOUR, MIDNIGHT, History, every
from tests.servers import prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_actuary.prometheus import PrometheusClient

DAY = 24 * HOUR
ODD_NAME = 'odd[/red] \\"name'


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    history = History()
    _gap(history)
    _offset(history)
    _changed_interval(history)
    _replicas(history)
    _unbalanced(history)
    _two_currencies(history)
    _foundation_only(history)
    _strange(history)
    _jobs(history)
    folder = tmp_path_factory.mktemp("ledger")
    history.store(folder)
    for start in (MIDNIGHT - 600 * DAY, MIDNIGHT):
        _an_hour_of_years(start).store(folder)
    with prometheus(folder, flags=["--storage.tsdb.retention.time=10y"]) as client:
        yield client


def _gap(history: History) -> None:
    """Two hours from midnight on, without the minutes 45 to 57; a simulated fleet beside it."""
    times = [t for t in every(30, MIDNIGHT, MIDNIGHT + 2 * HOUR) if not 2700 < t - MIDNIGHT <= 3420]
    gpus = {"compute": 2.0, "comm_wait": 0.5, "data_wait": 0.25, "idle_free": 1, "unhealthy": 0.25}
    history.add_ledger({"cluster": "gap"}, times, gpus, price=2)
    history.add_ledger(
        {"cluster": "gap", "source": "simulated"}, times, {"compute": 10.0, "startup": 6.0}, price=3
    )
    for job, value in (("a", 1.5), ("b", 0.5)):
        labels = {"cluster": "gap", "job_id": job, "currency": "USD"}
        history.add("actuary_elastic_budget", labels, times, value)


def _offset(history: History) -> None:
    """An hour at half past five whose samples never stand on a full second."""
    start = MIDNIGHT + 5.5 * HOUR + 7.123
    history.add_ledger(
        {"cluster": "offset"}, every(30, start, start + HOUR), {"compute": 3.0, "other": 1.0}
    )


def _changed_interval(history: History) -> None:
    """One hour every 30 s, the next every 60 s."""
    middle = MIDNIGHT + 11 * HOUR
    times = every(30, middle - HOUR, middle) + every(60, middle, middle + HOUR)
    history.add_ledger({"cluster": "changed"}, times, {"compute": 1.0})


def _replicas(history: History) -> None:
    times = every(30, MIDNIGHT, MIDNIGHT + HOUR)
    for replica in ("one", "two"):
        seen = times if replica == "one" else times[:100]
        labels = {"cluster": "replicas", "replica": replica}
        history.add_ledger(labels, seen, {"compute": 4.0, "comm_wait": 4.0})


def _unbalanced(history: History) -> None:
    times = every(30, MIDNIGHT, MIDNIGHT + HOUR)
    history.add_ledger({"cluster": "unbalanced"}, times, {"compute": 7.0}, inventory=8)


def _two_currencies(history: History) -> None:
    """The price list changed from dollars to euros after half of the hour."""
    half = MIDNIGHT + HOUR / 2
    gpus = {"compute": 2.0, "comm_wait": 2.0}
    labels = {"cluster": "currencies"}
    history.add_ledger(labels, every(30, MIDNIGHT, half), gpus, price=1)
    history.add_ledger(labels, every(30, half, half + HOUR / 2), gpus, price=2, currency="EUR")


def _an_hour_of_years(start: float) -> History:
    """Of a history so long that one file of it would take promtool minutes to sort."""
    history = History()
    history.add_ledger(
        {"cluster": "years"}, every(60, start, start + HOUR), {"compute": 1.0, "other": 1.0}
    )
    return history


def _foundation_only(history: History) -> None:
    times = every(30, MIDNIGHT, MIDNIGHT + HOUR)
    history.add("cluster:inventory_gpus:count", {"cluster": "foundation"}, times, 8)


def _strange(history: History) -> None:
    times = every(30, MIDNIGHT, MIDNIGHT + HOUR)
    history.add_ledger({"cluster": "newer"}, times, {"compute": 1.0, "dreaming": 1.0})
    history.add_ledger({"cluster": "nan"}, times, {"compute": float("nan")}, inventory=1)
    history.add_ledger({"cluster": ODD_NAME}, times, {"compute": 1})


def _jobs(history: History) -> None:
    """`full` runs for an hour and reports all, `bare` for half of it and reports little."""
    hour = every(30, MIDNIGHT, MIDNIGHT + HOUR)
    first_half, second_half = hour[:60], hour[60:]
    history.add_ledger({"cluster": "jobs"}, hour, {"compute": 4.0, "comm_wait": 4.0}, price=2)
    full = {"cluster": "jobs", "job_id": "full"}
    for state, gpus in (("compute", 3.0), ("comm_wait", 0.25), ("data_wait", 0.75)):
        history.add("job:ledger_gpus:rate", {**full, "state": state}, hour, gpus)
    history.add("job:cost:money_per_hour", {**full, "currency": "USD"}, hour, 8)
    # Ratios of sums: 4 of 8 seconds in the first half, none of 24 in the second.
    for times, iteration, exposed, wait in ((first_half, 8, 4, 2), (second_half, 24, 0, 2)):
        history.add("job:iteration_time:rate", full, times, iteration)
        history.add("job:comm_exposed_time:rate", full, times, exposed)
        # A rank measures no communication: it is in the iteration time only.
        history.add("job:comm_iteration_time:rate", full, times, iteration / 2)
        history.add("job:data_wait_time:rate", full, times, wait)
        history.add("job:model_flops:rate", full, times, iteration * 100)
        history.add("job:peak_flops:sum", full, times, 4000)
        history.add("job:roi:ratio", full, times, iteration)
        history.add("job:loss:avg", full, times, 1 / iteration)
        history.add("job:quality_accuracy:ratio", full, times, 0.5 + iteration / 100)
        history.add("job:quality:ratio", full, times, iteration / 100)
    bare = {"cluster": "jobs", "job_id": "bare"}
    history.add("job:ledger_gpus:rate", {**bare, "state": "compute"}, first_half, 2.0)
