"""The commands ``init``, ``render``, ``check``, ``apply`` and ``explain``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpu_actuary.errors import UsageError


class TargetName(StrEnum):
    """For which server the files are rendered."""

    PROMETHEUS = "prometheus"
    OPERATOR = "operator"
    MIMIR = "mimir"
    THANOS = "thanos"
    VMALERT = "vmalert"


class StageName(StrEnum):
    """Up to which stage; each contains the ones before it."""

    FOUNDATION = "foundation"
    VALUE = "value"
    ACTUARIAL = "actuarial"


Specs = Annotated[
    Path | None, typer.Option("-i", "--input", help="Your folder of specs, over the built-in ones.")
]
StageOption = Annotated[StageName, typer.Option(help="The stage up to which specs are used.")]
TargetOption = Annotated[
    TargetName, typer.Option(help="The server that will evaluate the rules (docs/targets.md).")
]
TargetVersion = Annotated[
    str | None,
    typer.Option(help="Its version; the oldest that is supported when omitted.", metavar="V"),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON for scripts.")]


def init(folder: Annotated[Path, typer.Argument(help="The folder to write into.")]) -> None:
    """Write a commented starting set of specs: economics, routes, and rules of your own.

    Nothing is overwritten.
    """
    from .starter import write_starter

    for file in write_starter(folder):
        typer.echo(f"wrote {file}")
    typer.echo(f"Edit them, then: actuary check {folder}")


def render(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write into.")],
    specs: Specs = None,
    target: TargetOption = TargetName.PROMETHEUS,
    target_version: TargetVersion = None,
    stage: StageOption = StageName.ACTUARIAL,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="A label of the manifests, as ruleSelector wants it; may be repeated (operator).",
            metavar="KEY=VALUE",
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="The namespace of the manifests (operator).")
    ] = None,
) -> None:
    """Render specs into rule files, an Alertmanager configuration and rule tests.

    Writes rules/, alertmanager.yaml and, for Prometheus, tests/ below the output folder. Files of
    others are never touched; files of an earlier rendering that are no longer needed are removed.
    """
    from .layouts import Manifest
    from .output import write_files
    from .render import OWN_FILES
    from .render import render as render_specs
    from .targets import server

    if (label or namespace) and target is not TargetName.OPERATOR:
        raise UsageError("--label and --namespace are for --target operator only")
    rendered = render_specs(
        specs,
        stage=stage.value,
        server=server(target.value, target_version),
        manifest=Manifest(_pairs("--label", label), namespace),
    )
    write_files(output, rendered.files, stale=OWN_FILES)
    typer.echo(
        f"{len(rendered.rules())} rules in {len(rendered.groups)} groups and {rendered.tests} "
        f"rule tests for {target.value}, written to {output}"
    )
    if rendered.left_out:
        typer.echo(
            f"{rendered.left_out} tests of built-in specs assume the built-in settings "
            "and were left out"
        )
    for note in rendered.notes:
        typer.echo(f"note: {note}")


def check(
    path: Annotated[
        Path | None,
        typer.Argument(help="Your specs or a rendered folder; the built-in specs when omitted."),
    ] = None,
    target: TargetOption = TargetName.PROMETHEUS,
    target_version: TargetVersion = None,
    as_json: AsJson = False,
) -> None:
    """Check specs: schema, PromQL, names, lint, then promtool, amtool and amlint where present.

    For another target than Prometheus, what is rendered for it is checked too. Ends with 1 when something is to be mended. A tool that is missing is named and skipped.
    """
    from .check import check as run_checks
    from .targets import server

    outcomes = []
    for outcome in run_checks(path, _progress, server=server(target.value, target_version)):
        outcomes.append(outcome)
        if not as_json:
            _clear_progress()
            detail = outcome.detail.replace("\n", "\n    ")
            typer.echo(f"{outcome.status:<8}{outcome.check}{': ' if detail else ''}{detail}")
    failed = any(outcome.status == "failed" for outcome in outcomes)
    if as_json:
        _clear_progress()
        document = {"ok": not failed, "checks": [asdict(outcome) for outcome in outcomes]}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    if failed:
        raise typer.Exit(1)


def apply(
    rules_dir: Annotated[
        Path, typer.Option(help="A folder whose rule files the server's configuration matches.")
    ],
    prometheus: Annotated[
        str,
        typer.Option(help="The address of Prometheus, Thanos Ruler or vmalert.", metavar="URL"),
    ],
    specs: Specs = None,
    target: TargetOption = TargetName.PROMETHEUS,
    target_version: TargetVersion = None,
    stage: StageOption = StageName.ACTUARIAL,
    header: Annotated[
        list[str] | None,
        typer.Option(help="A header for every request; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the first evaluation.", min=0)
    ] = 60.0,
    keep_unhealthy: Annotated[
        bool,
        typer.Option("--keep-unhealthy", help="Keep the rules although some cannot be evaluated."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Install the rules into a running server, read them back, roll back on failure.

    For Prometheus, which needs --web.enable-lifecycle, Thanos Ruler and vmalert. Only files that GPU Actuary generated are replaced; the
    version before is kept in .gpu-actuary-previous.
    """
    from gpu_actuary.prometheus import PrometheusClient

    from .apply import apply as apply_rules
    from .render import render as render_specs
    from .targets import server

    headers = _pairs("--header", header)
    rendered = render_specs(specs, stage=stage.value, server=server(target.value, target_version))
    with PrometheusClient(prometheus, headers=headers) as client:
        try:
            applied = apply_rules(
                rendered,
                rules_dir,
                client,
                wait_seconds=wait,
                keep_unhealthy=keep_unhealthy,
                progress=_progress,
            )
        finally:
            _clear_progress()
    if as_json:
        typer.echo(json.dumps(asdict(applied), indent=2, ensure_ascii=False))
    else:
        typer.echo(f"{applied.rules} rules in {applied.groups} groups are loaded from {rules_dir}")
        for name in applied.pending:
            typer.echo(f"{name} has not been evaluated yet")
        for rule in applied.unhealthy:
            typer.echo(f"cannot be evaluated: {rule}")
    if applied.unhealthy:
        raise typer.Exit(1)


def explain(
    name: Annotated[str, typer.Argument(help="A spec, Kind/spec, a record or an alert.")],
    specs: Specs = None,
    target: TargetOption = TargetName.PROMETHEUS,
    target_version: TargetVersion = None,
    as_json: AsJson = False,
) -> None:
    """Show a spec after the overlay: its values, where each comes from, and its PromQL."""
    from .explain import as_data, as_text
    from .explain import explain as explain_name
    from .render import render as render_specs
    from .targets import server

    rendered = render_specs(specs, server=server(target.value, target_version))
    explanations = explain_name(rendered, name)
    if as_json:
        documents = [as_data(each) for each in explanations]
        typer.echo(json.dumps(documents, indent=2, ensure_ascii=False))
    else:
        typer.echo("\n\n".join(as_text(each) for each in explanations))


def _pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(f"{option} {text!r} does not fit; expected KEY=VALUE")
        pairs[key] = value
    return pairs


_CLEAR_LINE = "\r\x1b[2K"


def _progress(text: str) -> None:
    """One line that changes, on a terminal only."""
    if sys.stderr.isatty():
        typer.echo(f"{_CLEAR_LINE}{text}", err=True, nl=False)


def _clear_progress() -> None:
    if sys.stderr.isatty():
        typer.echo(_CLEAR_LINE, err=True, nl=False)
