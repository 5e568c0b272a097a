"""Random fleets as linear counters, with what the plain formulas say about each of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gpu_actuary.catalogue.vocabulary import OUTSIDE_ITERATION, PHASES

MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA Unheard-of")
PRICES = {"NVIDIA H100 80GB HBM3": 2.5, "NVIDIA A100-SXM4-80GB": 1.6, "NVIDIA Unheard-of": 2.0}


@dataclass
class Rank:
    """One rank: seconds per second by phase, and what it publishes beside them."""

    job: str
    number: int
    phases: dict[str, float]
    steps: float
    flops: float | None
    peak: float | None
    loss_slope: float
    restarts_at: float | None = None

    @property
    def wall(self) -> float:
        return sum(self.phases.values())

    @property
    def iteration(self) -> float:
        return sum(s for phase, s in self.phases.items() if phase not in OUTSIDE_ITERATION)


@dataclass
class Gpu:
    """One GPU of one of the two DCGM generations, with its ranks."""

    uuid: str
    slot: str
    generation: int
    model: str
    copies: list[str]
    utilization: float
    power: float | None
    condemned: bool
    vanishes: bool
    ranks: list[Rank] = field(default_factory=list)

    @property
    def allocated(self) -> bool:
        return bool(self.ranks) or any(self.copies)


@dataclass
class Evaluation:
    """What one job's evaluation published."""

    accuracy: float | None
    loss: float | None
    initial_loss: float | None
    own_quality: float | None


@dataclass
class Fleet:
    """One cluster. ``steady``: nothing restarts, so every rate is exactly its slope."""

    cluster: str
    gpus: list[Gpu]
    evaluations: dict[str, Evaluation]
    steady: bool

    def ranks(self, job: str) -> list[Rank]:
        return [r for g in self.gpus for r in g.ranks if r.job == job]

    @property
    def jobs(self) -> list[str]:
        return sorted({r.job for g in self.gpus for r in g.ranks})


def _phases(rng: random.Random) -> dict[str, float]:
    weights = {phase: rng.choice((0.0, rng.random(), rng.random() ** 3)) for phase in PHASES}
    total = sum(weights.values()) or 1.0
    wall = rng.choice((1.0, 1.0, rng.random()))
    phases = {phase: round(w / total * wall, 6) for phase, w in weights.items()}
    if rng.random() < 0.2:
        del phases["comm_exposed"]  # nobody measures this rank's communication
    return phases


def _gpu(rng: random.Random, index: int, jobs: list[str], counter: dict[str, int]) -> Gpu:
    gpu = Gpu(
        uuid=f"GPU-{index}",
        slot=f"00000000:{index:02X}:00.0",
        generation=rng.choice((48, 49)),
        model=rng.choice(MODELS),
        # Each entry is one repetition of every DCGM series; the text is the pod that holds it.
        copies=rng.choice(([""], [""], ["pod-a"], ["pod-a", "pod-b"], ["", "pod-a"])),
        utilization=rng.choice((0.0, 0.02, rng.random())),
        power=rng.choice((None, round(rng.uniform(60, 700), 3), 412.5)),
        condemned=rng.random() < 0.1,
        vanishes=rng.random() < 0.15,
    )
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3)) if jobs else 0):
        job = rng.choice(jobs)
        counter[job] = counter.get(job, -1) + 1
        peak = rng.choice((None, 1000.0))
        gpu.ranks.append(
            Rank(
                job=job,
                number=counter[job],
                phases=_phases(rng),
                steps=round(rng.uniform(0.1, 5), 3),
                flops=rng.choice((None, round(rng.uniform(1, 900), 3))) if peak else None,
                peak=peak,
                loss_slope=round(rng.uniform(-2, 0.5), 4),
            )
        )
    return gpu


