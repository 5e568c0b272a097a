"""Evaluations from a real MLflow tracking server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gpu_actuary.errors import UsageError
from gpu_actuary.exporters.evaluationstore import EvaluationStore
from gpu_actuary.exporters.mlflowclient import MlflowClient, MlflowError
from gpu_actuary.exporters.mlflowpoller import MlflowPoller, MlflowSettings

from ..servers import exposition, free_port, wait_for
from .running import samples, sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Tracking:
    """A tracking server and one experiment on it, written through its REST API."""

    def __init__(self, uri: str, experiment: str) -> None:
        self.uri = uri
        self.experiment = experiment
        self._http = httpx.Client(base_url=f"{uri}/api/2.0/mlflow", trust_env=False)
        self._id = self._post("experiments/create", name=experiment)["experiment_id"]

    def run(self, name: str, *, job_id: str = "", param: str = "") -> str:
        """A new run; ``job_id`` as its tag, ``param`` as its parameter."""
        tags = [{"key": "actuary.job_id", "value": job_id}] if job_id else []
        created = self._post(
            "runs/create",
            experiment_id=self._id,
            run_name=name,
            tags=tags,
            start_time=time.time_ns() // 1_000_000,
        )
        run_id = str(created["run"]["info"]["run_id"])
        if param:
            self._post("runs/log-parameter", run_id=run_id, key="actuary.job_id", value=param)
        return run_id

    def log(self, run_id: str, step: int, timestamp: float, **metrics: float | str) -> None:
        """Values of a step; "NaN" is a value too."""
        for key, value in metrics.items():
            fields = {"key": key, "value": value, "timestamp": int(timestamp * 1000), "step": step}
            self._post("runs/log-metric", run_id=run_id, **fields)

    def _post(self, path: str, **fields: Any) -> dict[str, Any]:
        answer = self._http.post(path, json=fields)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"http://127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                *("--backend-store-uri", f"sqlite:///{folder}/store.db"),
                *("--artifacts-destination", str(folder / "artifacts")),
                *("--host", "127.0.0.1", "--port", uri.rpartition(":")[2]),
            ],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                **os.environ,
                # Its other parts need packages that its tracking does without.
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                "MLFLOW_DISABLE_TELEMETRY": "true",
            },
        )

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return httpx.get(f"{uri}/health", trust_env=False, timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_for(answers, seconds=90, what=f"MLflow; see {folder}/log")
        yield uri
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=20)


@pytest.fixture
def tracking(server: str, request: pytest.FixtureRequest) -> Tracking:
    return Tracking(server, request.node.name)


def _shown(tracking: Tracking, folder: Path, **settings: Any) -> dict[tuple[str, str, str], float]:
    """What one poll of ``tracking``'s experiment brings: by series, job and metric."""
    store = EvaluationStore(folder)
    poller = _poller(tracking, store, **settings)
    poller.poll()
    return {(name, job, metric): value for name, job, metric, value in store.samples()}


def _poller(tracking: Tracking, store: EvaluationStore, **settings: Any) -> MlflowPoller:
    wanted = MlflowSettings(**{"experiments": [tracking.experiment], **settings})
    return MlflowPoller(MlflowClient(tracking.uri, {}), wanted, store)


LOSS = "actuary_evaluation_loss"
SCORE = "actuary_evaluation_score"
INITIAL = "actuary_evaluation_initial_loss"
TIME = "actuary_evaluation_timestamp_seconds"


def test_the_latest_metrics_of_a_run_and_its_first_loss_are_taken(
    tracking: Tracking, tmp_path: Path
) -> None:
    now = float(int(time.time()))
    run = tracking.run("any", job_id="pretrain-7b")
    tracking.log(run, 100, now - 60, eval_loss=3.0, accuracy=0.2)
    tracking.log(run, 200, now - 30, eval_loss=2.0, accuracy=0.5)
    assert _shown(tracking, tmp_path) == {
        (LOSS, "pretrain-7b", ""): 2.0,
        (INITIAL, "pretrain-7b", ""): 3.0,
        (TIME, "pretrain-7b", ""): now - 30,
        (SCORE, "pretrain-7b", "accuracy"): 0.5,
    }


def test_the_job_is_named_by_tag_then_parameter_then_the_name_of_the_run(
    tracking: Tracking, tmp_path: Path
) -> None:
    for name, naming in (
        ("one", {"job_id": "tagged", "param": "other"}),
        ("two", {"param": "parameter"}),
        ("three", {}),
    ):
        tracking.log(tracking.run(name, **naming), 1, time.time(), accuracy=0.5)
    jobs = {job for name, job, _ in _shown(tracking, tmp_path) if name == SCORE}
    assert jobs == {"tagged", "parameter", "three"}


def test_metrics_of_other_names_are_found_by_the_options(
    tracking: Tracking, tmp_path: Path
) -> None:
    now = time.time()
    tracking.log(tracking.run("run"), 1, now, **{"val/f1": 0.7, "val/loss": 1.5, "accuracy": 0.1})
    shown = _shown(tracking, tmp_path, accuracy="val/f1", loss="val/loss")
    assert shown[SCORE, "run", "accuracy"] == 0.7
    assert shown[LOSS, "run", ""] == 1.5


def test_nan_of_mlflow_is_withheld_and_counted_once(tracking: Tracking, tmp_path: Path) -> None:
    tracking.log(tracking.run("run"), 1, time.time(), eval_loss="NaN", accuracy=0.5)
    store = EvaluationStore(tmp_path)
    poller = _poller(tracking, store)
    for _ in range(2):
        poller.poll()
    assert {name for name, _, _, _ in store.samples()} == {SCORE, TIME}
    assert store.withheld == 1


