"""``actuary exporter``: the node sidecar."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Annotated

import typer

from gpu_actuary.errors import UsageError
from gpu_actuary.options import parse_listen

from .location import default_directory
from .mlflowclient import MlflowClient
from .mlflowpoller import MlflowSettings
from .sidecar import Sidecar


def exporter(
    listen: Annotated[
        str, typer.Option(help="HOST:PORT to serve on; an IPv6 host in brackets.")
    ] = "127.0.0.1:9410",
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the rank files. Default: ACTUARY_DIRECTORY, else shared memory.",
            show_default=False,
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            help="Name of this node in the labels, as DCGM reports it. "
            "Default: NODE_NAME, else the host's name.",
            show_default=False,
        ),
    ] = None,
    stale_after: Annotated[
        float, typer.Option(help="Seconds without a heartbeat after which a rank is down.")
    ] = 15.0,
    nvml: Annotated[
        bool, typer.Option("--nvml/--no-nvml", help="Whether to watch NVIDIA GPUs through NVML.")
    ] = True,
    web_config: Annotated[
        Path | None,
        typer.Option(
            help="TLS and basic authentication: a file in Prometheus's web-configuration format.",
            show_default=False,
        ),
    ] = None,
    push_token_file: Annotated[
        Path | None,
        typer.Option(
            help="Bearer token with which services may report evaluations. Users of --web-config "
            "may in any case; without either, reports are off.",
            show_default=False,
        ),
    ] = None,
    mlflow: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="MLflow tracking server to read evaluations from: http://HOST:PORT.",
            show_default=False,
        ),
    ] = None,
    mlflow_experiment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Experiment to read, repeatable. Default: all.",
            show_default=False,
        ),
    ] = None,
    mlflow_accuracy: Annotated[
        str, typer.Option(metavar="METRIC", help="MLflow metric that is the accuracy, 0..1.")
    ] = "accuracy",
    mlflow_loss: Annotated[
        str, typer.Option(metavar="METRIC", help="MLflow metric that is the evaluation loss.")
    ] = "eval_loss",
) -> None:
    """Serve the training metrics of this node, and the state of its GPUs, to Prometheus.

    Reads the files that training monitors write, asks NVML about what DCGM does not say, and
    answers at /metrics, /-/healthy and /-/ready.
    """
    if not stale_after > 0:
        raise UsageError(f"--stale-after {stale_after}: expected a number of seconds above 0")
    folder = directory or default_directory()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--directory {folder}: this is a file; expected a folder")
    host, port = parse_listen(listen)
    name = node or os.environ.get("NODE_NAME") or socket.gethostname()
    looked_for = MlflowSettings(mlflow_experiment or (), mlflow_accuracy, mlflow_loss)
    sidecar = Sidecar(
        host,
        port,
        directory=folder,
        node=name,
        stale_after=stale_after,
        nvml=nvml,
        web_config=web_config,
        push_token_file=push_token_file,
        mlflow=None if mlflow is None else (MlflowClient(mlflow, os.environ), looked_for),
    )

    def stop(_signal: int, _frame: object) -> None:
        # In a thread of its own, because it waits for the loop that this handler interrupts.
        threading.Thread(target=sidecar.stop).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    typer.echo(f"Serving {sidecar.url}/metrics for node {name} from {folder}", err=True)
    if not folder.exists():
        typer.echo(f"{folder} is not there yet: the first training makes it", err=True)
    sidecar.serve()
