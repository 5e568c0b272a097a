"""Real VictoriaMetrics and vmalert for tests, on free ports, ended with their context."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

from gpu_actuary.prometheus import PrometheusClient
from tests.servers import free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextlib.contextmanager
def victoria_metrics(
    folder: Path, *, scrape: Sequence[dict[str, object]] = (), interval: str = "1s"
) -> Iterator[PrometheusClient]:
    """A single-node VictoriaMetrics that scrapes by itself; yields a client once it is ready."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "scrape.yaml"
    # JSON is YAML.
    config.write_text(
        json.dumps({"global": {"scrape_interval": interval}, "scrape_configs": list(scrape)})
    )
    address = f"127.0.0.1:{free_port()}"
    flags = [
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr={address}",
        f"-promscrape.config={config}",
        "-memory.allowedBytes=200MB",
    ]
    with _running("victoria-metrics", folder, flags, address) as client:
        yield client


@contextlib.contextmanager
def vmalert(
    folder: Path, *, rules: str, datasource: str, flags: Sequence[str] = ()
) -> Iterator[PrometheusClient]:
    """A vmalert that evaluates the files that the pattern ``rules`` matches, without a notifier."""
    folder.mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    options = [
        f"-rule={rules}",
        f"-httpListenAddr={address}",
        f"-datasource.url={datasource}",
        f"-remoteWrite.url={datasource}",
        # It insists on an Alertmanager; nothing is sent while nobody listens.
        f"-notifier.url=http://127.0.0.1:{free_port()}",
        *flags,
    ]
    with _running("vmalert", folder, options, address) as client:
        yield client


@contextlib.contextmanager
def _running(
    name: str, folder: Path, flags: Sequence[str], address: str
) -> Iterator[PrometheusClient]:
    binary = shutil.which(name)
    assert binary, f"{name} is not installed: make tools"
    log = folder / f"{name}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen([binary, *flags], stdout=stream, stderr=subprocess.STDOUT)
    try:
        with PrometheusClient(f"http://{address}") as client:
            wait_for(client.ready, seconds=30, what=f"{name}; see {log}")
            yield client
    finally:
        process.terminate()
        process.wait(timeout=20)
