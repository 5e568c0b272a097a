from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_actuary.errors import ActuaryError, PrometheusError
from gpu_actuary.ledger.period import Period
from gpu_actuary.ledger.statement import read_statement
from gpu_actuary.prometheus import PrometheusClient
from tests.ledger.histories import HOUR, MIDNIGHT
from tests.servers import free_port, prometheus, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_actuary.ledger.statement import Sheet

DAY = 24 * HOUR


def read(server: PrometheusClient, cluster: str, since: float, until: float) -> Sheet:
    """The only sheet of a cluster."""
    (sheet,) = read_statement(server, Period(since, until), [cluster]).sheets
    return sheet


def test_a_gap_makes_the_sheet_smaller_and_lowers_the_coverage(server: PrometheusClient) -> None:
    period = Period(MIDNIGHT, MIDNIGHT + 2 * HOUR)
    real, simulated = read_statement(server, period, ["gap"]).sheets

    # 240 samples of 30 s without 24: 1.8 hours of 4 GPUs.
    assert real.samples == 216
    assert real.coverage == pytest.approx(0.9)
    assert real.gpu_hours.assets == pytest.approx(7.2)
    assert real.gpu_hours.equity["compute"] == pytest.approx(3.6)
    assert real.gpu_hours.equity["idle_free"] == pytest.approx(1.8)
    assert real.gpu_hours.liabilities["comm_wait"] == pytest.approx(0.9)
    assert real.gpu_hours.liabilities["data_wait"] == pytest.approx(0.45)
    assert real.gpu_hours.liabilities["unhealthy"] == pytest.approx(0.45)
    assert real.gpu_hours.total_liabilities == pytest.approx(1.8)
    assert real.gpu_hours.residual == pytest.approx(0, abs=1e-9)
    assert real.money["USD"].assets == pytest.approx(14.4)
    assert real.elastic_budget == {"USD": 2.0}
    assert not real.simulated

    assert simulated.simulated
    assert simulated.gpu_hours.assets == pytest.approx(1.8 * 16)
    assert simulated.money["USD"].liabilities["startup"] == pytest.approx(1.8 * 6 * 3)
    assert simulated.elastic_budget == {}


def test_samples_count_only_with_all_of_the_time_that_they_stand_for(
    server: PrometheusClient,
) -> None:
    begin = MIDNIGHT + 5.5 * HOUR + 7.123
    whole = read(server, "offset", begin, begin + HOUR)
    assert whole.samples == 120
    assert whole.coverage == pytest.approx(1)
    assert whole.gpu_hours.assets == pytest.approx(4)

    # Ten seconds later the first sample would reach out of the period.
    later = read(server, "offset", begin + 10, begin + HOUR)
    assert later.samples == 119
    assert later.gpu_hours.assets == pytest.approx(4 * 119 / 120)
    assert later.coverage == pytest.approx(119 * 30 / 3590)

    longer = read(server, "offset", begin - HOUR, begin + 3 * HOUR)
    assert longer.coverage == pytest.approx(0.25)
    assert longer.gpu_hours.assets == pytest.approx(4)


def test_periods_that_follow_each_other_sum_to_the_whole(server: PrometheusClient) -> None:
    halves = [MIDNIGHT + k * HOUR / 2 for k in range(5)]
    sheets = [
        read_statement(server, Period(since, until), ["gap"]).sheets[0]
        for since, until in pairwise(halves)
    ]
    assert sum(sheet.gpu_hours.assets for sheet in sheets) == pytest.approx(7.2)
    assert sum(sheet.gpu_hours.equity["compute"] for sheet in sheets) == pytest.approx(3.6)


def test_a_changed_evaluation_interval_changes_the_weight_of_samples(
    server: PrometheusClient,
) -> None:
    sheet = read(server, "changed", MIDNIGHT + 10 * HOUR, MIDNIGHT + 12 * HOUR)
    assert sheet.samples == 180
    assert sheet.gpu_hours.assets == pytest.approx(2)
    assert sheet.coverage == pytest.approx(1)


def test_replicas_of_a_prometheus_count_once(server: PrometheusClient) -> None:
    sheet = read(server, "replicas", MIDNIGHT, MIDNIGHT + HOUR)
    assert sheet.samples == 120
    assert sheet.gpu_hours.assets == pytest.approx(8)
    assert sheet.gpu_hours.residual == pytest.approx(0, abs=1e-9)


