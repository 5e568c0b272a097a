"""Reading expositions in tests, without the code that wrote them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.simulator.samplefleet import sample_fleet
from gpu_actuary.simulator.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

Sample = tuple[str, frozenset[tuple[str, str]]]

STARTED = 1_700_000_000.0
NODES = tuple(node.name for node in sample_fleet().nodes)

_LINE = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)")
_TYPE = re.compile(r"# TYPE (\w+) ")
_KEY = re.compile(r'(\w+)="')


def simulation(seed: int = 1, **options: float | None) -> Simulation:
    """The sample fleet, started at a fixed time."""
    return Simulation(sample_fleet(), seed=seed, started=STARTED, **options)


def sidecar_text(fleet: Simulation, node: str, elapsed: float) -> str:
    """The sidecar's text of a node."""
    return generate_latest(fleet.sidecar(node, elapsed)).decode()


def values(text: str, types: tuple[str, ...] = ()) -> dict[Sample, float]:
    """Every sample of a text, or those of some types; a series that stands twice is an error."""
    declared = set(_TYPE.findall(text))
    found: dict[Sample, float] = {}
    for family in text_string_to_metric_families(text):
        if types and family.type not in types:
            continue
        for sample in family.samples:
            # The parser lets every counter end in _total, as DCGM's do not.
            written = family.type != "counter" or family.name not in declared
            key = (sample.name if written else family.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} stands twice"
            found[key] = sample.value
    return found


def select(found: dict[Sample, float], name: str, **labels: str) -> dict[Sample, float]:
    """The samples of a name that carry these labels."""
    return {
        key: value
        for key, value in found.items()
        if key[0] == name and labels.items() <= dict(key[1]).items()
    }


def only(found: dict[Sample, float], name: str, **labels: str) -> float:
    """The value of the one sample of a name that carries these labels."""
    (value,) = select(found, name, **labels).values()
    return value


def lines(text: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Name, label keys in written order and value as written, line by line."""
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _LINE.fullmatch(line)
            assert match, line
            yield match["name"], tuple(_KEY.findall(match["labels"])), match["value"]


def heads(text: str) -> list[tuple[str, str]]:
    """The HELP and TYPE lines by family, in written order."""
    comments = [line for line in text.splitlines() if line.startswith("#")]
    return list(zip(comments[::2], comments[1::2], strict=True))
