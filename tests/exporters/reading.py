"""Reading what a monitor wrote and what a sidecar serves."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.exporters.rankreader import Snapshot, read_rank_file
from gpu_actuary.exporters.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP_SECONDS = "actuary_step_seconds_total"


def snapshots(directory: Path) -> list[Snapshot]:
    """All rank files of ``directory``, by rank."""
    found = [read_rank_file(path) for path in directory.glob("*.rank")]
    return sorted(found, key=lambda each: int(each.fields["rank"]))


def snapshot(directory: Path) -> Snapshot:
    """The only rank file of ``directory``."""
    (found,) = snapshots(directory)
    return found


def phases(taken: Snapshot) -> dict[str, float]:
    """Seconds by phase; absent phases are not in it."""
    return {
        name.partition("/")[2]: value
        for name, value in taken.values.items()
        if name.startswith(f"{STEP_SECONDS}/")
    }


@contextlib.contextmanager
def sidecar(directory: Path, *, node: str = "n1", stale_after: float = 15.0) -> Iterator[str]:
    """A sidecar in a thread of this process; yields its base URL."""
    server = Sidecar("127.0.0.1", 0, directory=directory, node=node, stale_after=stale_after)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        thread.join(timeout=10)


def scrape(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples at ``url``/metrics by name and sorted labels."""
    text = httpx.get(f"{url}/metrics", trust_env=False).raise_for_status().text
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} is exposed twice"
            samples[key] = sample.value
    return samples


def exposed(
    directory: Path, **settings: float
) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """One scrape of ``directory``: values by series name, then by labels."""
    with sidecar(directory, **settings) as url:  # type: ignore[arg-type]  # stale_after only
        result: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for (name, labels), value in scrape(url).items():
            result.setdefault(name, {})[labels] = value
        return result


def run_script(folder: Path, source: str, **environment: str) -> subprocess.Popen[str]:
    """Start ``source`` as a script of its own in ``folder``."""
    script = folder / "train.py"
    script.write_text(source)
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", **environment},
    )


def finished(process: subprocess.Popen[str]) -> str:
    """Wait for a script; its output, which must not report an error."""
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output
