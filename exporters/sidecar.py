"""The node's HTTP server: metrics, health, readiness."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from gpu_actuary.errors import UsageError
from gpu_actuary.options import join_address

from .bearertoken import BearerToken
from .collector import NodeCollector
from .evaluationapi import EvaluationApi, gate
from .evaluationstore import EvaluationStore
from .mlflowpoller import MlflowPoller
from .nvml.collector import NvmlCollector
from .nvml.monitor import NvmlMonitor
from .rankdirectory import RankDirectory
from .servicecollector import ServiceCollector
from .websecurity import WebSecurity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from .mlflowclient import MlflowClient
    from .mlflowpoller import MlflowSettings

log = logging.getLogger("gpu_actuary")

_CLIENT_TIMEOUT_SECONDS = 30.0
_GOODBYE_SECONDS = 1.0


class _Handler(WSGIRequestHandler):
    timeout = _CLIENT_TIMEOUT_SECONDS  # a client that sends nothing must not hold a thread for ever
    # Headers and body are two writes: the second must not wait until the first is acknowledged.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Nothing: one line per scrape would drown what matters."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, port: int, security: WebSecurity | None) -> None:
        self._security = security
        infos = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, _, _, _, address = infos[0]
        super().__init__(address[:2], _Handler)  # type: ignore[arg-type]  # host and port

    def server_bind(self) -> None:
        """Bind without the base class's look-up of the host's name, which can take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection, over TLS where that is asked for; runs in the connection's thread.

        The handshake happens here and not where connections are accepted, so that a client that
        says nothing holds up nobody else.
        """
        context = self._security.current().tls if self._security is not None else None
        if context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_CLIENT_TIMEOUT_SECONDS)
        with context.wrap_socket(request, server_side=True) as encrypted:
            super().finish_request(encrypted, client_address)
            # Tells the client that nothing was cut off; it need not answer for long.
            encrypted.settimeout(_GOODBYE_SECONDS)
            with contextlib.suppress(OSError):
                encrypted.unwrap().close()

    def handle_error(self, _request: Any, client_address: Any) -> None:
        """Log what is ours. A client that breaks off or speaks no TLS is its own affair."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("Answering %s failed.", client_address)


class Sidecar:
    """Serves the rank files of ``directory`` at ``host:port`` (port 0: any free one).

    With ``nvml`` also what NVML says about the node's GPUs. ``web_config`` is a file in
    Prometheus's web-configuration format: TLS and basic authentication, on every path. With users
    in it, or with the bearer token in ``push_token_file``, services can report evaluations.
    ``mlflow`` is a tracking server and what to look for there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        directory: Path,
        node: str,
        stale_after: float,
        nvml: bool = False,
        web_config: Path | None = None,
        push_token_file: Path | None = None,
        mlflow: tuple[MlflowClient, MlflowSettings] | None = None,
    ) -> None:
        """Bind the address; raises :class:`UsageError` when something given does not work."""
        security = WebSecurity(web_config) if web_config is not None else None
        token = BearerToken(push_token_file) if push_token_file is not None else None
        push = token is not None or (security is not None and security.current().users is not None)
        evaluations = EvaluationStore(directory) if push or mlflow is not None else None
        api = EvaluationApi(evaluations) if evaluations is not None and push else None
        self._mlflow = None
        if evaluations is not None and mlflow is not None:
            self._mlflow = MlflowPoller(*mlflow, evaluations)
        registry = CollectorRegistry(auto_describe=False)
        self._nvml = NvmlMonitor() if nvml else None
        ranks = RankDirectory(directory, stale_after=stale_after)
        registry.register(NodeCollector(ranks, node, self._nvml, evaluations))
        if self._nvml is not None:
            registry.register(NvmlCollector(self._nvml, node))
        registry.register(ServiceCollector(security, evaluations, api, self._mlflow))
        try:
            self._server = _Server(host, port, security)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {join_address(host, port)}: {error.strerror}; "
                "choose another address with --listen"
            ) from error
        pages = _routes(make_wsgi_app(registry), directory)
        self._server.set_app(gate(pages, api, security, token))
        scheme = "https" if security is not None and security.current().tls else "http"
        self.url = f"{scheme}://{join_address(self._server.server_name, self._server.server_port)}"

    def serve(self) -> None:
        """Answer until :meth:`stop` is called from another thread."""
        if self._nvml is not None:
            self._nvml.start()
        if self._mlflow is not None:
            self._mlflow.start()
        with self._server:
            self._server.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        """End :meth:`serve`."""
        if self._mlflow is not None:
            self._mlflow.stop()
        self._server.shutdown()


def _routes(metrics: WSGIApplication, directory: Path) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return metrics(environ, start_response)
        status, text = _page(path, directory)
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return answer


def _page(path: str, directory: Path) -> tuple[str, str]:
    if path == "/":
        return "200 OK", "GPU Actuary's node sidecar. Metrics are at /metrics."
    if path == "/-/healthy":
        return "200 OK", "healthy"
    if path == "/-/ready":
        try:
            next(directory.iterdir(), None)
        except FileNotFoundError:
            pass  # no training yet on this node; there is nothing wrong with that
        except OSError as error:
            return "503 Service Unavailable", f"cannot read {directory}: {error.strerror}"
        return "200 OK", "ready"
    return "404 Not Found", "not found; metrics are at /metrics"