def random_fleet(seed: int) -> Fleet:
    """The fleet of ``seed``; the same seed gives the same fleet."""
    rng = random.Random(seed)
    jobs = [f"job-{n}" for n in range(rng.randint(0, 3))]
    counter: dict[str, int] = {}
    gpus = [_gpu(rng, index, jobs, counter) for index in range(rng.randint(1, 7))]
    steady = rng.random() < 0.7
    if not steady:
        for gpu in gpus:
            for rank in gpu.ranks:
                rank.restarts_at = rng.choice((None, rng.uniform(5, 20)))
    evaluations = {
        job: Evaluation(
            accuracy=rng.choice((None, round(rng.random(), 4), 1.7)),
            loss=rng.choice((None, round(rng.uniform(0.05, 4), 4))),
            initial_loss=rng.choice((2.3, 0.05)),
            own_quality=rng.choice((None, None, round(rng.random(), 4))),
        )
        for job in jobs
    }
    return Fleet(f"fleet-{seed}", gpus, evaluations, steady)


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def _dcgm(fleet: Fleet, gpu: Gpu) -> list[str]:
    old = gpu.generation == 48
    lines = []
    for copy, pod in enumerate(gpu.copies):
        identity = {
            "cluster": fleet.cluster,
            "UUID" if old else "uuid": gpu.uuid,
            "Hostname" if old else "hostname": "n1",
            "pci_bus_id": gpu.slot,
            "modelName": gpu.model,
            "copy": str(copy),
        }
        labels = _labels(**identity, **({"pod": pod} if pod else {}))
        lines.append(f"DCGM_FI_DEV_GPU_TEMP{'' if old else '_CELSIUS'}{labels} 40")
        if old:
            lines.append(f"DCGM_FI_DEV_GPU_UTIL{labels} {gpu.utilization * 100}")
        else:
            lines.append(f"DCGM_FI_DEV_GPU_UTIL_RATIO{labels} {gpu.utilization}")
        if gpu.power is not None:
            name = "DCGM_FI_DEV_POWER_USAGE" if old else "DCGM_FI_DEV_BOARD_POWER_WATTS"
            lines.append(f"{name}{labels} {gpu.power}")
        failure = "DCGM_FI_DEV_ROW_REMAP_FAILURE" if old else "DCGM_FI_DEV_ROW_REMAP_FAILED"
        lines.append(f"{failure}{labels} {int(gpu.condemned)}")
    return lines


def _rank(fleet: Fleet, gpu: Gpu, rank: Rank, elapsed: float) -> list[str]:
    base = {
        "cluster": fleet.cluster,
        "node": "n1",
        "job_id": rank.job,
        "rank": str(rank.number),
    }
    if rank.restarts_at is not None and elapsed > rank.restarts_at:
        elapsed -= rank.restarts_at  # a sidecar that lost its files: the counters begin anew
    labels = _labels(**base)
    lines = [
        f"actuary_step_seconds_total{_labels(**base, phase=phase)} {slope * elapsed!r}"
        for phase, slope in rank.phases.items()
    ]
    lines += [
        f"actuary_steps_total{labels} {rank.steps * elapsed!r}",
        f"actuary_rank_up{labels} 1",
        f"actuary_rank_info{_labels(**base, gpu_uuid=gpu.uuid)} 1",
        f"actuary_loss_slope_per_hour{labels} {rank.loss_slope}",
    ]
    if rank.flops is not None:
        lines.append(f"actuary_model_flops_total{labels} {rank.flops * elapsed!r}")
    if rank.peak is not None:
        lines.append(f"actuary_gpu_peak_flops{labels} {rank.peak}")
    if rank.number == 0:
        evaluation = fleet.evaluations[rank.job]
        for name, value in (
            ("actuary_evaluation_loss", evaluation.loss),
            ("actuary_evaluation_initial_loss", evaluation.initial_loss),
            ("actuary_quality_score", evaluation.own_quality),
        ):
            if value is not None:
                lines.append(f"{name}{labels} {value}")
        if evaluation.accuracy is not None:
            scored = _labels(**base, metric="accuracy")
            lines.append(f"actuary_evaluation_score{scored} {evaluation.accuracy}")
    return lines


def exposition(fleets: list[Fleet], elapsed: float, now_ms: int, vanish_after: float) -> str:
    """The fleets' text ``elapsed`` seconds after the start, every sample stamped ``now_ms``.

    The stamp makes a counter's value belong to exactly its time, so that a rate is its slope.
    """
    by_name: dict[str, list[str]] = {}
    for fleet in fleets:
        for gpu in fleet.gpus:
            lines = []
            if not (gpu.vanishes and elapsed > vanish_after):
                lines += _dcgm(fleet, gpu)
            for rank in gpu.ranks:
                lines += _rank(fleet, gpu, rank, elapsed)
            for line in lines:
                by_name.setdefault(line.partition("{")[0], []).append(line)
    return "".join(f"{line} {now_ms}\n" for lines in by_name.values() for line in lines)
