"""What must hold for the demonstration to count as passed, each with what is missing so far."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpu_actuary.errors import PrometheusError

from .settings import CLUSTER, DEAD_NODE, JOB_ID, DemoError
from .stack import statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_actuary.prometheus import PrometheusClient

    from .settings import Settings

RANKS = 2
TARGETS = {
    "prometheus": 1,
    "alertmanager": 1,
    "actuary-predictor": 1,
    "actuary-sidecar": 6,
    "dcgm": 5,
}
BALANCE_TOLERANCE = 0.001
SHEETS = {(CLUSTER, ""), ("simulated", "simulated")}

JOB = f'{{cluster="{CLUSTER}", source="", job_id="{JOB_ID}"}}'
FIGURES = {
    "η": f"job:communication_efficiency:ratio{JOB}",
    "data-wait share": f"job:data_wait:ratio{JOB}",
    "loss": f"job:loss:avg{JOB}",
    "convergence per hour": f"job:convergence:per_hour{JOB}",
    "accuracy": f"job:quality_accuracy:ratio{JOB}",
    "quality": f"job:quality:ratio{JOB}",
    "ROI": f"job:roi:ratio{JOB}",
    "MFU": f"job:mfu:ratio{JOB}",
}
PER_RANK = {
    "η": f"rank:communication_efficiency:ratio{JOB}",
    "data wait": f'rank:phase_time:rate{JOB[:-1]}, phase="data_wait"}} > 0',
    "loss": f"actuary_loss{JOB}",
    "accuracy": f'actuary_evaluation_score{JOB[:-1]}, metric="accuracy"}}',
}


@dataclass(slots=True)
class Check:
    """One condition. ``probe`` returns what is missing, "" when nothing is."""

    name: str
    log: str
    """The process whose log tells most when the check fails."""
    probe: Callable[[], str]
    missing: str = field(default="not looked at yet", init=False)

    @property
    def passed(self) -> bool:
        """Whether nothing was missing at the last look."""
        return not self.missing

    def look(self) -> None:
        """Look again."""
        try:
            self.missing = self.probe()
        except (PrometheusError, DemoError) as error:
            self.missing = str(error)


class Checks:
    """All conditions of one run, and the results that they looked at."""

    def __init__(self, settings: Settings, client: PrometheusClient) -> None:
        self._settings = settings
        self._client = client
        self._began = time.time()
        self.figures: dict[str, float] = {}
        """Of the real job, by name."""
        self.statement: dict[str, Any] = {}
        """The latest ``actuary statement`` in JSON."""
        self.rules_not_due = 0
        self._live = (
            Check("every target answers but the dead node's", "prometheus", self._targets),
            Check("every rule is healthy", "prometheus", self._rules),
            Check("Prometheus has found Alertmanager", "alertmanager", self._alertmanager),
            Check("both real ranks report", "training", self._ranks),
            Check("the real job has all its figures", "training", self._job),
            Check("the real job has an elastic budget", "predictor", self._budget),
        )
        # Writing a statement takes a process: it waits until the others hold.
        self._stated = (
            Check("the balance sheets balance", "statement", self._balance),
            Check("the killed job did lost steps again", "training", self._recompute),
        )
        self.all = (*self._live, *self._stated)

    def look(self) -> bool:
        """Look at all conditions; returns whether all hold."""
        for check in self._live:
            check.look()
        if all(check.passed for check in self._live):
            for check in self._stated:
                check.look()
        return not self.missing()

    def missing(self) -> list[Check]:
        """The conditions that do not hold."""
        return [check for check in self.all if not check.passed]

    def statement_arguments(self) -> tuple[str, str]:
        """The options of ``actuary statement`` for the time since the start."""
        return ("--since", f"{self._began:.3f}")

    def _targets(self) -> str:
        targets = self._client.targets()
        counts = dict.fromkeys(TARGETS, 0)
        down = []
        for target in targets:
            labels = target["labels"]
            counts[labels["job"]] = counts.get(labels["job"], 0) + 1
            if target["health"] != "up" and labels.get("node") != DEAD_NODE:
                down.append(f"{target['scrapeUrl']} is {target['health']} {target['lastError']}")
        if counts != TARGETS:
            return f"expected targets {TARGETS}, found {counts}"
        return "; ".join(down)

    def _rules(self) -> str:
        """Rules of long intervals are evaluated for the first time after up to one interval."""
        running = time.time() - self._began
        sick, self.rules_not_due, healthy = [], 0, 0
        for group in self._client.rule_groups():
            for rule in group["rules"]:
                if rule["health"] == "ok" and not rule.get("lastError"):
                    healthy += 1
                elif rule["health"] == "unknown" and running < group["interval"]:
                    self.rules_not_due += 1
                else:
                    sick.append(f"{rule['name']} is {rule['health']} {rule.get('lastError', '')}")
        return "; ".join(sick) if healthy else "no rule has been evaluated"

    def _alertmanager(self) -> str:
        found = self._client.query("prometheus_notifications_alertmanagers_discovered")
        return "" if any(sample.value > 0 for sample in found) else "none is discovered"

    def _ranks(self) -> str:
        counts = {
            name: len(self._client.query(f"group by (rank) ({promql})"))
            for name, promql in PER_RANK.items()
        }
        return ", ".join(
            f"{name} of {count} of {RANKS} ranks" for name, count in counts.items() if count < RANKS
        )

    def _job(self) -> str:
        for name, promql in FIGURES.items():
            samples = self._client.query(promql)
            if samples:
                self.figures[name] = samples[0].value
            else:
                self.figures.pop(name, None)
        return ", ".join(name for name in FIGURES if name not in self.figures)

    def _budget(self) -> str:
        return "" if self._client.query(f"actuary_elastic_budget{JOB}") else "no budget yet"

    def _balance(self) -> str:
        text = statement(self._settings, *self.statement_arguments(), "--format", "json")
        self.statement = json.loads(text)
        sources = {(sheet["cluster"], sheet["source"]) for sheet in self.statement["sheets"]}
        if sources != SHEETS:
            return f"expected sheets of {sorted(SHEETS)}, found {sorted(sources)}"
        residuals = {
            sheet["cluster"]: abs(sheet["residual_gpu_hours"]) / sheet["assets_gpu_hours"]
            for sheet in self.statement["sheets"]
        }
        return ", ".join(
            f"the residual of {cluster} is {100 * ratio:.3g} % of its assets"
            for cluster, ratio in residuals.items()
            if not ratio <= BALANCE_TOLERANCE
        )

    def _recompute(self) -> str:
        hours = self.stated_job().get("gpu_hours_by_state", {})
        return "" if hours.get("recompute", 0) > 0 else "no recompute in the statement yet"

    def stated_job(self) -> dict[str, Any]:
        """The real job in the latest statement; empty when it is not there."""
        for sheet in self.statement.get("sheets", ()):
            for job in sheet["jobs"]:
                if job["job_id"] == JOB_ID and not sheet["simulated"]:
                    found: dict[str, Any] = job
                    return found
        return {}
