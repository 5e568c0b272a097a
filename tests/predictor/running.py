"""A real Prometheus that can be killed and restarted, and the real predictor as a process."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.prometheus import PrometheusClient
from tests.servers import free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ACTUARY = str(Path(sys.executable).with_name("actuary"))
Values = dict[frozenset[tuple[str, str]], float]


def labels(**pairs: str) -> frozenset[tuple[str, str]]:
    """The key of a sample in :meth:`Service.values`."""
    return frozenset(pairs.items())


@dataclass
class Server:
    """A Prometheus at one address, which keeps its data from start to start."""

    folder: Path
    scrape: Sequence[dict[str, object]]
    address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def add_history(self, samples: Sequence[tuple[str, float, float]]) -> None:
        """Write (series, Unix seconds, value) into the storage; before the start only."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = self.folder / "history.txt"
        lines = [f"{series} {value} {at}\n" for series, at, value in samples]
        text.write_text("".join(sorted(lines)) + "# EOF\n")
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, self.folder / "data"],
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        binary = shutil.which("prometheus")
        assert binary, "prometheus is not installed: make tools"
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "prometheus.yaml"
        config.write_text(
            yaml.safe_dump(
                {"global": {"scrape_interval": "1s"}, "scrape_configs": list(self.scrape)}
            )
        )
        with (self.folder / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    binary,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        with PrometheusClient(self.url) as client:
            wait_for(client.ready, seconds=30, what=f"Prometheus; see {self.folder}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=20)

    def freeze(self) -> None:
        """Let it accept connections and never answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def server(
    folder: Path,
    scrape: Sequence[dict[str, object]] = (),
    history: Sequence[tuple[str, float, float]] = (),
) -> Iterator[Server]:
    """A started :class:`Server`, killed at the end."""
    prometheus = Server(folder, scrape)
    if history:
        prometheus.add_history(history)
    prometheus.start()
    try:
        yield prometheus
    finally:
        prometheus.kill()


@dataclass
class Service:
    """A running predictor, seen from outside."""

    process: subprocess.Popen[str]
    log: list[str]
    url: str = ""

    def fetch(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def values(self, name: str) -> Values:
        """The samples called ``name`` by their labels."""
        _, text = self.fetch("/metrics")
        return {
            frozenset(sample.labels.items()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    def errors(self, reason: str) -> float:
        return self.values("actuary_predictor_input_errors_total")[labels(reason=reason)]

    def last_success(self) -> float:
        return self.values("actuary_predictor_last_success_timestamp_seconds")[labels()]

    def ready(self) -> bool:
        return self.fetch("/-/ready")[0] == 200

    def has_results(self) -> bool:
        return bool(self.values("actuary_failure_probability"))


@contextlib.contextmanager
def predictor(url: str, *options: str, listen: str = "127.0.0.1:0") -> Iterator[Service]:
    """Run ``actuary predictor serve`` against ``url``; yields once it listens."""
    process = subprocess.Popen(
        [ACTUARY, "predictor", "serve", "--prometheus", url, "--listen", listen, *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    service = Service(process, [])
    assert process.stderr is not None
    stderr = process.stderr

    def collect() -> None:
        for line in stderr:
            service.log.append(line)
            if " serving http" in line:
                service.url = line.split(" serving ")[1].strip().removesuffix("/metrics")

    reader = threading.Thread(target=collect, daemon=True)
    reader.start()
    try:
        wait_for(lambda: bool(service.url), seconds=30, what="the predictor to listen")
        yield service
    finally:
        process.kill()
        process.wait(timeout=20)
        reader.join(timeout=20)
        stderr.close()
