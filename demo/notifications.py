"""A webhook receiver that keeps Alertmanager's notifications in a file, one JSON line each."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def receiving(address: str, log: Path) -> Iterator[None]:
    """Receive notifications at ``host:port`` while the context lasts."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock, log.open("a") as file:
                file.write(json.dumps(json.loads(body), ensure_ascii=False) + "\n")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The file is the log."""

    host, _, port = address.partition(":")
    server = ThreadingHTTPServer((host, int(port)), Handler)
    threading.Thread(target=server.serve_forever, name="notifications", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def received_alerts(log: Path) -> list[str]:
    """``status name of what`` for each alert that was received, in order of arrival."""
    if not log.exists():
        return []
    alerts: list[str] = []
    for line in log.read_text().splitlines():
        for alert in json.loads(line)["alerts"]:
            labels: dict[str, Any] = alert["labels"]
            where = labels.get("gpu_uuid") or labels.get("job_id") or labels.get("instance") or ""
            alerts.append(f"{alert['status']} {labels['alertname']} {where}".rstrip())
    return alerts
