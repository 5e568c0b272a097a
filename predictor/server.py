"""The HTTP server: /metrics for Prometheus, /-/healthy and /-/ready for whoever runs the service."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gpu_actuary.serving import PageHandler

if TYPE_CHECKING:
    from .exposition import PredictorCollector


def pages(collector: PredictorCollector) -> type[PageHandler]:
    """The handler that serves what ``collector`` knows."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)

    class Handler(PageHandler):
        def page(self, path: str) -> None:
            if path == "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self.answer(HTTPStatus.OK, encode(registry), content_type)
            elif path == "/-/healthy":
                self.answer(HTTPStatus.OK, b"healthy\n")
            elif path == "/-/ready":
                if collector.has_succeeded:
                    self.answer(HTTPStatus.OK, b"ready\n")
                else:
                    self.answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no successful cycle yet\n")
            else:
                self.answer(HTTPStatus.NOT_FOUND, b"there are /metrics, /-/healthy, /-/ready\n")

    return Handler
