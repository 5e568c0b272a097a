"""A sidecar in a thread of the test's process, with its optional parts."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import bcrypt
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.exporters.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

PASSWORD = "correct horse"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
USERS = f"basic_auth_users:\n  alice: {HASH}\n"


@contextlib.contextmanager
def sidecar(directory: Path, **settings: Any) -> Iterator[Sidecar]:
    """A sidecar of node ``n1``; ``settings`` are further arguments of :class:`Sidecar`."""
    server = Sidecar("127.0.0.1", 0, directory=directory, node="n1", stale_after=15.0, **settings)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(timeout=10)


def samples(client: httpx.Client) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """One scrape: values by series name, then by sorted labels; nothing stands twice."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    families = list(text_string_to_metric_families(client.get("/metrics").raise_for_status().text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        for sample in family.samples:
            key = tuple(sorted(sample.labels.items()))
            assert key not in found.setdefault(sample.name, {}), f"{sample} is exposed twice"
            found[sample.name][key] = sample.value
    return found
