from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_actuary.errors import PrometheusError, PrometheusUnreachableError
from gpu_actuary.prometheus import PrometheusClient
from tests.servers import exposition, free_port, prometheus, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PrometheusClient]:
    """A Prometheus with one target, one rule, and some scrapes behind it."""
    rules = folder / "rules.yaml"
    group = {"name": "g", "rules": [{"record": "answer:double", "expr": "2 * answer"}]}
    rules.write_text(yaml.safe_dump({"groups": [group]}))
    text = 'answer{kind="whole"} 42\nanswer{kind="none"} NaN\n'
    with exposition(lambda _: text) as address:
        scrape = [{"job_name": "test", "static_configs": [{"targets": [address]}]}]
        with prometheus(folder, scrape=scrape, rule_files=[rules]) as client:
            done = 'count_over_time(answer:double{kind="whole"}[1m]) >= 3'
            wait_for(lambda: bool(client.query(done)), seconds=30, what="three evaluations")
            yield client


@contextlib.contextmanager
def answering(status: int, body: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server that answers everything alike; yields its address and the (path, header) seen."""
    seen: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.path, self.headers.get("X-Scope-OrgID", "")))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            return

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{web.server_port}", seen
    finally:
        web.shutdown()
        web.server_close()


def test_an_instant_query_returns_labels_and_values(server: PrometheusClient) -> None:
    (sample,) = server.query('answer{kind="whole"}')
    assert sample.value == 42
    assert sample.labels["kind"] == "whole"
    (scalar,) = server.query("scalar(vector(7))", at=1_700_000_000.5)
    assert (scalar.labels, scalar.timestamp, scalar.value) == ({}, 1_700_000_000.5, 7)
    assert server.query("nothing_has_this_name") == []


def test_nan_is_kept(server: PrometheusClient) -> None:
    (sample,) = server.query('answer{kind="none"}')
    assert sample.value != sample.value


def test_a_range_query_returns_points_in_time_order(server: PrometheusClient) -> None:
    (series,) = server.query_range("vector(1)", start=1000.5, end=1002.5, step=0.5)
    assert series.points == tuple((1000.5 + k / 2, 1.0) for k in range(5))


def test_stored_samples_come_with_their_own_times_and_both_ends(server: PrometheusClient) -> None:
    now = server.query("time()")[0].value
    (everything,) = server.stored('answer{kind="whole"}', start=now - 60, end=now)
    times = [time for time, _ in everything.points]
    assert times == sorted(set(times))
    assert len(times) >= 3
    (part,) = server.stored('answer{kind="whole"}', start=times[0], end=times[2])
    assert [time for time, _ in part.points] == times[:3]
    (rest,) = server.stored('answer{kind="whole"}', start=times[0] + 0.001, end=times[2])
    assert [time for time, _ in rest.points] == times[1:3]


def test_targets_and_rules_tell_their_health(server: PrometheusClient) -> None:
    (target,) = server.targets()
    assert target["health"] == "up"
    assert target["labels"]["job"] == "test"
    (group,) = server.rule_groups()
    assert [(rule["name"], rule["health"]) for rule in group["rules"]] == [("answer:double", "ok")]


def test_reload_reads_the_configuration_again_and_reports_a_broken_one(
    server: PrometheusClient, folder: Path
) -> None:
    server.reload()
    config = folder / "prometheus.yaml"
    good = config.read_text()
    config.write_text("scrape_configs: 5\n")
    try:
        with pytest.raises(PrometheusError, match="could not reload"):
            server.reload()
    finally:
        config.write_text(good)
    server.reload()
    assert server.ready()


def test_a_refused_query_says_what_was_asked_and_why(server: PrometheusClient) -> None:
    with pytest.raises(PrometheusError, match=r"refused 'sum\(': .*parse error"):
        server.query("sum(")
    with pytest.raises(PrometheusError, match="expected a vector"):
        server.query("answer[1m]")
    with pytest.raises(PrometheusError, match="exceeded maximum resolution"):
        server.query_range("answer", start=0, end=1e6, step=1)


def test_a_server_that_does_not_reload_says_how_to_let_it() -> None:
    with answering(403, "Lifecycle API is not enabled.") as (url, _), PrometheusClient(url) as one:
        with pytest.raises(PrometheusError, match=r"--web\.enable-lifecycle"):
            one.reload()
        assert not one.ready()


def test_nobody_at_the_address_is_unreachable() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with PrometheusClient(url) as client:
        assert not client.ready()
        with pytest.raises(PrometheusUnreachableError, match=url):
            client.query("up")


@pytest.mark.parametrize(
    "url", ["", "localhost:9090", "ftp://host", "http://", "http://[::1", "nonsense", "\x00"]
)
def test_an_address_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(PrometheusError, match="is not a web address"):
        PrometheusClient(url)


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (200, "<html>hello</html>", "not JSON; is it a Prometheus"),
        (502, "bad gateway", "HTTP 502"),
        (200, "[]", "refused"),
        (200, '{"status": "success"}', "without data"),
        (400, '{"status": "error", "error": "too bad"}', "too bad"),
    ],
)
def test_an_answer_that_is_not_prometheus_is_reported(
    status: int, body: str, complaint: str
) -> None:
    with (
        answering(status, body) as (url, _),
        PrometheusClient(url) as client,
        pytest.raises(PrometheusError, match=complaint),
    ):
        client.query("up")


def test_path_prefix_and_headers_go_with_every_request() -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})
    headers = {"X-Scope-OrgID": "team"}
    with (
        answering(200, body) as (url, seen),
        PrometheusClient(f"{url}/prometheus/", headers=headers) as client,
    ):
        client.query("up")
        client.ready()
    assert seen == [("/prometheus/api/v1/query", "team"), ("/prometheus/-/ready", "team")]
