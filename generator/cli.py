"""The commands ``render``, ``check``, ``apply``, ``explain`` and ``init``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .output import write_files
from .render import OWN_FILES
from .render import render as render_specs


class Target(StrEnum):
    """For which server the files are rendered."""

    PROMETHEUS = "prometheus"


class StageName(StrEnum):
    """Up to which stage; each contains the ones before it."""

    FOUNDATION = "foundation"
    VALUE = "value"
    ACTUARIAL = "actuarial"


Specs = Annotated[
    Path | None, typer.Option("-i", "--input", help="Your folder of specs, over the built-in ones.")
]
StageOption = Annotated[StageName, typer.Option(help="The stage up to which specs are used.")]


def render(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write into.")],
    specs: Specs = None,
    target: Annotated[Target, typer.Option(help="The server that will evaluate the rules.")] = (
        Target.PROMETHEUS
    ),
    stage: StageOption = StageName.ACTUARIAL,
) -> None:
    """Render specs into rule files, an Alertmanager configuration and rule tests.

    Writes rules/, tests/ and alertmanager.yaml below the output folder. Files of others are never
    touched; files of an earlier rendering that are no longer needed are removed.
    """
    rendered = render_specs(specs, stage=stage.value)
    write_files(output, rendered.files, stale=OWN_FILES)
    typer.echo(
        f"{len(rendered.rules())} rules in {len(rendered.groups)} groups and {rendered.tests} "
        f"rule tests for {target.value}, written to {output}"
    )
