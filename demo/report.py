"""What the demonstration prints, and its summary for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .settings import JOB_ID, SERVICES
from .stack import statement

if TYPE_CHECKING:
    from rich.console import Console

    from .checks import Check, Checks
    from .settings import Settings


def print_results(console: Console, settings: Settings, checks: Checks) -> None:
    """The addresses, the real job's figures, and the balance sheets."""
    console.print("\nAddresses")
    for service in SERVICES:
        if service != "notifications":
            console.print(f"  {service:<13} {settings.url(service)}")
    console.print(f"  {'dashboards':<13} {settings.folder / 'grafana'} (for a Grafana of yours)")
    console.print(f"\nThe real job {JOB_ID}, two ranks on this machine's CPU, now")
    for name, value in checks.figures.items():
        console.print(f"  {name:<22} {value:.4g}")
    recompute = checks.stated_job()["gpu_hours_by_state"]["recompute"]
    console.print(
        f"  {'recompute':<22} {recompute * 3600:.1f} device-seconds so far, after the kill"
    )
    if checks.rules_not_due:
        console.print(f"\n{checks.rules_not_due} rules of long intervals are not due yet.")
    print_statement(console, settings, checks)


def print_statement(console: Console, settings: Settings, checks: Checks) -> None:
    """The balance sheets since the start."""
    console.print(statement(settings, *checks.statement_arguments()))


def print_alerts(console: Console, alerts: list[str]) -> None:
    """What Alertmanager has sent."""
    console.print(f"Alertmanager has notified us of {len(alerts)} alerts")
    for alert in alerts:
        console.print(f"  {alert}")


def print_failure(console: Console, check: Check, log: str) -> None:
    """Why a check failed."""
    console.print(f"\nFAILED: {check.name}: {check.missing}")
    if log:
        console.print(f"--- end of the log of {check.log}")
        console.print(log)


def summary(
    settings: Settings, checks: Checks, seconds: float, alerts: list[str]
) -> dict[str, Any]:
    """The run as plain data."""
    return {
        "passed": not checks.missing(),
        "elapsed_seconds": round(seconds, 1),
        "checks": [
            {"name": check.name, "passed": check.passed, "missing": check.missing}
            for check in checks.all
        ],
        "addresses": {service: settings.url(service) for service in SERVICES},
        "figures": checks.figures,
        "rules_not_due": checks.rules_not_due,
        "notifications": alerts,
        "statement": checks.statement,
    }