def test_a_ledger_that_misses_a_gpu_shows_it_as_residual(server: PrometheusClient) -> None:
    sheet = read(server, "unbalanced", MIDNIGHT, MIDNIGHT + HOUR)
    assert sheet.gpu_hours.assets == pytest.approx(8)
    assert sheet.gpu_hours.residual == pytest.approx(1)
    assert sheet.money == {}


def test_currencies_are_never_added(server: PrometheusClient) -> None:
    sheet = read(server, "currencies", MIDNIGHT, MIDNIGHT + HOUR)
    assert {c: b.assets for c, b in sheet.money.items()} == pytest.approx({"USD": 2, "EUR": 4})


def test_a_period_of_more_hours_than_one_query_may_ask_for_is_read_in_pieces(
    server: PrometheusClient,
) -> None:
    sheet = read(server, "years", MIDNIGHT - 600 * DAY, MIDNIGHT + HOUR)
    assert sheet.samples == 120
    assert sheet.gpu_hours.assets == pytest.approx(4)
    assert sheet.coverage == pytest.approx(2 / (600 * 24 + 1))


def test_jobs_have_ratios_of_sums_and_nothing_instead_of_zero(server: PrometheusClient) -> None:
    full, bare = read(server, "jobs", MIDNIGHT, MIDNIGHT + HOUR).jobs
    assert full.gpu_hours == pytest.approx(4)
    assert full.largest_waste == ("data_wait", pytest.approx(0.1875))
    assert full.cost == {"USD": pytest.approx(8)}
    assert full.communication_efficiency == pytest.approx(1 - 4 / 16)
    assert full.data_wait == pytest.approx(4 / 32)
    assert full.mfu == pytest.approx((800 + 2400) / 8000)
    assert full.roi == pytest.approx(16)
    assert full.loss == pytest.approx(1 / 24)
    assert full.accuracy == pytest.approx(0.74)
    assert full.quality == pytest.approx(0.24)

    assert bare.gpu_hours == pytest.approx(1)
    assert bare.cost == {}
    assert bare.largest_waste is None
    assert {bare.communication_efficiency, bare.data_wait, bare.mfu, bare.roi} == {None}
    assert {bare.loss, bare.accuracy, bare.quality} == {None}


@pytest.mark.parametrize(
    ("cluster", "complaint"),
    [
        ("foundation", "load the rules of the stage actuarial"),
        ("newer", "unknown ledger states: dreaming"),
        ("nan", "holds NaN"),
        ("elsewhere", "no ledger of the cluster 'elsewhere'.*it has .*'gap'"),
    ],
)
def test_a_ledger_that_cannot_be_stated_is_refused_with_the_reason(
    server: PrometheusClient, cluster: str, complaint: str
) -> None:
    with pytest.raises(ActuaryError, match=complaint):
        read(server, cluster, MIDNIGHT, MIDNIGHT + HOUR)


def test_a_period_without_samples_is_refused(server: PrometheusClient) -> None:
    with pytest.raises(ActuaryError, match="Are the rules of GPU Actuary loaded"):
        read(server, "gap", MIDNIGHT - 2 * HOUR, MIDNIGHT)


def test_a_dead_server_is_named() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with PrometheusClient(address) as client, pytest.raises(PrometheusError, match=address):
        read(client, "gap", MIDNIGHT, MIDNIGHT + HOUR)


def test_the_interval_of_few_samples_comes_from_the_running_rule(tmp_path: Path) -> None:
    def rule(record: str, **labels: str) -> dict[str, object]:
        return {"record": record, "expr": "vector(3)", "labels": {"cluster": "live", **labels}}

    rules = tmp_path / "rules.yaml"
    rules.write_text(
        yaml.safe_dump(
            {
                "groups": [
                    {
                        "name": "ledger",
                        "interval": "2s",
                        "rules": [
                            rule("cluster:inventory_gpus:count"),
                            rule("cluster:ledger_gpus:rate", state="compute", side="equity"),
                        ],
                    }
                ]
            }
        )
    )
    with prometheus(tmp_path, rule_files=[rules]) as client:
        recorded = 'count_over_time(cluster:ledger_gpus:rate{state="compute"}[1m]) >= 2'
        wait_for(lambda: bool(client.query(recorded)), seconds=30, what="two evaluations")
        first, second = [
            time
            for series in client.stored(
                "cluster:inventory_gpus:count", start=MIDNIGHT, end=client.query("time()")[0].value
            )
            for time, _ in series.points
        ][:2]
        sheet = read(client, "live", first, second)
    assert sheet.interval_seconds == 2
    assert sheet.samples == 1
    assert sheet.gpu_hours.assets == pytest.approx(3 * 2 / HOUR)
