"""Starting the demonstration's processes, each as a user would start it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx

from . import configuration
from .processes import Children
from .settings import NODE, ROOT, DemoError, Settings, find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .processes import Child

ACTUARY = (sys.executable, "-m", "gpu_actuary")
MARKER = ".gpu-actuary-demo"
START_SECONDS = 60.0


@contextlib.contextmanager
def prepared_folder(folder: Path) -> Iterator[None]:
    """Empty the demonstration's folder and keep other demonstrations out of it.

    Refuses a folder that holds anything but an earlier demonstration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / MARKER
    if not marker.exists() and any(folder.iterdir()):
        raise DemoError(f"{folder} exists and is not a folder of the demonstration: move it away")
    with marker.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demonstration is running in {folder}") from None
        for entry in folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry != marker:
                entry.unlink()
        for part in ("logs", "tmp", "ranks", "training", "targets"):
            (folder / part).mkdir()
        yield


def environment(folder: Path) -> dict[str, str]:
    """The processes' environment: whatever they leave behind stays in the folder."""
    return {
        **os.environ,
        "ACTUARY_DIRECTORY": str(folder / "ranks"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Two ranks share the machine with everything else, and talk over the loopback only.
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        # A store that all attempts share still holds the addresses of dead ranks: without this the
        # first restart fails in torch 2.13 (gloo connects to them), and only the second succeeds.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def run_command(folder: Path, name: str, *arguments: str | Path) -> str:
    """Run an ``actuary`` command to its end; returns its output."""
    done = subprocess.run(  # noqa: S603  # our own command
        [*ACTUARY, *map(str, arguments)],
        cwd=ROOT,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    (folder / "logs" / f"{name}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        command = " ".join(map(str, arguments))
        raise DemoError(f"`actuary {command}` failed ({done.returncode}):\n{done.stderr.strip()}")
    return done.stdout


class Stack:
    """All processes of a run."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._prometheus = find_program("prometheus")
        self._alertmanager = find_program("prometheus-alertmanager", "alertmanager")
        self.children = Children(settings.folder / "logs", environment(settings.folder))

    def start(self) -> None:
        """Render the configuration and start everything, sources first."""
        settings, folder = self._settings, self._settings.folder
        self._say("rendering rules, Alertmanager's configuration and dashboards")
        specs = configuration.write_specs(settings)
        rendered = folder / "rendered"
        run_command(folder, "render", "render", "-i", specs, "-o", rendered)
        run_command(
            folder,
            "dashboards",
            *("dashboards", "-o", folder / "grafana"),
            *("--prometheus-url", settings.url("prometheus")),
            *("--dashboards-path", "/etc/grafana/gpu-actuary"),
        )
        self._say("starting the simulated fleet, the sidecar and the training of two ranks")
        self._start_sources()
        self._say("starting Alertmanager, Prometheus and the predictor")
        self._start(
            "alertmanager",
            self._alertmanager,
            f"--config.file={rendered / 'alertmanager.yaml'}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address={settings.address('alertmanager')}",
            "--cluster.listen-address=",
        )
        config = configuration.write_prometheus(settings, rendered / "rules", folder / "targets")
        self._start(
            "prometheus",
            self._prometheus,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address={settings.address('prometheus')}",
            "--web.enable-lifecycle",
        )
        self._start(
            "predictor",
            *ACTUARY,
            *("predictor", "serve", "--interval", "10s"),
            *("--prometheus", settings.url("prometheus")),
            *("--listen", settings.address("predictor")),
            ready="/-/healthy",
        )

    def _start_sources(self) -> None:
        settings, folder = self._settings, self._settings.folder
        self._start(
            "simulator",
            *(*ACTUARY, "simulate", "--listen", settings.address("simulator")),
            *("--targets", folder / "targets"),
            *("--die-after", "12s", "--restart-every", "80s"),
        )
        self._start(
            "sidecar",
            *(*ACTUARY, "exporter", "--listen", settings.address("sidecar")),
            *("--directory", folder / "ranks", "--node", NODE),
        )
        self.children.start(
            "training",
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--local-addr", "127.0.0.1", "--nproc-per-node", "2", "--max-restarts", "3"),
                *("--log-dir", folder / "tmp", "--module", "demo.train"),
                *("--folder", folder / "training", "--seconds", str(24 * 3600)),
            ],
            nice=10,
        )

    def _start(self, name: str, *command: str | Path, ready: str = "/-/ready") -> None:
        child = self.children.start(name, command)
        deadline = time.monotonic() + START_SECONDS
        while not _answers(self._settings.url(name) + ready):
            if not child.alive:
                raise DemoError(f"{name} ended at its start:\n{child.log_tail()}")
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{name} did not answer within {START_SECONDS:g} s:\n{child.log_tail()}"
                )
            time.sleep(0.1)

    def ended(self) -> Child | None:
        """A process that ended although it should run."""
        return next((child for child in self.children if not child.alive), None)

    def log_tail(self, name: str) -> str:
        """The end of a process's output."""
        tails = [child.log_tail() for child in self.children if child.name == name]
        return tails[0] if tails else ""


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def statement(settings: Settings, *arguments: str) -> str:
    """What ``actuary statement`` says about the time since the start."""
    return run_command(
        settings.folder,
        "statement",
        *("statement", "--prometheus", settings.url("prometheus"), *arguments),
    )
