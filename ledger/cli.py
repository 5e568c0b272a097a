"""``actuary statement``: the balance sheet of a period."""

from __future__ import annotations

import enum
import json
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from gpu_actuary.errors import UsageError
from gpu_actuary.prometheus import PrometheusClient

from .document import as_document
from .period import parse_period
from .statement import read_statement
from .table import print_statement

TIMEOUT_SECONDS = 120.0
WIDTH_OF_FILES = 132


class Format(enum.StrEnum):
    """How the statement is written."""

    TABLE = "table"
    JSON = "json"


def statement(
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="Address of Prometheus, with its path prefix.")
    ] = "http://127.0.0.1:9090",
    since: Annotated[
        str, typer.Option(help="Begin: a duration before the end (24h, 7d), or a time.")
    ] = "24h",
    until: Annotated[
        str | None,
        typer.Option(help="End: a time (2026-01-31T08:00:00Z) or a duration ago; now if absent."),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.TABLE,
    cluster: Annotated[
        list[str] | None, typer.Option(help="Only this cluster; may be repeated.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Jobs to list in a table, largest first.")] = 20,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="HTTP header for every request; may be repeated."),
    ] = None,
) -> None:
    """Print the balance sheet of a period from what the rules recorded.

    Assets are all GPU-hours of the inventory; liabilities are hours that produced nothing; equity
    is what computed, what is free and what reports nothing. Times without a zone are UTC. Gaps are
    reported as missing coverage, never filled in.
    """
    period = parse_period(since, until, now=time.time())
    errors = Console(stderr=True)
    with (
        PrometheusClient(
            prometheus, timeout=TIMEOUT_SECONDS, headers=_headers(header or [])
        ) as client,
        errors.status("reading the ledger …") as status,
    ):
        result = read_statement(
            client, period, cluster or [], lambda what: status.update(Text(f"reading {what} …"))
        )
    if output is Format.JSON:
        typer.echo(json.dumps(as_document(result), indent=2, ensure_ascii=False, allow_nan=False))
        return
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_FILES
    print_statement(console, result, jobs_shown=jobs)


def _headers(pairs: list[str]) -> dict[str, str]:
    headers = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--header {pair!r}: expected KEY=VALUE, as X-Scope-OrgID=team")
        if not pair.isascii():
            raise UsageError(f"--header {pair!r}: HTTP headers are written in ASCII")
        headers[key.strip()] = value
    return headers
