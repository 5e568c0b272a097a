"""``actuary catalogue``: the table of every series, for people, scripts and the documentation."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from gpu_actuary import catalogue as metrics
from gpu_actuary.errors import UsageError


def as_markdown(series: tuple[metrics.Series, ...]) -> str:
    """A Markdown table of ``series``, in catalogue order."""
    lines = [
        "| series | type | unit | labels | one per | what it says |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{s.name}`{' **core**' if s.core else ''} | {s.type} | {s.unit or '–'} | "
        f"{', '.join(s.labels)} | {s.per} | {s.help} |"
        for s in series
    ]
    return "\n".join(lines)


def catalogue(
    owner: Annotated[str | None, typer.Option(help="Only the series of this component.")] = None,
    core: Annotated[bool, typer.Option("--core", help="Only the core metrics.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of Markdown.")] = False,
) -> None:
    """List every series of the product: name, type, unit, labels, meaning."""
    owners = sorted({s.owner for s in metrics.ALL})
    if owner is not None and owner not in owners:
        raise UsageError(f"no component {owner!r} owns series; expected one of {', '.join(owners)}")
    chosen = tuple(
        s for s in metrics.ALL if (owner is None or s.owner == owner) and (s.core or not core)
    )
    if as_json:
        typer.echo(json.dumps([asdict(s) for s in chosen], indent=2, ensure_ascii=False))
    else:
        typer.echo(as_markdown(chosen))
