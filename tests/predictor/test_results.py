"""The predictor's results over a real Prometheus, against numbers computed by hand."""

from __future__ import annotations

import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.catalogue import BY_NAME, owned_by
from gpu_actuary.prometheus import PrometheusClient
from tests.predictor.fleet import every_case, history
from tests.predictor.running import Server, Service, labels, predictor, server
from tests.servers import exposition, free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIOR = 0.000469889567302
"""1 − exp(−0.00047)"""
PRIOR_OF_TWO = 0.000939558338403
"""1 − exp(−2 × 0.00047)"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Service]]:
    now = time.time()
    fleet = every_case(now)
    listen = f"127.0.0.1:{free_port()}"
    with exposition(fleet.render) as address:
        # Scraped twice, as two replicas or an overlapping scrape job would.
        jobs: list[dict[str, object]] = [
            {
                "job_name": name,
                "honor_labels": True,
                "static_configs": [{"targets": [address]}],
            }
            for name in ("fleet", "fleet-again")
        ]
        jobs.append(
            {
                "job_name": "actuary-predictor",
                "honor_labels": True,
                "static_configs": [
                    {
                        "targets": [listen],
                        "labels": {"cluster": "monitoring", "source": "simulated"},
                    }
                ],
            }
        )
        with (
            server(tmp_path_factory.mktemp("prometheus"), jobs, history(now)) as prometheus,
            PrometheusClient(prometheus.url) as client,
        ):
            wait_for(
                lambda: len(client.query('gpu:inventory:bool{gpu_uuid="renamed"}')) == 2,
                seconds=30,
                what="both scrapes",
            )
            options = ("--interval", "1s", "--stale-after", "2m")
            with predictor(prometheus.url, *options, listen=listen) as service:
                wait_for(service.has_results, seconds=30, what="the first results")
                yield prometheus, service


@pytest.fixture(scope="module")
def service(running: tuple[Server, Service]) -> Service:
    return running[1]


def gpu(service: Service, uuid: str, source: str = "") -> object:
    """Reason and probability of a GPU; None when it has none."""
    found = [
        (dict(key)["reason"], value)
        for key, value in service.values("actuary_failure_probability").items()
        if dict(key)["gpu_uuid"] == uuid and dict(key)["source"] == source
    ]
    assert len(found) <= 1, f"{uuid} has several results: {found}"
    return found[0] if found else None


def job(service: Service, name: str, job_id: str) -> float | None:
    found = [v for key, v in service.values(name).items() if dict(key)["job_id"] == job_id]
    assert len(found) <= 1, f"{job_id} has several results: {found}"
    return found[0] if found else None


def probability(service: Service, job_id: str) -> float | None:
    return job(service, "actuary_job_failure_probability", job_id)


def loss(service: Service, job_id: str) -> float | None:
    return job(service, "actuary_interruption_loss", job_id)


def budget(service: Service, job_id: str) -> float | None:
    return job(service, "actuary_elastic_budget", job_id)


@pytest.mark.parametrize(
    "uuid",
    [
        "plain",
        "pardoned",
        "xid-13",
        "xid-31",
        "xid-94",
        "xid-79-old",
        "pending-none",
        "double-bit-lifetime",
        "double-bit-young",
    ],
)
def test_a_gpu_without_a_deciding_fact_has_the_prior(service: Service, uuid: str) -> None:
    assert gpu(service, uuid) == ("prior", pytest.approx(PRIOR, rel=1e-9))


@pytest.mark.parametrize(
    ("uuid", "reason"),
    [
        ("row_remap_failure", "row_remap_failure"),
        ("xid_64", "xid_64"),
        ("hidden-64", "xid_64"),
        ("recovery_action", "condemned"),
        ("vanished", "vanished"),
        ("xid-79", "xid_79"),
    ],
)
def test_a_deterministic_fact_makes_the_loss_certain(
    service: Service, uuid: str, reason: str
) -> None:
    assert gpu(service, uuid) == (reason, 1.0)


@pytest.mark.parametrize(
    ("uuid", "reason"),
    [
        ("xid-48", "xid_48"),
        ("xid-48-after-31", "xid_48"),
        ("xid-63", "xid_63"),
        ("xid-95", "xid_95"),
        ("double-bit-new", "double_bit_error"),
        ("pending-4.8", "row_remap_pending"),
        ("pending-4.9", "row_remap_pending"),
    ],
)
def test_a_memory_event_raises_the_probability_to_the_published_figure(
    service: Service, uuid: str, reason: str
) -> None:
    assert gpu(service, uuid) == (reason, 0.006)


@pytest.mark.parametrize("uuid", ["silent-0", "silent-1", "CPU-n1-0", "stale", "not-a-number"])
def test_a_gpu_without_fresh_inputs_has_no_value_at_all(service: Service, uuid: str) -> None:
    assert gpu(service, uuid) is None


def test_gpus_without_a_value_are_counted_by_reason(service: Service) -> None:
    assert service.values("actuary_predictor_gpus_withheld") == {
        labels(cluster="c", source="", reason="silent"): 4,
        labels(cluster="c", source="", reason="stale"): 1,
        labels(cluster="c", source="", reason="unidentified"): 1,
    }


def test_simulated_and_real_gpus_of_one_uuid_stay_apart(service: Service) -> None:
    assert gpu(service, "plain", source="simulated") == ("prior", pytest.approx(PRIOR, rel=1e-9))
    assert gpu(service, "plain", source="") == ("prior", pytest.approx(PRIOR, rel=1e-9))


def test_a_job_has_probability_loss_and_budget(service: Service) -> None:
    # (1 h since the checkpoint + 0.25 h restart) × (2.50 + 3.50) per hour
    assert probability(service, "pair") == pytest.approx(PRIOR_OF_TWO, rel=1e-9)
    assert loss(service, "pair") == pytest.approx(7.5)
    assert budget(service, "pair") == pytest.approx(7.5 * PRIOR_OF_TWO, rel=1e-9)
    assert labels(cluster="c", source="", job_id="pair", currency="USD") in service.values(
        "actuary_elastic_budget"
    )


def test_a_vanished_gpu_makes_the_whole_loss_the_budget(service: Service) -> None:
    # 1.25 h × 2 GPUs × 2.00 per hour
    assert probability(service, "doomed") == 1.0
    assert loss(service, "doomed") == pytest.approx(5.0)
    assert budget(service, "doomed") == pytest.approx(5.0)


def test_ranks_on_one_gpu_count_it_once_and_jobs_on_it_share_its_cost(service: Service) -> None:
    # 1.25 h × half of 4.00 per hour, for each of the two jobs
    for job_id in ("shared-a", "shared-b"):
        assert probability(service, job_id) == pytest.approx(PRIOR, rel=1e-9)
        assert loss(service, job_id) == pytest.approx(2.5)


def test_a_job_without_a_checkpoint_risks_its_whole_run_time(service: Service) -> None:
    # (1800 s + 0.25 h) × 2.00 per hour
    assert loss(service, "unsaved") == pytest.approx(1.5)


def test_a_rank_that_moved_holds_only_its_new_gpu(service: Service) -> None:
    assert probability(service, "moved") == pytest.approx(PRIOR, rel=1e-9)
    assert loss(service, "moved") == pytest.approx(0.5)


def test_a_rank_finds_its_gpu_by_uuid_when_the_node_has_two_names(service: Service) -> None:
    assert probability(service, "renamed") == pytest.approx(PRIOR, rel=1e-9)


def test_a_job_whose_ranks_are_long_dead_is_no_job(service: Service) -> None:
    assert probability(service, "long-dead") is None
    assert loss(service, "long-dead") is None


@pytest.mark.parametrize("job_id", ["half", "nameless"])
def test_a_job_whose_gpus_are_not_all_known_has_no_figures(service: Service, job_id: str) -> None:
    assert probability(service, job_id) is None
    assert loss(service, job_id) is None
    assert budget(service, job_id) is None


def test_a_gpu_without_a_probability_takes_it_from_its_job_but_not_the_loss(
    service: Service,
) -> None:
    assert probability(service, "blind") is None
    assert loss(service, "blind") == pytest.approx(2.5)
    assert budget(service, "blind") is None


@pytest.mark.parametrize("job_id", ["two-currencies", "unpriced", "skewed", "negative-age"])
def test_a_job_whose_loss_cannot_be_priced_keeps_its_probability(
    service: Service, job_id: str
) -> None:
    assert probability(service, job_id) is not None
    assert loss(service, job_id) is None
    assert budget(service, job_id) is None


def test_jobs_that_lack_figures_are_counted_and_logged_once_each(service: Service) -> None:
    counted = {
        dict(key)["reason"]: value
        for key, value in service.values("actuary_predictor_jobs_withheld").items()
    }
    assert counted == {
        "ranks_missing": 1,
        "gpu_unknown": 1,
        "gpu_without_estimate": 1,
        "cost_missing": 1,
        "mixed_currency": 1,
        "checkpoint_age_missing": 1,
        "out_of_range": 1,
    }
    lines = [line for line in service.log if "two-currencies" in line]
    assert len(lines) == 1
    assert "priced in EUR, USD; expected one currency" in lines[0]


def test_the_exposition_is_what_the_catalogue_says(service: Service) -> None:
    _, text = service.fetch("/metrics")
    exposed = {
        sample.name: (family, [s for s in family.samples if s.name == sample.name])
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert exposed.keys() == {series.name for series in owned_by("predictor")}
    for name, (family, samples) in exposed.items():
        series = BY_NAME[name]
        assert family.documentation == series.help
        assert family.type == ("gauge" if series.type == "info" else series.type)
        for sample in samples:
            assert set(sample.labels) == set(series.labels)
            for label, vocabulary in series.values.items():
                assert sample.labels[label] in vocabulary


def test_scraped_with_honor_labels_results_keep_the_cluster_and_source_of_their_inputs(
    running: tuple[Server, Service],
) -> None:
    with PrometheusClient(running[0].url) as client:

        def scraped() -> set[tuple[str | None, str | None]]:
            return {
                (sample.labels.get("cluster"), sample.labels.get("source"))
                for sample in client.query('actuary_failure_probability{gpu_uuid="plain"}')
            }

        wait_for(lambda: bool(scraped()), seconds=20, what="Prometheus to scrape the predictor")
        assert scraped() == {("c", None), ("c", "simulated")}


def test_openmetrics_is_served_to_those_who_ask(service: Service) -> None:
    request = urllib.request.Request(
        f"{service.url}/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert answer.read().decode().endswith("# EOF\n")
