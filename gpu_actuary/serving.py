"""A small HTTP server for a component's own pages; the caller brings the handler."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Final

from gpu_actuary.errors import UsageError
from gpu_actuary.options import join_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http import HTTPStatus

PLAIN_TEXT: Final = "text/plain; charset=utf-8"


class PageHandler(BaseHTTPRequestHandler):
    """Answers GET with whole pages and does not log scrapes; a subclass says which pages."""

    # A client that sends nothing must not hold a thread for ever.
    timeout = 10
    # Headers and page are two writes: without this, the second waits for the first's receipt.
    disable_nagle_algorithm = True

    def page(self, path: str) -> None:
        """Answer a request for ``path``, which has no query in it."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Called by the base class."""
        self.page(self.path.partition("?")[0])

    def answer(self, status: HTTPStatus, body: bytes, content_type: str = PLAIN_TEXT) -> None:
        """Send one page."""
        # A scraper that gave up while we answered is its own business.
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: one line per scrape would drown what matters."""


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler], host: str, port: int) -> Iterator[int]:
    """Serve while the context lasts; yields the port (0 takes a free one).

    Raises :class:`UsageError` when the address cannot be had.
    """
    try:
        server = _Server(host, port, handler)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot listen on {join_address(host, port)}: {reason}; "
            "choose another address with --listen"
        ) from error
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
