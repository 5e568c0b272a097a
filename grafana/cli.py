"""``actuary dashboards``: writes the dashboards and the provisioning that loads them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gpu_actuary.errors import UsageError

from . import provision
from .boards import all_dashboards


def dashboards(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder to write json/ and provisioning/ into."),
    ],
    prometheus_url: Annotated[
        str,
        typer.Option(help="Address of Prometheus as Grafana reaches it."),
    ] = provision.PROMETHEUS_URL,
    dashboards_path: Annotated[
        str,
        typer.Option(help="Where Grafana will find the folder json/, on its own machine."),
    ] = provision.DASHBOARDS_PATH,
) -> None:
    """Write the Grafana dashboards (for Grafana 11 to 13) and their provisioning files.

    Mount or copy DIR/provisioning to /etc/grafana/provisioning and DIR/json to the dashboards
    path. Files of the same names are replaced; nothing else in the folder is touched.
    """
    _check(prometheus_url, dashboards_path)
    files = {f"json/{name}": text for name, text in all_dashboards().items()}
    files |= {
        f"provisioning/{name}": text
        for name, text in provision.files(prometheus_url, dashboards_path).items()
    }
    for name, text in files.items():
        path = out / name
        _write(path, text)
        typer.echo(path)


def _check(prometheus_url: str, dashboards_path: str) -> None:
    parts = urlsplit(prometheus_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"--prometheus-url {prometheus_url!r} is not a web address; "
            f"expected something like {provision.PROMETHEUS_URL}"
        )
    if not dashboards_path.startswith("/"):
        raise UsageError(
            f"--dashboards-path {dashboards_path!r} must be an absolute path on Grafana's machine"
        )


def _write(path: Path, text: str) -> None:
    """Replace the file in one step: Grafana may be reading the folder at this moment."""
    # Hidden and without .json, so that Grafana never takes the half-written file for a dashboard.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
