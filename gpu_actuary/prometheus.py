"""A small client of Prometheus's HTTP API: queries, targets, rules, reload.

Every failure becomes a :class:`PrometheusError` that names the address, what was asked and what
came back. Sample values arrive as ``float``; NaN and infinities are kept, so that the caller
decides what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from gpu_actuary.errors import PrometheusError, PrometheusUnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

DEFAULT_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of an instant query."""

    labels: Mapping[str, str]
    timestamp: float
    value: float


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """One series of a range query; ``points`` are (Unix seconds, value) in time order."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


class PrometheusClient:
    """Talks to one Prometheus-compatible server.

    ``url`` is the base address, with a path prefix where there is one (Mimir's
    ``http://mimir/prometheus``). ``headers`` go with every request, for example ``X-Scope-OrgID``
    or ``Authorization``.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        try:
            # trust_env off: a proxy meant for the internet must not swallow a cluster's address.
            self._http = httpx.Client(
                base_url=self.url, timeout=timeout, headers=dict(headers or {}), trust_env=False
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise PrometheusError(f"{url!r} is not a web address: {error}") from error
        base = self._http.base_url
        if base.scheme not in ("http", "https") or not base.host:
            self._http.close()
            raise PrometheusError(
                f"{url!r} is not a web address; expected one such as http://127.0.0.1:9090"
            )

    def __enter__(self) -> PrometheusClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def query(self, promql: str, *, at: float | None = None) -> list[Sample]:
        """Evaluate ``promql`` at the Unix time ``at`` (now when None).

        A scalar result is returned as one sample without labels. Raises
        :class:`PrometheusError`, also for warnings-with-error answers and for a range result.
        """
        parameters = {"query": promql}
        if at is not None:
            parameters["time"] = repr(at)
        data = self._call("POST", "/api/v1/query", parameters, what=promql)
        kind, result = data["resultType"], data["result"]
        if kind == "scalar":
            return [Sample({}, float(result[0]), float(result[1]))]
        if kind != "vector":
            raise PrometheusError(f"{self.url}: expected a vector from {promql!r}, got {kind}")
        return [Sample(r["metric"], float(r["value"][0]), float(r["value"][1])) for r in result]

    def query_range(
        self, promql: str, *, start: float, end: float, step: float
    ) -> list[TimeSeries]:
        """Evaluate ``promql`` every ``step`` seconds from ``start`` to ``end`` (Unix seconds)."""
        parameters = {
            "query": promql,
            "start": repr(start),
            "end": repr(end),
            "step": repr(step),
        }
        data = self._call("POST", "/api/v1/query_range", parameters, what=promql)
        return [
            TimeSeries(r["metric"], tuple((float(t), float(v)) for t, v in r["values"]))
            for r in data["result"]
        ]

    def stored(self, selector: str, *, start: float, end: float) -> list[TimeSeries]:
        """The samples of ``selector`` as they are stored, with their own times.

        Both ends (Unix seconds) belong to the result. Nothing is repeated over a gap, as
        :meth:`query_range` does for five minutes.
        """
        # From Prometheus 3 on a range is open on its left: one millisecond more brings it back.
        milliseconds = round(end * 1000) - round(start * 1000) + 1
        data = self._call(
            "POST",
            "/api/v1/query",
            {"query": f"{selector}[{milliseconds}ms]", "time": f"{end:.3f}"},
            what=selector,
        )
        if data["resultType"] != "matrix":
            raise PrometheusError(
                f"{self.url}: expected stored samples of {selector!r}, got {data['resultType']}"
            )
        found = []
        for result in data["result"]:
            points = tuple((float(t), float(v)) for t, v in result["values"])
            found.append(
                TimeSeries(result["metric"], tuple(p for p in points if p[0] > start - 0.0005))
            )
        return found

    def targets(self) -> list[dict[str, Any]]:
        """The active scrape targets as Prometheus describes them."""
        data = self._call("GET", "/api/v1/targets", {"state": "active"}, what="targets")
        targets: list[dict[str, Any]] = data["activeTargets"]
        return targets

    def rule_groups(self) -> list[dict[str, Any]]:
        """The loaded rule groups with their health."""
        data = self._call("GET", "/api/v1/rules", {}, what="rules")
        groups: list[dict[str, Any]] = data["groups"]
        return groups

    def reload(self) -> None:
        """Ask the server to read its configuration again; needs ``--web.enable-lifecycle``."""
        response = self._send("POST", "/-/reload", {}, what="reload")
        if response.status_code in (403, 404, 405):
            raise PrometheusError(
                f"{self.url} refuses to reload (HTTP {response.status_code}): "
                "start it with --web.enable-lifecycle"
            )
        if response.status_code != httpx.codes.OK:
            raise PrometheusError(
                f"{self.url} could not reload (HTTP {response.status_code}): {_excerpt(response)}"
            )

    def ready(self) -> bool:
        """Whether the server answers and says that it is ready."""
        try:
            return self._http.get("/-/ready").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def _send(
        self, method: str, path: str, parameters: Mapping[str, str], *, what: str
    ) -> httpx.Response:
        try:
            if method == "POST":
                return self._http.post(path, data=dict(parameters))
            return self._http.get(path, params=dict(parameters))
        except httpx.TimeoutException as error:
            raise PrometheusUnreachableError(
                f"{self.url} did not answer within {self._http.timeout.read} s ({what})"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PrometheusUnreachableError(
                f"{self.url} cannot be reached ({what}): {error}"
            ) from error

    def _call(
        self, method: str, path: str, parameters: Mapping[str, str], *, what: str
    ) -> dict[str, Any]:
        response = self._send(method, path, parameters, what=what)
        try:
            body = response.json()
        except ValueError as error:
            raise PrometheusError(
                f"{self.url}{path} answered HTTP {response.status_code} with something that is "
                f"not JSON; is it a Prometheus? {_excerpt(response)}"
            ) from error
        if not isinstance(body, dict) or body.get("status") != "success":
            detail = body.get("error", "no reason given") if isinstance(body, dict) else body
            raise PrometheusError(f"{self.url} refused {what!r}: {detail}")
        data: dict[str, Any] | None = body.get("data")
        if not isinstance(data, dict):
            raise PrometheusError(f"{self.url} answered {what!r} without data; is it a Prometheus?")
        return data


def _excerpt(response: httpx.Response, limit: int = 300) -> str:
    text = " ".join(response.text.split())
    return text if len(text) <= limit else text[:limit] + "…"