def test_a_later_run_of_the_same_job_takes_over_and_the_first_loss_stays(
    tracking: Tracking, tmp_path: Path
) -> None:
    now = time.time()
    tracking.log(tracking.run("one", job_id="job"), 100, now - 60, eval_loss=3.0)
    tracking.log(tracking.run("two", job_id="job"), 50, now - 30, eval_loss=2.5)
    shown = _shown(tracking, tmp_path)
    assert (shown[LOSS, "job", ""], shown[INITIAL, "job", ""]) == (2.5, 3.0)


def test_runs_that_give_nothing_are_counted_by_the_reason(
    tracking: Tracking, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time()
    tracking.run("empty")
    tracking.log(tracking.run("other metrics"), 1, now, train_loss=1.0)
    tracking.log(tracking.run("old"), 1, now - 8 * 86400, accuracy=0.5)
    tracking.log(tracking.run("future"), 1, now + 86400, accuracy=0.5)
    tracking.log(tracking.run("tab", job_id="a\tb"), 1, now, accuracy=0.5)
    tracking.log(tracking.run("good"), 1, now, accuracy=0.5)
    store = EvaluationStore(tmp_path)
    poller = _poller(tracking, store)
    for _ in range(2):
        poller.poll()
    assert poller.runs == {"used": 1, "without_metrics": 2, "old": 1, "unusable": 2}
    assert {job for _, job, _, _ in store.samples()} == {"good"}
    assert caplog.text.count("is left out: its metrics: expected no time in the future") == 1
    assert caplog.text.count("is left out: its job id: expected printable") == 1


def test_all_experiments_are_read_unless_some_are_named(server: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        tracking = Tracking(server, name)
        tracking.log(tracking.run(f"in {name}"), 1, time.time(), accuracy=0.5)
    everywhere = _shown(tracking, tmp_path / "all", experiments=())
    assert {"in first", "in second"} <= {job for _, job, _ in everywhere}
    assert {job for _, job, _ in _shown(tracking, tmp_path / "one")} == {"in second"}
    with pytest.raises(MlflowError, match="there is no active experiment 'third'"):
        _shown(tracking, tmp_path / "none", experiments=["third"])


def test_more_runs_than_a_page_are_read(
    tracking: Tracking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_actuary.exporters.mlflowclient._PAGE", 2)
    for number in range(5):
        tracking.log(tracking.run(f"run {number}"), 1, time.time(), accuracy=0.5)
    assert len({job for _, job, _ in _shown(tracking, tmp_path)}) == 5


def test_the_sidecar_shows_what_mlflow_says_and_survives_its_absence(
    tracking: Tracking, tmp_path: Path
) -> None:
    run = tracking.run("run")
    tracking.log(run, 1, time.time() - 1, accuracy=0.5)
    wanted = MlflowSettings([tracking.experiment], interval_seconds=0.1)
    settings = {"mlflow": (MlflowClient(tracking.uri, {}), wanted)}

    def scores(client: httpx.Client) -> dict[tuple[tuple[str, str], ...], float]:
        return samples(client).get(SCORE, {})

    key = (("job_id", "run"), ("metric", "accuracy"), ("node", "n1"), ("rank", "service"))
    with (
        sidecar(tmp_path / "ranks", **settings) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        wait_for(lambda: scores(client) == {key: 0.5}, seconds=20, what="the first poll")
        tracking.log(run, 2, time.time(), accuracy=0.75)
        wait_for(lambda: scores(client) == {key: 0.75}, seconds=20, what="the next poll")
        assert samples(client)["actuary_mlflow_up"] == {(): 1}
        used = dict(samples(client)["actuary_mlflow_runs"])[(("outcome", "used"),)]
        assert used == 1
        assert client.post("/api/v1/evaluations", json={}).status_code == 403
    nobody = MlflowClient(f"http://127.0.0.1:{free_port()}", {})
    with (
        sidecar(tmp_path / "ranks", mlflow=(nobody, wanted)) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        wait_for(lambda: "actuary_mlflow_up" in samples(client), seconds=20, what="the failure")
        assert samples(client)["actuary_mlflow_up"] == {(): 0}
        assert scores(client) == {key: 0.75}  # kept from before


@pytest.mark.parametrize("uri", ["sqlite:///x.db", "./mlruns", "databricks", "http://", ""])
def test_an_address_that_is_no_tracking_server_is_a_usage_error(uri: str) -> None:
    with pytest.raises(UsageError, match="--mlflow"):
        MlflowClient(uri, {})


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="MLFLOW_TRACKING_PASSWORD") as refusal:
        MlflowClient("http://alice:secret@mlflow", {})
    assert "secret" not in str(refusal.value)


def test_a_certificate_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="MLFLOW_TRACKING_SERVER_CERT_PATH /missing"):
        MlflowClient("https://mlflow", {"MLFLOW_TRACKING_SERVER_CERT_PATH": "/missing"})


@pytest.mark.parametrize("text", ["<html>", "[]", "3", None])
def test_an_answer_of_something_else_is_named(text: str | None) -> None:
    with exposition(lambda _: text) as address:
        client = MlflowClient(f"http://{address}", {})
        with pytest.raises(MlflowError, match=rf"http://{address}/api"):
            client.history("run", "loss")
