"""The statement as a JSON document; every key that holds a quantity ends in its unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_actuary.catalogue.vocabulary import EQUITY, SIDES, STATES

from .period import iso

if TYPE_CHECKING:
    from gpu_actuary.formulas.balance import BalanceSheet

    from .statement import Job, Sheet, Statement


def as_document(statement: Statement) -> dict[str, Any]:
    """The statement as plain data. Nothing is rounded; what is unknown is null."""
    period = statement.period
    return {
        "document": "gpu-actuary/statement/v1",
        "prometheus_url": statement.url,
        "period": {
            "since": iso(period.since),
            "until": iso(period.until),
            "duration_seconds": period.seconds,
        },
        "sheets": [_sheet(sheet) for sheet in statement.sheets],
    }


def _sheet(sheet: Sheet) -> dict[str, Any]:
    hours = sheet.gpu_hours
    return {
        "cluster": sheet.cluster,
        "source": sheet.source,
        "simulated": sheet.simulated,
        "coverage_ratio": sheet.coverage,
        "evaluation_interval_seconds": sheet.interval_seconds,
        "samples": sheet.samples,
        "assets_gpu_hours": hours.assets,
        "liabilities_gpu_hours": hours.total_liabilities,
        "equity_gpu_hours": hours.total_equity,
        "residual_gpu_hours": hours.residual,
        "assets_money_by_currency": {c: b.assets for c, b in sheet.money.items()},
        "liabilities_money_by_currency": {c: b.total_liabilities for c, b in sheet.money.items()},
        "equity_money_by_currency": {c: b.total_equity for c, b in sheet.money.items()},
        "states": [_state(sheet, state) for state in STATES],
        "contingent_liability_money_by_currency": sheet.elastic_budget or None,
        "gpus_with_assumed_power": sheet.gpus_with_assumed_power,
        "jobs": [_job(job) for job in sheet.jobs],
    }


def _state(sheet: Sheet, state: str) -> dict[str, Any]:
    side = SIDES[state]

    def amount(balance: BalanceSheet) -> float:
        rows = balance.liabilities if side == "liability" else balance.equity
        return rows[state]

    hours = amount(sheet.gpu_hours)
    return {
        "state": state,
        "side": side,
        "equity_kind": EQUITY.get(state),
        "gpu_hours": hours,
        "share_of_assets_ratio": hours / sheet.gpu_hours.assets if sheet.gpu_hours.assets else None,
        "money_by_currency": {c: amount(b) for c, b in sheet.money.items()},
    }


def _job(job: Job) -> dict[str, Any]:
    waste = job.largest_waste
    return {
        "job_id": job.job_id,
        "gpu_hours": job.gpu_hours,
        "gpu_hours_by_state": job.gpu_hours_by_state,
        "money_by_currency": job.cost,
        "largest_waste_state": waste[0] if waste else None,
        "largest_waste_ratio": waste[1] if waste else None,
        "communication_efficiency_ratio": job.communication_efficiency,
        "data_wait_ratio": job.data_wait,
        "last_loss": job.loss,
        "last_accuracy_ratio": job.accuracy,
        "last_quality_ratio": job.quality,
        "mfu_ratio": job.mfu,
        "mean_roi_quality_per_gpu_hour_and_energy_money": job.roi,
    }
