"""``actuary simulate``."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from gpu_actuary.options import join_address, parse_duration, parse_listen
from gpu_actuary.serving import serving

from .samplefleet import sample_fleet
from .server import pages_of
from .simulation import Simulation
from .targets import write_targets

_SHORTEST_RESTART_SECONDS = 75
"""A job that crashes more often never reaches its next checkpoint."""


def simulate(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve; port 0: a free one.")
    ] = "127.0.0.1:9430",
    seed: Annotated[int, typer.Option(help="Another seed, other numbers.")] = 1,
    die_after: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Node sim-e goes down so long after the start."),
    ] = None,
    restart_every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Job sim-pretrain crashes and resumes so often."),
    ] = None,
    targets: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write dcgm.json and actuary-sidecar.json here, for Prometheus's file_sd_configs.",
        ),
    ] = None,
) -> None:
    """Serve a simulated fleet: five nodes of eight GPUs, three training jobs, servers, faults.

    Every node has /nodes/NODE/dcgm (dcgm-exporter's text, old or new generation) and
    /nodes/NODE/sidecar; / lists them. Label these targets source="simulated": the files of
    --targets do. Ends on SIGTERM or Ctrl-C.
    """
    host, port = parse_listen(listen)
    began, started = time.monotonic(), time.time()
    simulation = Simulation(
        sample_fleet(),
        seed=seed,
        started=started,
        die_after=None if die_after is None else parse_duration(die_after, "--die-after"),
        restart_every=None
        if restart_every is None
        else parse_duration(restart_every, "--restart-every", at_least=_SHORTEST_RESTART_SECONDS),
    )
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with serving(pages_of(simulation, lambda: time.monotonic() - began), host, port) as bound:
        if targets is not None:
            write_targets(targets, simulation.fleet, host, bound)
        typer.echo(f"SIMULATED fleet at http://{join_address(host, bound)}/ (seed {seed})")
        stopped.wait()
