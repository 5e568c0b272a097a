"""The few questions that the sidecar asks an MLflow tracking server, over its REST API."""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from gpu_actuary.errors import ActuaryError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_RUNS: Final = 500
"""The runs that are looked at: those that started last."""

_API: Final = "/api/2.0/mlflow"
_PAGE: Final = 200
_EXPERIMENTS_PAGE: Final = 1000
_HISTORY_PAGE: Final = 25_000
_TIMEOUT_SECONDS: Final = 15.0


class MlflowError(ActuaryError):
    """The tracking server did not answer, or answered with an error or with something else."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A logged value, maybe NaN or infinite; ``timestamp`` in Unix seconds."""

    value: float
    timestamp: float
    step: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run with the latest value of each of its metrics."""

    run_id: str
    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, Metric]


class MlflowClient:
    """Talks to the tracking server at ``uri``.

    ``environment`` may hold what MLflow's own client reads there: MLFLOW_TRACKING_USERNAME and
    _PASSWORD, MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_SERVER_CERT_PATH.
    """

    def __init__(self, uri: str, environment: Mapping[str, str]) -> None:
        """Raises :class:`UsageError` for an address or a certificate that cannot work."""
        _check(uri)
        user = environment.get("MLFLOW_TRACKING_USERNAME")
        token = environment.get("MLFLOW_TRACKING_TOKEN")
        password = environment.get("MLFLOW_TRACKING_PASSWORD", "")
        authority = environment.get("MLFLOW_TRACKING_SERVER_CERT_PATH")
        try:
            # trust_env off: a proxy meant for the internet must not swallow a cluster's address.
            self._http = httpx.Client(
                base_url=uri.rstrip("/") + _API,
                auth=(user, password) if user else None,
                headers={"Authorization": f"Bearer {token}"} if token and not user else {},
                verify=ssl.create_default_context(cafile=authority or None),
                timeout=_TIMEOUT_SECONDS,
                trust_env=False,
            )
        except OSError as error:
            raise UsageError(f"MLFLOW_TRACKING_SERVER_CERT_PATH {authority}: {error}") from error

    def experiment_ids(self, names: Sequence[str]) -> list[str]:
        """The ids of the experiments ``names``, of all active ones without names.

        Raises :class:`MlflowError`, also for a name that there is not.
        """
        found = {
            str(entry["name"]): str(entry["experiment_id"])
            for entry in self._pages("experiments/search", "experiments", _EXPERIMENTS_PAGE, {})
        }
        for name in names:
            if name not in found:
                raise MlflowError(f"there is no active experiment {name!r}")
        return [found[name] for name in names] if names else list(found.values())

    def runs(self, experiment_ids: Sequence[str]) -> list[Run]:
        """The last :data:`MAX_RUNS` runs of the experiments. Raises :class:`MlflowError`."""
        question = {"experiment_ids": experiment_ids, "order_by": ["attributes.start_time DESC"]}
        runs: list[Run] = []
        if experiment_ids:
            for entry in self._pages("runs/search", "runs", _PAGE, question):
                runs.append(_run(entry))
                if len(runs) == MAX_RUNS:
                    break
        return runs

    def history(self, run_id: str, metric: str) -> list[Metric]:
        """Every value of ``metric``, in no particular order. Raises :class:`MlflowError`."""
        found, token = [], ""
        while True:
            question = {"run_id": run_id, "metric_key": metric, "max_results": _HISTORY_PAGE}
            document = self._ask("GET", "metrics/get-history", {**question, "page_token": token})
            found += [_metric(entry) for entry in document.get("metrics", [])]
            token = document.get("next_page_token", "")
            if not token:
                return found

    def _pages(
        self, path: str, field: str, size: int, question: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            page = {"page_token": token} if token else {}
            document = self._ask("POST", path, {**question, "max_results": size, **page})
            yield from document.get(field, [])
            token = document.get("next_page_token", "")
            if not token:
                return

    def _ask(self, method: str, path: str, question: Mapping[str, Any]) -> dict[str, Any]:
        where = f"{self._http.base_url}{path}"
        try:
            if method == "POST":
                answer = self._http.post(path, json=question)
            else:
                filled = {name: value for name, value in question.items() if value != ""}
                answer = self._http.get(path, params=filled)
        except httpx.HTTPError as error:
            raise MlflowError(f"{where}: {error or type(error).__name__}") from error
        if answer.status_code != httpx.codes.OK:
            raise MlflowError(f"{where}: HTTP {answer.status_code}: {answer.text[:200].strip()}")
        try:
            document = answer.json()
        except ValueError as error:
            raise MlflowError(f"{where}: expected JSON; is this an MLflow server?") from error
        if not isinstance(document, dict):
            raise MlflowError(f"{where}: expected a JSON object; is this an MLflow server?")
        return document


def _check(uri: str) -> None:
    """Raises :class:`UsageError` unless ``uri`` is a web address without a password in it."""
    try:
        url = httpx.URL(uri)
    except httpx.InvalidURL as error:
        raise UsageError(f"--mlflow: expected a web address: {error}") from error
    if url.userinfo:
        raise UsageError(
            "--mlflow: a password in the address would show in logs and process lists; set"
            " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"--mlflow {uri!r}: expected http://HOST:PORT of a tracking server")


def _run(entry: dict[str, Any]) -> Run:
    try:
        info, data = entry["info"], entry.get("data", {})
        return Run(
            str(info["run_id"]),
            str(info.get("run_name", "")),
            {str(tag["key"]): str(tag["value"]) for tag in data.get("tags", [])},
            {str(param["key"]): str(param["value"]) for param in data.get("params", [])},
            {str(metric["key"]): _metric(metric) for metric in data.get("metrics", [])},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise MlflowError(f"a run of the answer is unreadable: {error!r}") from error


def _metric(entry: dict[str, Any]) -> Metric:
    try:
        # NaN and infinities come as words; a proto3 writer leaves out what is 0.
        value = float(entry.get("value", 0.0))
        timestamp = float(entry.get("timestamp", 0)) / 1000
        step = int(entry.get("step", 0))
    except (TypeError, ValueError) as error:
        raise MlflowError(f"a metric of the answer is unreadable: {error!r}") from error
    if not math.isfinite(timestamp):
        raise MlflowError("a metric of the answer has no time")
    return Metric(value, timestamp, step)
