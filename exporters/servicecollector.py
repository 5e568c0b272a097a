"""What the sidecar says about its own optional parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from .families import family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from .evaluationapi import EvaluationApi
    from .evaluationstore import EvaluationStore
    from .mlflowpoller import MlflowPoller
    from .websecurity import WebSecurity


class ServiceCollector(Collector):
    """Shows the health of the parts that are switched on."""

    def __init__(
        self,
        security: WebSecurity | None,
        evaluations: EvaluationStore | None,
        api: EvaluationApi | None,
        mlflow: MlflowPoller | None,
    ) -> None:
        self._security = security
        self._evaluations = evaluations
        self._api = api
        self._mlflow = mlflow

    def collect(self) -> Iterator[Metric]:
        """The families of the parts that there are."""
        if self._security is not None:
            in_force = family("actuary_exporter_web_config_in_force")
            in_force.add_metric((), float(self._security.up_to_date))
            yield in_force
        if self._evaluations is not None:
            withheld = family("actuary_evaluation_values_withheld_total")
            withheld.add_metric((), float(self._evaluations.withheld))
            yield withheld
        if self._api is not None:
            reports = family("actuary_evaluation_reports_total")
            for result, count in self._api.results.items():
                reports.add_metric((result,), float(count))
            yield reports
        if self._mlflow is not None and self._mlflow.up is not None:
            up = family("actuary_mlflow_up")
            up.add_metric((), float(self._mlflow.up))
            yield up
            runs = family("actuary_mlflow_runs")
            for outcome, count in self._mlflow.runs.items():
                runs.add_metric((outcome,), float(count))
            yield runs
