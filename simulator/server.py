"""The simulator's HTTP server: two paths per node, a page that lists them, health."""

from __future__ import annotations

import html
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client.exposition import choose_encoder

from gpu_actuary.serving import PLAIN_TEXT, PageHandler

from .targets import PATHS, path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .simulation import Simulation

_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"


def _index(simulation: Simulation) -> str:
    paths = [path_of(node.name, kind) for node in simulation.fleet.nodes for kind in PATHS.values()]
    links = "\n".join(f'<li><a href="{html.escape(p)}">{html.escape(p)}</a></li>' for p in paths)
    return (
        "<!doctype html>\n<title>GPU Actuary: SIMULATED fleet</title>\n"
        "<h1>SIMULATED fleet</h1>\n"
        "<p>Nothing here is measured: every number of these pages is made up by "
        f"<code>actuary simulate</code>.</p>\n<ul>\n{links}\n</ul>\n"
    )


def pages_of(simulation: Simulation, elapsed: Callable[[], float]) -> type[PageHandler]:
    """The handler that serves ``simulation``; ``elapsed`` gives the seconds since its start."""
    routes = {
        path_of(node.name, kind): (node.name, kind)
        for node in simulation.fleet.nodes
        for kind in PATHS.values()
    }
    pages = {
        "/": (_index(simulation), _HTML),
        "/-/healthy": ("healthy\n", PLAIN_TEXT),
        "/-/ready": ("ready\n", PLAIN_TEXT),
    }

    class Handler(PageHandler):
        def page(self, path: str) -> None:
            if path in pages:
                text, content_type = pages[path]
                self.answer(HTTPStatus.OK, text.encode(), content_type)
            elif path in routes:
                self._answer_for(*routes[path])
            else:
                self.answer(HTTPStatus.NOT_FOUND, b"not found; / lists the paths\n", PLAIN_TEXT)

        def _answer_for(self, node: str, kind: str) -> None:
            now = elapsed()
            if not simulation.is_up(node, now):
                text = f"{node} is down (simulated)\n"
                self.answer(HTTPStatus.SERVICE_UNAVAILABLE, text.encode(), PLAIN_TEXT)
            elif kind == PATHS["dcgm"]:
                self.answer(HTTPStatus.OK, simulation.dcgm(node, now).encode(), _METRICS)
            else:
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self.answer(HTTPStatus.OK, encode(simulation.sidecar(node, now)), content_type)

    return Handler
