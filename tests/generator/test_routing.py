from __future__ import annotations

import contextlib
import json
import queue
import shutil
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_actuary.generator.output import write_files
from gpu_actuary.generator.render import render
from gpu_actuary.generator.tools import check_alertmanager
from tests.servers import free_port, wait_for

from .folders import SETTINGS, alert, builtin, problems_of, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUTES = """\
version: actuary/v1
kind: Route
name: default
runbook_base: https://runbooks.example
group_by: [cluster, source, node, job_id]
group_wait: 1s
receivers:
  tickets: {{url: "{address}/tickets"}}
  pager: {{url: "{address}/pager"}}
  nowhere: {{}}
default_receiver: nowhere
teams:
  platform: {{receiver: tickets, page: pager}}
repeat: {{page: 30m, ticket: 1d}}
inhibit:
  - {{source: [gpu-gone], target: [rank-silent], equal: [cluster, node]}}
"""


def configuration(tmp_path: Path, address: str = "http://127.0.0.1:9") -> Path:
    folder = builtin(
        tmp_path,
        gone=alert("gpu-gone", "up == 0"),
        silent=alert("rank-silent", "up == 1"),
    )
    write(tmp_path / "user", "routes.yaml", ROUTES.format(address=address))
    write_files(tmp_path / "out", render(tmp_path / "user", builtin=folder).files)
    return tmp_path / "out" / "alertmanager.yaml"


def receiver_of(configuration: Path, **labels: str) -> str:
    amtool = shutil.which("amtool")
    assert amtool, "amtool is not installed: make tools"
    pairs = [f"{name}={value}" for name, value in labels.items()]
    command = [amtool, "config", "routes", "test", f"--config.file={configuration}", *pairs]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ({"team": "platform", "severity": "page"}, "pager"),
        ({"team": "platform", "severity": "ticket"}, "tickets"),
        ({"team": "platform", "severity": "info"}, "tickets"),
        ({"team": "platform"}, "tickets"),
        ({"team": "strangers", "severity": "page"}, "nowhere"),
        ({}, "nowhere"),
    ],
)
def test_an_alert_goes_to_its_team_and_pages_to_the_pager(
    tmp_path: Path, labels: dict[str, str], receiver: str
) -> None:
    assert receiver_of(configuration(tmp_path), **labels) == receiver


def test_alertmanager_and_its_linter_accept_the_configuration(tmp_path: Path) -> None:
    file = configuration(tmp_path)
    rules = sorted((file.parent / "rules").iterdir())
    outcomes = {o.check: o.status for o in check_alertmanager(file, rules)}
    assert outcomes == {"amtool check-config": "ok", "amlint check": "ok"}


def test_pages_are_repeated_sooner_than_tickets(tmp_path: Path) -> None:
    route = yaml.safe_load(configuration(tmp_path).read_text())["route"]
    [team] = [r for r in route["routes"] if r["matchers"] == ['team="platform"']]
    intervals = {r["matchers"][0]: r["repeat_interval"] for r in team["routes"]}
    assert intervals == {
        'severity="page"': "30m",
        'severity="ticket"': "1d",
        'severity="info"': "1d",
    }


@contextlib.contextmanager
def webhook() -> Iterator[tuple[str, queue.Queue[tuple[str, dict[str, Any]]]]]:
    """An address and what is posted to it, as (path, body)."""
    posted: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.put((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", posted
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def alertmanager(configuration: Path, folder: Path) -> Iterator[str]:
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    assert binary, "alertmanager is not installed: make tools"
    address = f"127.0.0.1:{free_port()}"
    command = [
        binary,
        f"--config.file={configuration}",
        f"--storage.path={folder}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_for(ready, seconds=20, what="Alertmanager")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def test_a_dead_node_is_one_notification_and_what_follows_from_it_is_none(tmp_path: Path) -> None:
    def fire(name: str, severity: str, **labels: str) -> dict[str, Any]:
        fixed = {"alertname": name, "severity": severity, "team": "platform", "cluster": "c"}
        return {"labels": {**fixed, **labels}}

    alerts = [
        *(fire("GpuGone", "page", node="n1", gpu_uuid=f"GPU-{i}") for i in range(8)),
        *(fire("RankSilent", "ticket", node="n1", job_id="j", rank=str(i)) for i in range(8)),
        fire("RankSilent", "ticket", node="n2", job_id="j", rank="9"),
        fire("RankSilent", "ticket", job_id="without-node"),
    ]
    with (
        webhook() as (address, posted),
        alertmanager(configuration(tmp_path, address), tmp_path / "data") as url,
    ):
        request = urllib.request.Request(
            f"{url}/api/v2/alerts",
            data=json.dumps(alerts).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=5).close()
        got = [posted.get(timeout=15) for _ in range(3)]
        with pytest.raises(queue.Empty):
            posted.get(timeout=2)
    summary = {
        (path, body["groupLabels"].get("node"), body["groupLabels"].get("job_id")): len(
            body["alerts"]
        )
        for path, body in got
    }
    assert summary == {
        ("/pager", "n1", None): 8,
        ("/tickets", "n2", "j"): 1,
        ("/tickets", None, "without-node"): 1,
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ("default_receiver: nowhere", "default_receiver: nowere"),
            "spec.yaml:11: default_receiver: there is no receiver 'nowere' (did you mean "
            "'nowhere'?); expected one of tickets, pager, nowhere",
        ),
        (
            ("page: pager", "page: phone"),
            "spec.yaml:13: teams.platform.page: there is no receiver 'phone'; expected one of "
            "tickets, pager, nowhere",
        ),
        (
            ("source: [gpu-gone]", "source: [gpu-gon]"),
            "spec.yaml:16: inhibit[0].source[0]: there is no alert 'gpu-gon' (did you mean "
            "'gpu-gone'?); expected one of gpu-gone, rank-silent",
        ),
        (
            ("http://127.0.0.1:9/pager", "127.0.0.1:9/pager"),
            "spec.yaml:9: receivers.pager.url: '127.0.0.1:9/pager' is no web address; expected "
            "http://host/path or https://host/path",
        ),
        (
            ("  platform: {", "  platfrm: {"),
            "spec.yaml:12: teams: no route is for the team 'platform' of the alert gpu-gone (did "
            "you mean 'platfrm'?); expected a route for every team, or no `teams` at all",
        ),
    ],
)
def test_a_name_that_is_not_there_is_a_problem(
    tmp_path: Path, change: tuple[str, str], problem: str
) -> None:
    text = ROUTES.format(address="http://127.0.0.1:9").replace(*change)
    found = problems_of(
        tmp_path,
        text,
        gone=alert("gpu-gone", "up == 0"),
        silent=alert("rank-silent", "up == 1"),
    )
    assert problem in found


def test_routes_without_teams_send_everything_to_the_default_receiver(tmp_path: Path) -> None:
    assert "teams" not in SETTINGS
    files = render(builtin=builtin(tmp_path, gone=alert("gpu-gone", "up == 0"))).files
    write_files(tmp_path / "out", files)
    assert receiver_of(tmp_path / "out/alertmanager.yaml", team="platform") == "default"
