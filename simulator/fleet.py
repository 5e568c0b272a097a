"""What a simulated fleet consists of: nodes, GPUs, what runs on them, what goes wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

GPUS_PER_NODE: Final = 8
STEP_PHASES: Final = (
    "data_wait",
    "h2d",
    "forward",
    "backward",
    "comm_exposed",
    "optimizer",
    "other",
)
"""The phases of one iteration in the order in which a rank goes through them."""

LONGEST_LOOK_BACK_SECONDS: Final = 60
"""Readings are means over a past window, so every job must have begun at least so long ago."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A Kubernetes pod that holds a GPU, a slice of it, or a part of its time."""

    name: str
    namespace: str
    container: str


@dataclass(frozen=True, slots=True)
class Load:
    """The swinging load of a server: ``busy`` ± ``swing`` as shares of the time, 0..1."""

    busy: float
    swing: float = 0.0
    period_seconds: float = 47.0

    def __post_init__(self) -> None:
        if self.busy < self.swing or self.busy + self.swing > 1.0:
            raise ValueError(f"a load of {self.busy} ± {self.swing} leaves the range 0..1")


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance. ``slices`` of seven compute slices; memory in MiB."""

    profile: str
    instance_id: int
    slices: int
    memory_mib: int
    used_mib: int = 0
    pod: Pod | None = None
    load: Load | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Several ``pods`` share it by time slicing; ``instances`` put it into MIG mode.

    ``used_mib`` is occupied framebuffer memory. What a training rank makes of the GPU follows from
    the job and is not said here.
    """

    index: int
    pods: tuple[Pod, ...] = ()
    load: Load | None = None
    instances: tuple[Instance, ...] = ()
    used_mib: int = 4
    single_bit_errors_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class Exporter:
    """How the node's dcgm-exporter spells things; ``xid_window`` turns on its XID counts."""

    generation: Literal["4.8", "4.9"]
    driver_version: str
    uuid_label: Literal["UUID", "uuid"]
    hostname_label: Literal["Hostname", "hostname"]
    xid_window: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happens to a GPU ``at_seconds`` after the start and stays."""

    gpu: int
    at_seconds: float
    xid: int
    double_bit_errors: int = 0
    rows_to_remap: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A node of eight GPUs. ``mortal``: it goes down when the simulation says so."""

    name: str
    exporter: Exporter
    gpus: tuple[Gpu, ...]
    incidents: tuple[Incident, ...] = ()
    mortal: bool = False

    def __post_init__(self) -> None:
        if [gpu.index for gpu in self.gpus] != list(range(GPUS_PER_NODE)):
            raise ValueError(f"node {self.name}: expected the GPUs 0 to {GPUS_PER_NODE - 1}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank runs."""

    node: str
    gpu: int


@dataclass(frozen=True, slots=True)
class LossCurve:
    """A power law: ``floor + (first - floor) · (1 + step ÷ scale_steps) ^ -exponent``."""

    first: float
    floor: float
    scale_steps: float
    exponent: float


@dataclass(frozen=True, slots=True)
class Job:
    """A training job with one rank per place, in rank order.

    ``phase_seconds`` are the mean seconds of one iteration by phase (`STEP_PHASES`); flops, samples
    and tokens are per rank and step; ``peak_flops`` is per second. ``began_before_seconds`` is how
    long the job had been running when the simulation starts. ``restarts``: it crashes and resumes
    when the simulation says so. ``rates_itself``: its evaluation gives a quality of its own.
    """

    job_id: str
    team: str
    project: str
    model: str
    places: tuple[Place, ...]
    phase_seconds: Mapping[str, float]
    curve: LossCurve
    steps_per_checkpoint: int
    checkpoint_seconds: float
    checkpoint_bytes: int
    evaluation_seconds: float
    best_accuracy: float
    startup_seconds: float
    began_before_seconds: float
    flops_per_step: float
    peak_flops: float
    samples_per_step: int
    tokens_per_sample: int
    learning_rate: float
    workers: int
    first_batch_seconds: float
    precision: str = "bf16"
    flops_convention: str = "6 x parameters x tokens"
    jitter: float = 0.04
    restarts: bool = False
    rates_itself: bool = False

    def __post_init__(self) -> None:
        if set(self.phase_seconds) != set(STEP_PHASES):
            raise ValueError(f"job {self.job_id}: expected seconds of {', '.join(STEP_PHASES)}")
        if self.began_before_seconds < LONGEST_LOOK_BACK_SECONDS + self.startup_seconds:
            raise ValueError(f"job {self.job_id}: it must have begun before the simulation")


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes and jobs. A GPU holds at most one rank, and none in MIG mode."""

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    by_name: Mapping[str, Node] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {node.name: node for node in self.nodes})
        if len(self.by_name) < len(self.nodes):
            raise ValueError("two nodes have the same name")
        if len({job.job_id for job in self.jobs}) < len(self.jobs):
            raise ValueError("two jobs have the same job_id")
        places = Counter(place for job in self.jobs for place in job.places)
        for place, ranks in places.items():
            node = self.by_name.get(place.node)
            if node is None or not 0 <= place.gpu < len(node.gpus):
                raise ValueError(f"a rank runs on {place}, which does not exist")
            if ranks > 1 or node.gpus[place.gpu].instances:
                raise ValueError(f"{place} is in MIG mode or holds {ranks} ranks")
        for job in self.jobs:
            nodes = {place.node for place in job.places}
            if len(nodes) > 1 and any(self.by_name[name].mortal for name in nodes):
                raise ValueError(f"job {job.job_id} spans a mortal node and others")
