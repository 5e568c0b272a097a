"""The predictor as a process: lost, slow, empty and returning Prometheus; options; signals."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.predictor.fleet import Text
from tests.predictor.running import ACTUARY, labels, predictor, server
from tests.servers import exposition, wait_for

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ("--interval", "1s", "--stale-after", "2m")


def one_job() -> Text:
    text = Text()
    text.gpu("G0")
    text.gpu("G1")
    text.job("j", "G0", "G1")
    return text


def scrape(address: str) -> list[dict[str, object]]:
    return [
        {
            "job_name": "fleet",
            "honor_labels": True,
            "static_configs": [{"targets": [address]}],
        }
    ]


def test_results_vanish_with_prometheus_and_come_back_with_it(tmp_path: Path) -> None:
    with (
        exposition(one_job().render) as address,
        server(tmp_path, scrape(address)) as prometheus,
        predictor(prometheus.url, *QUICK) as service,
    ):
        wait_for(service.has_results, seconds=30, what="the first results")
        assert service.ready()
        success = service.last_success()

        prometheus.kill()
        wait_for(lambda: service.errors("unreachable") > 0, seconds=20, what="the error")
        for name in (
            "actuary_failure_probability",
            "actuary_job_failure_probability",
            "actuary_interruption_loss",
            "actuary_elastic_budget",
            "actuary_predictor_gpus_withheld",
        ):
            assert service.values(name) == {}
        assert service.fetch("/-/healthy")[0] == 200
        assert service.last_success() >= success

        prometheus.start()
        wait_for(service.has_results, seconds=30, what="the results to come back")

        # It takes connections and answers nothing: the client's patience ends, results vanish.
        errors = service.errors("unreachable")
        prometheus.freeze()
        wait_for(lambda: service.errors("unreachable") > errors, seconds=40, what="a timeout")
        assert not service.has_results()
        prometheus.thaw()
        wait_for(service.has_results, seconds=30, what="the results after the freeze")
    assert (
        sum("no results until inputs are there (unreachable)" in line for line in service.log) == 2
    )


def test_an_empty_prometheus_gives_no_results_until_there_is_a_fleet(tmp_path: Path) -> None:
    fleet: list[Text] = []
    with (
        exposition(lambda path: fleet[0].render(path) if fleet else None) as address,
        server(tmp_path, scrape(address)) as prometheus,
        predictor(prometheus.url, *QUICK) as service,
    ):
        wait_for(lambda: service.errors("empty") > 0, seconds=20, what="the empty cycle")
        assert not service.ready()
        assert not service.has_results()
        assert any("are the foundation rules loaded" in line for line in service.log)
        assert service.values("actuary_predictor_last_success_timestamp_seconds") == {}

        fleet.append(one_job())
        wait_for(service.has_results, seconds=30, what="results")
        assert service.ready()


def test_data_older_than_stale_after_gives_no_results(tmp_path: Path) -> None:
    text = Text()
    old = time.time() - 200
    for name in ("gpu:inventory:bool", "gpu:present:bool"):
        text.add_at(old, name, cluster="c", node="n", gpu_uuid="G0")
    with (
        exposition(text.render) as address,
        server(tmp_path, scrape(address)) as prometheus,
        predictor(prometheus.url, *QUICK) as service,
    ):
        wait_for(lambda: service.errors("stale") > 0, seconds=20, what="the stale cycle")
        assert not service.has_results()
        assert not service.ready()


def test_a_server_that_is_no_prometheus_is_counted_as_rejecting() -> None:
    with (
        exposition(lambda _: "hello") as address,
        predictor(f"http://{address}", *QUICK) as service,
    ):
        wait_for(lambda: service.errors("rejected") > 0, seconds=20, what="the rejected cycle")
        assert any("is it a Prometheus?" in line for line in service.log)


def test_options_change_the_figures(tmp_path: Path) -> None:
    options = (
        *("--hazard-per-day", "0.1", "--restart-hours", "1", "--recovery-coefficient", "0.5"),
        *("--header", "X-Scope-OrgID=team", *QUICK),
    )
    with (
        exposition(one_job().render) as address,
        server(tmp_path, scrape(address)) as prometheus,
        predictor(prometheus.url, *options) as service,
    ):
        wait_for(service.has_results, seconds=30, what="results")
        key = labels(cluster="c", source="", job_id="j", currency="USD")
        # P = 1 − exp(−0.2); loss = (1 h + 1 h) × 2 GPUs × 2.00; budget = P × loss × 0.5
        assert service.values("actuary_interruption_loss")[key] == pytest.approx(8.0)
        assert service.values("actuary_elastic_budget")[key] == pytest.approx(0.725076987688)
        assert service.values("actuary_predictor_base_hazard_per_day") == {labels(): 0.1}


def test_sigterm_ends_the_service_at_once_with_success() -> None:
    with predictor("http://127.0.0.1:1", "--interval", "1h", "--stale-after", "2h") as service:
        service.process.terminate()
        assert service.process.wait(timeout=20) == 0


def test_other_paths_say_what_there_is() -> None:
    with predictor("http://127.0.0.1:1") as service:
        status, text = service.fetch("/")
        assert status == 404
        assert "/metrics" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--prometheus", "localhost:9090"), "expected an address such as http://"),
        (("--prometheus", "http://"), "--prometheus"),
        (("--prometheus", "http://me:secret@host"), "without user and password"),
        (("--prometheus", "http://a:b"), "not a web address"),
        (("--listen", "9420"), "expected HOST:PORT"),
        (("--listen", "127.0.0.1:http"), "expected HOST:PORT"),
        (("--listen", "127.0.0.1:70000"), "expected HOST:PORT"),
        (("--listen", "::1:9420"), "in brackets: [::1]:9420"),
        (("--interval", "soon"), "--interval 'soon': expected a duration"),
        (("--interval", "0s"), "expected at least"),
        (("--stale-after", "-5m"), "--stale-after '-5m'"),
        (("--stale-after", "60s"), "must be longer than --interval 60s"),
        (("--hazard-per-day", "nan"), "--hazard-per-day nan"),
        (("--restart-hours", "-1"), "--restart-hours -1.0: expected a finite number"),
        (("--recovery-coefficient", "inf"), "--recovery-coefficient inf"),
        (("--header", "X-Scope-OrgID"), "expected NAME=VALUE"),
        (("--header", "Authorization=Bearer\nsecret"), "--header number 1 (name 'Authorization'"),
    ],
)
def test_wrong_options_end_with_a_clear_message(options: tuple[str, str], message: str) -> None:
    defaults = () if options[0] == "--prometheus" else ("--prometheus", "http://127.0.0.1:1")
    answer = subprocess.run(
        [ACTUARY, "predictor", "serve", *defaults, *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "secret" not in answer.stderr


def test_a_taken_port_ends_with_a_clear_message() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = subprocess.run(
            [ACTUARY, "predictor", "serve", "--prometheus", "http://x", "--listen", address],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert answer.returncode == 2
    assert f"cannot listen on {address}" in answer.stderr
    assert "Traceback" not in answer.stderr
