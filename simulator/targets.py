"""Files for Prometheus's file_sd_configs that name every path of the simulator."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Final

from gpu_actuary.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from .fleet import Fleet

CLUSTER: Final = "simulated"
SOURCE: Final = "simulated"
PATHS: Final = {"dcgm": "dcgm", "actuary-sidecar": "sidecar"}
"""The last part of the path by Prometheus's job name."""

_ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104  # compared with, not bound


def path_of(node: str, kind: str) -> str:
    """The HTTP path of a node's ``dcgm`` or ``sidecar`` text."""
    return f"/nodes/{node}/{kind}"


def write_targets(folder: Path, fleet: Fleet, host: str, port: int) -> None:
    """Write ``dcgm.json`` and ``actuary-sidecar.json`` into ``folder``, which is made if missing.

    Where the simulator listens on every address, the targets carry this machine's name. Raises
    :class:`UsageError` when the folder cannot be written.
    """
    reachable = socket.gethostname() if host in _ANY_ADDRESS else host
    address = f"[{reachable}]:{port}" if ":" in reachable else f"{reachable}:{port}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for job, kind in PATHS.items():
            groups = [
                {
                    "targets": [address],
                    "labels": {
                        "__metrics_path__": path_of(node.name, kind),
                        "cluster": CLUSTER,
                        "source": SOURCE,
                        "node": node.name,
                    },
                }
                for node in fleet.nodes
            ]
            # Prometheus may read at any moment: it must never see half a file.
            unfinished = folder / f".{job}.json.new"
            unfinished.write_text(json.dumps(groups, indent=2) + "\n")
            unfinished.replace(folder / f"{job}.json")
    except OSError as error:
        raise UsageError(f"--targets {folder}: {error.strerror or error}") from error
