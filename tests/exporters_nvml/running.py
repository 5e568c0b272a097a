"""The real sidecar in a process of its own, and what it answers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.catalogue import get

from ..servers import wait_for
from .shim import uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NODE = "n1"


class Scrape:
    """The samples of one scrape; names and labels without the prefix and what all have."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.samples, f"{key} is exposed twice"
                self.samples[key] = sample.value

    def of_node(self, name: str, **labels: str) -> float | None:
        """The value of a series of the node."""
        return self.samples.get((f"actuary_{name}", frozenset({"node": NODE, **labels}.items())))

    def of(self, gpu: int | str, name: str, **labels: str) -> float | None:
        """The value of ``actuary_gpu_NAME`` of a GPU (its number or UUID); None when absent."""
        name, owner = f"gpu_{name}", uuid(gpu) if isinstance(gpu, int) else gpu
        if name == "gpu_present":
            labels = {"device": "cuda", **labels}
        return self.of_node(name, gpu_uuid=owner, **labels)

    def errors(self, gpu: int | str) -> set[str]:
        """The fields of a GPU that have failed; of the node for ""."""
        return set(self.all_of(gpu, "field_errors_total", "field"))

    def all_of(self, gpu: int | str, name: str, label: str) -> dict[str, float]:
        """The values of ``actuary_gpu_NAME`` of a GPU by one label."""
        owner = uuid(gpu) if isinstance(gpu, int) else gpu
        return {
            dict(labels)[label]: value
            for (found, labels), value in self.samples.items()
            if found == f"actuary_gpu_{name}" and dict(labels)["gpu_uuid"] == owner
        }

    def fields(self, gpu: int) -> set[str]:
        """The names of all series of a GPU, but for errors."""
        found = {
            name.removeprefix("actuary_gpu_")
            for name, labels in self.samples
            if dict(labels).get("gpu_uuid") == uuid(gpu)
        }
        assert all(get(f"actuary_gpu_{name}") for name in found)
        return found - {"field_errors_total"}


class Sidecar:
    """A running sidecar."""

    def __init__(self, url: str, log: Path, pid: int) -> None:
        self.url = url
        self.pid = pid
        self._log = log

    def scrape(self) -> Scrape:
        """What it answers now."""
        answer = httpx.get(f"{self.url}/metrics", trust_env=False, timeout=20)
        return Scrape(answer.raise_for_status().text)

    def log(self) -> str:
        """What it has written to its error output."""
        return self._log.read_text()

    def wait(self, condition: Callable[[Scrape], bool], what: str, seconds: float = 30) -> Scrape:
        """The first scrape of which ``condition`` holds."""
        found: list[Scrape] = []

        def holds() -> bool:
            found[:] = [self.scrape()]
            return condition(found[0])

        try:
            wait_for(holds, seconds=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}\n{found[0].text}") from None
        return found[0]


@contextlib.contextmanager
def sidecar(folder: Path, environment: dict[str, str], *options: str) -> Iterator[Sidecar]:
    """``actuary exporter`` over the rank files of ``folder``/ranks, until the context ends."""
    log = folder / "sidecar.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gpu_actuary", "exporter", "--listen", "127.0.0.1:0"),
                *("--directory", str(folder / "ranks"), "--node", NODE, *options),
            ],
            env=environment,
            stderr=output,
        )
    try:
        wait_for(
            lambda: process.poll() is not None or "Serving" in log.read_text(),
            seconds=30,
            what="the sidecar",
        )
        address = next(word for word in log.read_text().split() if word.startswith("http"))
        yield Sidecar(address.removesuffix("/metrics"), log, process.pid)
        assert process.poll() is None, log.read_text()
        process.terminate()
        assert process.wait(timeout=20) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.wait()
