"""The HTTP server: /metrics for Prometheus, /-/healthy and /-/ready for whoever runs the service."""

from __future__ import annotations

import contextlib
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gpu_actuary.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .exposition import PredictorCollector

PLAIN_TEXT = "text/plain; charset=utf-8"
CLIENT_TIMEOUT_SECONDS = 10


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)


@contextlib.contextmanager
def serving(collector: PredictorCollector, host: str, port: int) -> Iterator[str]:
    """Serve ``collector`` while the context lasts; yields the address.

    Port 0 takes a free one. Raises :class:`UsageError` when the address cannot be had.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server = _Server(host, port, _handler(registry, collector))
    except OSError as error:
        raise UsageError(
            f"cannot listen on {_join(host, port)}: {error.strerror or error}; "
            "choose another address with --listen"
        ) from error
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    try:
        yield f"http://{_join(host, server.server_address[1])}"
    finally:
        server.shutdown()
        server.server_close()


def _join(host: str, port: object) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _handler(
    registry: CollectorRegistry, collector: PredictorCollector
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_SECONDS

        def do_GET(self) -> None:  # the name that http.server calls
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, encode(registry), content_type)
            elif path == "/-/healthy":
                self._answer(HTTPStatus.OK, b"healthy\n")
            elif path == "/-/ready":
                if collector.has_succeeded:
                    self._answer(HTTPStatus.OK, b"ready\n")
                else:
                    self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no successful cycle yet\n")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"there are /metrics, /-/healthy, /-/ready\n")

        def _answer(self, status: HTTPStatus, body: bytes, content_type: str = PLAIN_TEXT) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # A scraper that gave up while we answered is its own business.
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Scrapes are not worth a log line."""

    return Handler
