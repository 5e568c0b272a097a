"""What the demonstration is told from outside, and the names and ports that follow from it."""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = "demo"
NODE = "demo-node"
JOB_ID = "digits-ddp"
DEAD_NODE = "sim-e"
"""The simulated node that goes down on purpose."""
PATIENCE_SECONDS = 300.0
"""How long results may take to appear where no end is given."""

SERVICES = ("prometheus", "alertmanager", "sidecar", "simulator", "predictor", "notifications")


class DemoError(Exception):
    """The demonstration cannot go on; the message says why and what helps."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One run of the demonstration."""

    folder: Path
    port_base: int
    seconds: float | None
    """When to end by itself, counted from the start; None: stay until Ctrl-C."""
    once: bool
    """End as soon as all checks have passed."""

    def address(self, service: str) -> str:
        """``host:port`` of a service; the ports follow each other in the order of SERVICES."""
        return f"127.0.0.1:{self.port_base + SERVICES.index(service)}"

    def url(self, service: str) -> str:
        """Web address of a service."""
        return f"http://{self.address(service)}"


def number_from(variable: str, default: float | None) -> float | None:
    """A non-negative number from the environment; raises :class:`DemoError` for anything else."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise DemoError(f"{variable}={text!r}: expected a number, 0 or more")
    return value


def check_ports(settings: Settings) -> None:
    """Raise :class:`DemoError` when one of the ports is taken."""
    for service in SERVICES:
        host, _, port = settings.address(service).partition(":")
        if not 0 < int(port) < 65536:
            raise DemoError(f"DEMO_PORT_BASE={settings.port_base}: port {port} does not exist")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
            except OSError as error:
                raise DemoError(
                    f"port {port}, meant for {service}, is taken ({error.strerror}). Set "
                    f"DEMO_PORT_BASE to a number from which {len(SERVICES)} ports are free; "
                    f"it is {settings.port_base} now."
                ) from error


def find_program(*names: str) -> str:
    """Path of the first of ``names`` that is installed; raises :class:`DemoError` for none."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise DemoError(
        f"the program {' or '.join(names)} is not installed or not in PATH. `make tools` installs "
        "it on Debian and Ubuntu (packages prometheus and prometheus-alertmanager)."
    )
