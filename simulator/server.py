"""The simulator's HTTP server: two paths per node, a page that lists them, health."""

from __future__ import annotations

import contextlib
import html
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Final

from prometheus_client.exposition import choose_encoder

from gpu_actuary.errors import UsageError

from .targets import PATHS, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .simulation import Simulation

_PLAIN: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"
_CLIENT_TIMEOUT_SECONDS: Final = 10


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)


@contextlib.contextmanager
def serving(
    simulation: Simulation, host: str, port: int, elapsed: Callable[[], float]
) -> Iterator[int]:
    """Serve while the context lasts; yields the port (0 takes a free one).

    ``elapsed`` gives the seconds since the simulation's start. Raises :class:`UsageError` when the
    address cannot be had.
    """
    try:
        server = _Server(host, port, _handler(simulation, elapsed))
    except (OSError, UnicodeError) as error:
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot listen on {shown}: {reason}; choose another address with --listen"
        ) from error
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def _index(simulation: Simulation) -> str:
    paths = [path_of(node.name, kind) for node in simulation.fleet.nodes for kind in PATHS.values()]
    links = "\n".join(f'<li><a href="{html.escape(p)}">{html.escape(p)}</a></li>' for p in paths)
    return (
        "<!doctype html>\n<title>GPU Actuary: SIMULATED fleet</title>\n"
        "<h1>SIMULATED fleet</h1>\n"
        "<p>Nothing here is measured: every number of these pages is made up by "
        f"<code>actuary simulate</code>.</p>\n<ul>\n{links}\n</ul>\n"
    )


def _handler(simulation: Simulation, elapsed: Callable[[], float]) -> type[BaseHTTPRequestHandler]:
    routes = {
        path_of(node.name, kind): (node.name, kind)
        for node in simulation.fleet.nodes
        for kind in PATHS.values()
    }
    pages = {
        "/": (_index(simulation), _HTML),
        "/-/healthy": ("healthy\n", _PLAIN),
        "/-/ready": ("ready\n", _PLAIN),
    }

    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_TIMEOUT_SECONDS

        def do_GET(self) -> None:  # the name that http.server calls
            path = self.path.partition("?")[0]
            if path in pages:
                text, content_type = pages[path]
                self._answer(HTTPStatus.OK, text.encode(), content_type)
            elif path in routes:
                self._answer_for(*routes[path])
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"not found; / lists the paths\n", _PLAIN)

        def _answer_for(self, node: str, kind: str) -> None:
            now = elapsed()
            if not simulation.is_up(node, now):
                text = f"{node} is down (simulated)\n"
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, text.encode(), _PLAIN)
            elif kind == PATHS["dcgm"]:
                self._answer(HTTPStatus.OK, simulation.dcgm(node, now).encode(), _METRICS)
            else:
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, encode(simulation.sidecar(node, now)), content_type)

        def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
            # A scraper that gave up while we answered is its own business.
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Scrapes are not worth a log line."""

    return Handler
