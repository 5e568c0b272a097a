"""Evaluations that a service reports over HTTP: who may, what is taken, and what is shown."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_actuary.catalogue import get
from gpu_actuary.errors import UsageError
from gpu_actuary.exporters import evaluationstore
from gpu_actuary.exporters.evaluation import (
    Evaluation,
    InvalidEvaluationError,
    parse_evaluation,
)
from gpu_actuary.exporters.evaluationstore import EvaluationStore

from ..exporters.writing import rank_file
from ..servers import prometheus, wait_for
from .running import PASSWORD, USERS, samples, sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATH = "/api/v1/evaluations"
TOKEN = "0123456789abcdef0123"
ROW = (("job_id", "job"), ("node", "n1"), ("rank", "service"))
NOW = 1_800_000_000.0


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


@pytest.fixture
def client(tmp_path: Path, token_file: Path) -> Iterator[httpx.Client]:
    """A service that may report to a sidecar on ``tmp_path``/ranks."""
    with (
        sidecar(tmp_path / "ranks", push_token_file=token_file) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client


def _report(**fields: Any) -> dict[str, Any]:
    return {"job_id": "job", "step": 100, "scores": {"accuracy": 0.75}, "loss": 1.5, **fields}


def _results(client: httpx.Client) -> dict[str, float]:
    shown = samples(client)["actuary_evaluation_reports_total"]
    return {dict(labels)["result"]: value for labels, value in shown.items()}


def test_a_report_is_shown_as_the_rank_service(client: httpx.Client) -> None:
    answer = client.post(PATH, json=_report(timestamp=1.7e9, quality=0.5))
    assert answer.status_code == 200
    assert answer.json() == {"result": "stored", "job_id": "job", "step": 100, "withheld": []}
    shown = samples(client)
    assert shown["actuary_evaluation_loss"] == {ROW: 1.5}
    assert shown["actuary_evaluation_initial_loss"] == {ROW: 1.5}
    assert shown["actuary_evaluation_timestamp_seconds"] == {ROW: 1.7e9}
    assert shown["actuary_quality_score"] == {ROW: 0.5}
    (labels,) = shown["actuary_evaluation_score"]
    assert dict(labels) == {**dict(ROW), "metric": "accuracy"}


def test_reports_and_ranks_stand_side_by_side(tmp_path: Path, client: httpx.Client) -> None:
    file = rank_file(tmp_path / "ranks")
    client.post(PATH, json=_report())
    shown = samples(client)
    assert {dict(labels)["rank"] for labels in shown["actuary_steps_total"]} == {"0"}
    assert {dict(labels)["rank"] for labels in shown["actuary_evaluation_loss"]} == {"service"}
    for name in shown:
        if name.startswith("actuary_evaluation"):
            assert get(name).help
    file.release()


def test_without_a_timestamp_the_time_of_the_report_counts(client: httpx.Client) -> None:
    before = time.time()
    client.post(PATH, json=_report())
    (shown,) = samples(client)["actuary_evaluation_timestamp_seconds"].values()
    assert before <= shown <= time.time()


def test_the_same_report_again_changes_nothing(client: httpx.Client) -> None:
    client.post(PATH, json=_report(timestamp=1.7e9))
    again = client.post(PATH, json=_report())  # a retry, by now with another time
    assert again.json()["result"] == "repeated"
    assert samples(client)["actuary_evaluation_timestamp_seconds"] == {ROW: 1.7e9}
    other = client.post(PATH, json=_report(loss=9.0))
    assert other.status_code == 409
    assert "has other values for step 100 already" in other.json()["error"]
    assert samples(client)["actuary_evaluation_loss"] == {ROW: 1.5}
    assert _results(client) == {
        "stored": 1,
        "repeated": 1,
        "conflict": 1,
        "invalid": 0,
        "failed": 0,
    }


def test_the_newest_by_timestamp_is_shown_whole_and_the_first_loss_is_kept(
    client: httpx.Client,
) -> None:
    client.post(PATH, json=_report(step=1, timestamp=1.7e9, loss=4.0))
    client.post(PATH, json={"job_id": "job", "step": 3, "timestamp": 1.7e9 + 2, "quality": 0.9})
    client.post(PATH, json=_report(step=2, timestamp=1.7e9 + 1, loss=3.0))  # came late
    shown = samples(client)
    assert shown["actuary_quality_score"] == {ROW: 0.9}
    assert "actuary_evaluation_loss" not in shown
    assert "actuary_evaluation_score" not in shown
    assert shown["actuary_evaluation_initial_loss"] == {ROW: 4.0}
    client.post(PATH, json=_report(step=0, timestamp=1.7e9 - 1, loss=5.0))  # the first comes last
    assert samples(client)["actuary_evaluation_initial_loss"] == {ROW: 5.0}


def test_nan_and_infinities_are_withheld_and_counted_once(client: httpx.Client) -> None:
    body = '{"job_id": "job", "step": 1, "loss": NaN, "scores": {"a": 1e999, "b": 0.5}}'
    headers = {"Content-Type": "application/json"}
    answer = client.post(PATH, content=body, headers=headers)
    assert sorted(answer.json()["withheld"]) == ["loss", "scores.a"]
    assert client.post(PATH, content=body, headers=headers).json()["result"] == "repeated"
    shown = samples(client)
    assert "actuary_evaluation_loss" not in shown
    assert [dict(labels)["metric"] for labels in shown["actuary_evaluation_score"]] == ["b"]
    assert shown["actuary_evaluation_values_withheld_total"] == {(): 2}


def test_reports_survive_a_restart_of_the_sidecar(tmp_path: Path, token_file: Path) -> None:
    hostile = 'a/../b "q" \\ ünïcode 🚂 {x="1"}'
    for number in range(2):
        with (
            sidecar(tmp_path / "ranks", push_token_file=token_file) as server,
            httpx.Client(
                base_url=server.url, trust_env=False, headers={"Authorization": f"Bearer {TOKEN}"}
            ) as client,
        ):
            for job_id in ("job", hostile):
                answer = client.post(PATH, json=_report(job_id=job_id))
                assert answer.json()["result"] == ("repeated" if number else "stored")
            shown = samples(client)["actuary_evaluation_loss"]
            assert {dict(labels)["job_id"] for labels in shown} == {"job", hostile}
            assert sum(samples(client)["actuary_rank_files_rejected_total"].values()) == 0


def test_who_has_neither_token_nor_password_is_refused(tmp_path: Path, token_file: Path) -> None:
    (tmp_path / "web.yaml").write_text(USERS)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    wrong = {"Authorization": f"Bearer {TOKEN}x"}
    password = httpx.BasicAuth("alice", PASSWORD)
    cases: list[tuple[dict[str, Path], dict[str, Any], int, int]] = [
        ({}, {}, 403, 200),
        ({}, {"headers": bearer}, 403, 200),
        ({"push_token_file": token_file}, {}, 401, 200),
        ({"push_token_file": token_file}, {"headers": wrong}, 401, 200),
        ({"push_token_file": token_file}, {"headers": bearer}, 200, 200),
        ({"push_token_file": token_file}, {"auth": password}, 401, 200),
        ({"web_config": tmp_path / "web.yaml"}, {"auth": password}, 200, 200),
        ({"web_config": tmp_path / "web.yaml"}, {"headers": bearer}, 401, 401),
        ({"web_config": tmp_path / "web.yaml"}, {}, 401, 401),
        ({"web_config": tmp_path / "web.yaml", "push_token_file": token_file}, {}, 401, 401),
        # The token opens this one path and no other.
        (
            {"web_config": tmp_path / "web.yaml", "push_token_file": token_file},
            {"headers": bearer},
            200,
            401,
        ),
    ]
    for number, (options, credentials, push, metrics) in enumerate(cases):
        with sidecar(tmp_path / f"ranks{number}", **options) as server:
            answer = httpx.post(server.url + PATH, json=_report(), trust_env=False, **credentials)
            assert answer.status_code == push, (options, credentials)
            page = httpx.get(f"{server.url}/metrics", trust_env=False, **credentials)
            assert page.status_code == metrics, (options, credentials)


def test_a_changed_token_counts_at_once_and_a_broken_file_does_not_open_the_door(
    client: httpx.Client, token_file: Path
) -> None:
    token_file.write_text("")
    client.headers["Authorization"] = "Bearer"
    assert client.post(PATH, json=_report()).status_code == 401
    token_file.write_text("another-token-of-some-length")
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    assert client.post(PATH, json=_report()).status_code == 401
    client.headers["Authorization"] = "bearer another-token-of-some-length"
    assert client.post(PATH, json=_report()).status_code == 200


@pytest.mark.parametrize("content", ["", "short", "two words of sufficient length"])
def test_a_token_that_is_none_keeps_the_sidecar_from_starting(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    with (
        pytest.raises(UsageError, match="expected one token of at least 16 characters"),
        sidecar(tmp_path, push_token_file=tmp_path / "token"),
    ):
        pass


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        ({"job_id": None}, "job_id", "a text that is not empty"),
        ({"job_id": " job"}, "job_id", "without spaces around it"),
        ({"job_id": "a\nb"}, "job_id", "printable characters only"),
        ({"job_id": "\ud800"}, "job_id", "printable characters only"),
        ({"job_id": "ü" * 257}, "job_id", "at most 512 bytes"),
        ({"step": None}, "step", "a whole number from 0 to 2^53"),
        ({"step": -1}, "step", "a whole number from 0 to 2^53"),
        ({"step": 1.5}, "step", "a whole number from 0 to 2^53"),
        ({"step": True}, "step", "a whole number from 0 to 2^53"),
        ({"step": "7"}, "step", "a whole number from 0 to 2^53"),
        ({"timestamp": "now"}, "timestamp", "a number"),
        ({"timestamp": 0}, "timestamp", "seconds since the epoch"),
        ({"timestamp": 1.7e12}, "timestamp", "at most 300 s after this node's clock"),
        ({"scores": [1]}, "scores", "an object of numbers by metric name"),
        ({"scores": {"a": "x"}}, "scores.a", "a number"),
        ({"scores": {"": 1}}, "scores", "a text that is not empty"),
        ({"scores": {"m" * 65: 1}}, "scores", "at most 64 bytes"),
        ({"scores": dict.fromkeys("abcde", 1)}, "scores", "at most 4 scores, not 5"),
        ({"loss": "low"}, "loss", "a number"),
        ({"loss": True}, "loss", "a number"),
        ({"quality": 1.1}, "quality", "a number from 0 to 1, not 1.1"),
        ({"accuracy": 0.5}, "accuracy", "a score belongs into scores"),
        ({"scores": {}, "loss": None}, "", "at least one of scores, loss, quality"),
    ],
)
def test_a_wrong_report_is_told_its_field_and_what_was_expected(
    client: httpx.Client, change: dict[str, Any], field: str, expected: str
) -> None:
    body = json.dumps(_report(**change))
    answer = client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["field"] == field
    assert expected in answer.json()["expected"]
    assert "actuary_evaluation_timestamp_seconds" not in samples(client)
    assert _results(client)["invalid"] == 1


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 9000, b'{"step": 1, "step": 2}', b"9" * 5000]
)
def test_what_is_no_report_is_refused(client: httpx.Client, body: bytes) -> None:
    answer = client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "expected" in answer.json()["error"]


def test_the_way_of_asking_is_checked(client: httpx.Client) -> None:
    assert client.get(PATH).status_code == 405
    assert client.post(PATH, data={"job_id": "job"}).status_code == 415
    large = {"job_id": "job", "padding": "x" * 900_000}
    assert client.post(PATH, json=large).status_code == 413
    kind = {"Content-Type": "application/json"}
    assert client.post(PATH, content=iter([b"{}"]), headers=kind).status_code == 411


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
names = st.sampled_from(["job_id", "step", "timestamp", "scores", "loss", "quality", "x"])


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.dictionaries(names, json_values),
        st.fixed_dictionaries(
            {"job_id": st.just("j"), "step": st.integers(0, 9)},
            optional={
                "loss": json_values,
                "scores": json_values,
                "quality": json_values,
                "timestamp": json_values,
            },
        ),
    )
)
def test_whatever_is_sent_is_refused_or_finite(document: dict[str, Any]) -> None:
    try:
        evaluation = parse_evaluation(json.dumps(document).encode(), NOW)
    except InvalidEvaluationError as error:
        assert error.expected
        return
    numbers = [*evaluation.scores.values(), evaluation.loss, evaluation.quality]
    assert all(math.isfinite(number) for number in numbers if number is not None)
    assert evaluation.quality is None or 0 <= evaluation.quality <= 1
    assert 0 < evaluation.timestamp <= NOW + 300


reports = st.builds(
    Evaluation,
    st.just("job"),
    st.integers(0, 6),
    st.integers(1, 9).map(float),
    st.just({}),
    st.none() | st.integers(1, 3).map(float),
    st.just(0.5),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(reports, min_size=1, max_size=12))
def test_in_whatever_order_reports_come_the_newest_and_the_first_are_known(
    tmp_path_factory: pytest.TempPathFactory, sent: list[Evaluation]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store, kept = EvaluationStore(folder), {}
    for report in sent:
        known = kept.setdefault(report.step, report)
        if known.says_the_same(report):
            assert store.add(report) == ("stored" if known is report else "repeated")
        else:
            with pytest.raises(evaluationstore.ConflictError):
                store.add(report)
    for each in (store, EvaluationStore(folder)):  # the second has read the files
        shown = {name: value for name, _, _, value in each.samples()}
        newest = max(report.timestamp for report in kept.values())
        assert shown["actuary_evaluation_timestamp_seconds"] == newest
        losses = [report for report in kept.values() if report.loss is not None]
        first = min((report.timestamp for report in losses), default=None)
        initial = shown.get("actuary_evaluation_initial_loss")
        assert initial in {r.loss for r in losses if r.timestamp == first} or initial is first


def test_a_job_is_forgotten_a_week_after_its_last_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EvaluationStore(tmp_path)
    store.add(Evaluation("job", 1, 1.0, {}, 2.0))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 6.9 * 86400)
    assert list(store.samples())
    monkeypatch.setattr(time, "time", lambda: real() + 7.1 * 86400)
    assert not list(EvaluationStore(tmp_path).samples())
    assert not list(store.samples())
    assert not list(tmp_path.iterdir())


def test_more_jobs_than_there_is_room_for_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluationstore, "MAX_JOBS", 2)
    store = EvaluationStore(tmp_path)
    for name in ("a", "b"):
        store.add(Evaluation(name, 1, 1.0, {}, 2.0))
    with pytest.raises(evaluationstore.FullError, match="of 2 jobs at most"):
        store.add(Evaluation("c", 1, 1.0, {}, 2.0))
    store.add(Evaluation("a", 2, 2.0, {}, 1.0))


def test_files_that_are_not_the_sidecars_own_are_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = EvaluationStore(tmp_path)
    store.add(Evaluation("job", 1, 1.0, {"a": 0.5}, 2.0))
    (own,) = tmp_path.iterdir()
    (tmp_path / "renamed.evaluation").write_bytes(own.read_bytes())
    (tmp_path / "empty.evaluation").touch()
    (tmp_path / "junk.evaluation").write_text('{"version": 1, "latest": 3}')
    (tmp_path / "later.evaluation").write_text('{"version": 2}')
    (tmp_path / "folder.evaluation").mkdir()
    (tmp_path / "link.evaluation").symlink_to(own)
    again = EvaluationStore(tmp_path)
    assert {job for _, job, _, _ in again.samples()} == {"job"}
    assert caplog.text.count("Skipped: ") == 6


def test_a_report_that_cannot_be_kept_is_not_shown_and_can_be_sent_again(
    tmp_path: Path, client: httpx.Client
) -> None:
    (tmp_path / "ranks").write_text("in the way")
    answer = client.post(PATH, json=_report())
    assert answer.status_code == 503
    assert "cannot keep it: " in answer.json()["error"]
    assert "actuary_evaluation_loss" not in samples(client)
    (tmp_path / "ranks").unlink()
    assert client.post(PATH, json=_report()).json()["result"] == "stored"


def test_prometheus_sees_what_was_reported(
    tmp_path: Path, client: httpx.Client, token_file: Path
) -> None:
    client.post(PATH, json=_report())
    target = str(client.base_url).removeprefix("http://").rstrip("/")
    job = {"job_name": "actuary-sidecar", "static_configs": [{"targets": [target]}]}
    with prometheus(tmp_path / "prometheus", scrape=[job]) as server:
        query = 'actuary_evaluation_loss{rank="service"}'
        wait_for(lambda: bool(server.query(query)), seconds=30, what="the scrape")
        (sample,) = server.query(query)
        assert sample.value == 1.5
