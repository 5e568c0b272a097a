"""Bringing the evaluations that trainings log to MLflow to the series of the business layer."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .evaluation import (
    CLOCK_TOLERANCE_SECONDS,
    JOB_ID_BYTES,
    Evaluation,
    InvalidEvaluationError,
    text,
)
from .evaluationstore import RETENTION_SECONDS, FullError
from .mlflowclient import MlflowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .evaluationstore import EvaluationStore
    from .mlflowclient import Metric, MlflowClient, Run

log = logging.getLogger("gpu_actuary")

JOB_ID_KEY: Final = "actuary.job_id"
"""The tag, else the parameter, that names the job of a run; else its name does."""
OUTCOMES: Final = ("used", "without_metrics", "old", "unusable")


@dataclass(frozen=True, slots=True)
class MlflowSettings:
    """What to look for. ``experiments`` empty: all that are active."""

    experiments: Sequence[str] = ()
    accuracy: str = "accuracy"
    loss: str = "eval_loss"
    interval_seconds: float = 30.0


class MlflowPoller:
    """Asks the server now and then and keeps what it says in ``store``.

    ``up`` is whether the last answer was whole (None before the first), ``runs`` what became of the
    runs in it. A server that is away costs nothing but their freshness.
    """

    def __init__(
        self, client: MlflowClient, settings: MlflowSettings, store: EvaluationStore
    ) -> None:
        self._client = client
        self._settings = settings
        self._store = store
        self._first_loss_known: set[str] = set()
        self._said: set[str] = set()
        self._ended = threading.Event()
        self.up: bool | None = None
        self.runs = dict.fromkeys(OUTCOMES, 0)

    def start(self) -> None:
        """Begin, in a thread that ends with :meth:`stop` or the process."""
        threading.Thread(target=self._run, name="mlflow", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.poll()
            except (MlflowError, FullError, OSError) as error:
                self._change(up=False, text=f"No evaluations from MLflow: {error}")
            except Exception:
                # Whatever the server made us do, the sidecar's other work goes on.
                log.exception("Reading from MLflow failed; it is tried again.")
                self.up = False
            else:
                self._change(up=True, text="MLflow answers.")
            self._ended.wait(self._settings.interval_seconds)

    def poll(self) -> None:
        """Ask once. Raises :class:`MlflowError`, and what the store raises."""
        runs = dict.fromkeys(OUTCOMES, 0)
        identifiers = self._client.experiment_ids(self._settings.experiments)
        # The oldest first, so that of runs with one job id and one time the last one wins.
        for run in reversed(self._client.runs(identifiers)):
            runs[self._take(run)] += 1
        self.runs = runs

    def _take(self, run: Run) -> str:
        found = {
            name: run.metrics[name]
            for name in (self._settings.accuracy, self._settings.loss)
            if name in run.metrics
        }
        if not found:
            return "without_metrics"
        newest = max(found.values(), key=lambda metric: metric.timestamp)
        now = time.time()
        if newest.timestamp < now - RETENTION_SECONDS:
            return "old"
        try:
            job_id = _checked_job_id(run, newest.timestamp - now)
        except InvalidEvaluationError as error:
            self._say_once(f"The MLflow run {run.run_id} is left out: {error}")
            return "unusable"
        if self._settings.loss in found and run.run_id not in self._first_loss_known:
            self._take_first_loss(run, job_id)
        self._store.replace(self._evaluation(job_id, found, newest))
        return "used"

    def _take_first_loss(self, run: Run, job_id: str) -> None:
        """L₀ of the job may lie before the first poll: look it up once per run."""
        history = self._client.history(run.run_id, self._settings.loss)
        finite = [metric for metric in history if math.isfinite(metric.value)]
        first = min(finite, key=lambda metric: (metric.timestamp, metric.step), default=None)
        if first is not None:
            self._store.replace(
                Evaluation(job_id, first.step, first.timestamp, {}, loss=first.value)
            )
            self._first_loss_known.add(run.run_id)

    def _evaluation(self, job_id: str, found: dict[str, Metric], newest: Metric) -> Evaluation:
        accuracy, loss = found.get(self._settings.accuracy), found.get(self._settings.loss)
        withheld = [name for name, metric in found.items() if not math.isfinite(metric.value)]
        return Evaluation(
            job_id,
            newest.step,
            newest.timestamp,
            # Under the name that the rules look for, whatever it is called in MLflow.
            {"accuracy": accuracy.value} if accuracy and math.isfinite(accuracy.value) else {},
            loss=loss.value if loss and math.isfinite(loss.value) else None,
            withheld=tuple(withheld),
        )

    def _change(self, *, up: bool, text: str) -> None:
        if self.up is not up:
            log.log(logging.INFO if up else logging.WARNING, text)
        self.up = up

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            log.warning(text)


def _checked_job_id(run: Run, seconds_ahead: float) -> str:
    """The run's job; raises :class:`InvalidEvaluationError` where the run is of no use."""
    if seconds_ahead > CLOCK_TOLERANCE_SECONDS:
        raise InvalidEvaluationError("its metrics", "expected no time in the future")
    chosen = run.tags.get(JOB_ID_KEY) or run.params.get(JOB_ID_KEY) or run.name
    return text("its job id", chosen, JOB_ID_BYTES)
