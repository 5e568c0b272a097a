"""The command ``actuary``: a table of commands whose code is loaded only when one is called.

Exit codes: 0 fine, 1 findings (or a failure while working), 2 usage.
"""

from __future__ import annotations

import importlib
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpu_actuary import __version__
from gpu_actuary.errors import ActuaryError, UsageError

if TYPE_CHECKING:
    from types import FrameType

EXIT_FINDINGS = 1
EXIT_USAGE = 2


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command lives: a function, or a :class:`typer.Typer` with commands of its own.

    ``extra`` is the pip extra that brings what the module imports.
    """

    module: str
    attribute: str
    help: str
    extra: str | None = None


COMMANDS: dict[str, Command] = {
    "init": Command("gpu_actuary.generator.cli", "init", "Write a commented set of specs."),
    "render": Command(
        "gpu_actuary.generator.cli",
        "render",
        "Render specs into rule files, Alertmanager configuration and rule tests.",
    ),
    "check": Command("gpu_actuary.generator.cli", "check", "Check specs, PromQL and rule tests."),
    "apply": Command("gpu_actuary.generator.cli", "apply", "Install rules and read them back."),
    "explain": Command("gpu_actuary.generator.cli", "explain", "Show a final spec and its PromQL."),
    "exporter": Command(
        "gpu_actuary.exporters.cli", "exporter", "Run the node sidecar.", extra="exporter"
    ),
    "dashboards": Command(
        "gpu_actuary.grafana.cli", "dashboards", "Write the dashboards.", extra="dashboards"
    ),
    "predictor": Command(
        "gpu_actuary.predictor.cli",
        "predictor",
        "Failure probability and elastic budget.",
        extra="predictor",
    ),
    "statement": Command(
        "gpu_actuary.ledger.cli", "statement", "Print the balance sheet of a period."
    ),
    "simulate": Command(
        "gpu_actuary.simulator.cli", "simulate", "Serve a simulated fleet.", extra="simulator"
    ),
    "catalogue": Command("gpu_actuary.catalogue.cli", "catalogue", "List every series."),
}


def _load(name: str, entry: Command) -> Any:
    try:
        return getattr(importlib.import_module(entry.module), entry.attribute)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if entry.extra is None or missing == "gpu_actuary":
            raise
        raise UsageError(
            f"the command {name!r} needs the Python package {missing!r}, which is not installed.\n"
            f"Install it with: pip install 'gpu-actuary[{entry.extra}]'"
        ) from error


def _unloaded() -> None:
    """Stands for a command that this call does not name; it is never run."""


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"actuary {__version__}")
        raise typer.Exit


def _top(
    version: Annotated[  # the callback of the option does the work
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Compute accounting for AI clusters on Prometheus and Grafana."""


def build(selected: str | None) -> typer.Typer:
    """The command tree, in which only the command ``selected`` is really loaded."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_top)
    for name, entry in COMMANDS.items():
        if name != selected:
            app.command(name, help=entry.help)(_unloaded)
            continue
        target = _load(name, entry)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name, help=entry.help)
        else:
            app.command(name)(target)
    return app


def _terminate(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Entry point of the console script."""
    # Whatever is at work puts back what it changed, as for Ctrl-C. Services have handlers of their own.
    signal.signal(signal.SIGTERM, _terminate)
    selected = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    try:
        build(selected)()
    except UsageError as error:
        typer.echo(f"actuary: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except ActuaryError as error:
        typer.echo(f"actuary: {error}", err=True)
        sys.exit(EXIT_FINDINGS)
    except BrokenPipeError:
        # The reader of our output went away (`actuary catalogue | head`): not an error of ours.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
