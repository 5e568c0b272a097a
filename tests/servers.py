"""Real servers for tests: a Prometheus of one's own, and an HTTP server that exposes text.

Everything binds a free port on 127.0.0.1 and ends with its context.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import yaml

from gpu_actuary.prometheus import PrometheusClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Poll ``condition`` until it holds; fails with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.1)


@contextlib.contextmanager
def exposition(render: Callable[[str], str | None]) -> Iterator[str]:
    """Serve ``render(path)`` as metrics text; None answers 503. Yields ``host:port``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = render(self.path)
            body = (text or "").encode()
            self.send_response(503 if text is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def prometheus(
    folder: Path,
    *,
    scrape: Sequence[dict[str, object]] = (),
    rule_files: Sequence[Path] = (),
    interval: str = "1s",
    flags: Sequence[str] = (),
) -> Iterator[PrometheusClient]:
    """A real Prometheus with its data under ``folder``; yields a client once it is ready."""
    binary = shutil.which("prometheus")
    assert binary, "prometheus is not installed: make tools"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": interval, "evaluation_interval": interval},
                "rule_files": [str(path) for path in rule_files],
                "scrape_configs": list(scrape),
            }
        )
    )
    address = f"127.0.0.1:{free_port()}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
                "--web.enable-lifecycle",
                *flags,
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with PrometheusClient(f"http://{address}") as client:
            wait_for(client.ready, seconds=30, what=f"Prometheus; see {folder}/prometheus.log")
            yield client
    finally:
        process.terminate()
        process.wait(timeout=20)
