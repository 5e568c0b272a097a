"""The simulation: a fleet's state as a function of the seed and of the time since the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from . import activity
from .cycle import MICRO, Cycle, microseconds
from .dcgm import exposition
from .history import History
from .readings import Sensors, serving_work
from .sidecar import NodeCollector, NodeSamples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

    from .activity import Activity
    from .fleet import Fleet, Gpu, Job, Node


class Simulation:
    """Answers for every node at any time; holds no state, so threads may ask at once.

    ``started`` is the Unix time of the start, ``restart_every`` and ``die_after`` are seconds from
    it; None means never. Times to ask for are seconds since the start, at least 0.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        seed: int,
        started: float,
        restart_every: float | None = None,
        die_after: float | None = None,
    ) -> None:
        self.fleet = fleet
        self._seed = seed
        self._started = started
        self._restart_every = None if restart_every is None else microseconds(restart_every)
        self._die_after = die_after
        self._cycles = {job.job_id: Cycle(job, seed) for job in fleet.jobs}
        self._sensors = {
            node.name: [Sensors(node, gpu, seed, self._work(node, gpu)) for gpu in node.gpus]
            for node in fleet.nodes
        }

    def is_up(self, node: str, elapsed: float) -> bool:
        """Whether the node answers."""
        mortal = self.fleet.by_name[node].mortal
        return not mortal or self._die_after is None or elapsed < self._die_after

    def dcgm(self, node: str, elapsed: float) -> str:
        """The text of the node's dcgm-exporter."""
        now = microseconds(elapsed)
        readings = [sensors.read(now) for sensors in self._sensors[node]]
        return exposition(self.fleet.by_name[node], readings, now)

    def sidecar(self, node: str, elapsed: float) -> CollectorRegistry:
        """What the node's sidecar serves, for prometheus_client to encode."""

        def families() -> Iterator[Metric]:
            samples = NodeSamples(self.fleet.by_name[node], self._seed, self._started)
            for job in self.fleet.jobs:
                cycle = self._cycles[job.job_id]
                rate = cycle.steps * MICRO / cycle.duration
                samples.add_job(job, self._history(job, microseconds(elapsed)), rate)
            yield from samples.families()

        registry = CollectorRegistry(auto_describe=False)
        registry.register(NodeCollector(families))
        return registry

    def _history(self, job: Job, now: int) -> History:
        """The job's history at ``now`` microseconds after the start of the simulation."""
        restart_every = self._restart_every if job.restarts else None
        moment = now + microseconds(job.began_before_seconds)
        return History(job, self._cycles[job.job_id], moment, restart_every)

    def _work(self, node: Node, gpu: Gpu) -> Callable[[int], Activity]:
        for job in self.fleet.jobs:
            for rank, place in enumerate(job.places):
                if (place.node, place.gpu) == (node.name, gpu.index):
                    return self._training_work(job, rank)
        return serving_work(gpu)

    def _training_work(self, job: Job, rank: int) -> Callable[[int], Activity]:
        return lambda now: activity.of_training(self._history(job, now).phase_times(rank))
