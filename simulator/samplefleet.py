"""The fleet that ``actuary simulate`` shows: five nodes with something to see on each."""

from __future__ import annotations

from typing import Final

from .fleet import Exporter, Fleet, Gpu, Incident, Instance, Job, Load, LossCurve, Node, Place, Pod

H100_PEAK_FLOPS: Final = 989e12
"""Dense bf16 peak of an H100 SXM in floating-point operations per second."""

_OLD = Exporter("4.8", "570.172.08", "UUID", "Hostname", xid_window=True)
_OLD_PLAIN = Exporter("4.8", "570.172.08", "UUID", "Hostname")
_NEW = Exporter("4.9", "580.95.05", "uuid", "hostname", xid_window=True)
_NEW_PLAIN = Exporter("4.9", "580.95.05", "uuid", "hostname")
_NEW_BARE = Exporter("4.9", "580.95.05", "UUID", "hostname")


def _trainer(name: str) -> Pod:
    return Pod(name, "ml-train", "trainer")


def _server(name: str) -> Pod:
    return Pod(name, "ml-serve", "server")


def _pretraining_node() -> Node:
    worker = _trainer("sim-pretrain-worker-0")
    gpus = (
        Gpu(i, (worker,), used_mib=71204, single_bit_errors_per_hour=6.0 if i == 3 else 0.0)
        for i in range(8)
    )
    return Node("sim-a", _OLD, tuple(gpus))


def _half_used_node() -> Node:
    worker, idle = _trainer("sim-finetune-worker-0"), Pod("notebook-0", "research", "notebook")
    gpus = (
        *(Gpu(i, (worker,), used_mib=52310) for i in range(4)),
        *(Gpu(i, (idle,), used_mib=1210) for i in (4, 5)),
        *(Gpu(i) for i in (6, 7)),
    )
    remap = Incident(gpu=5, at_seconds=45, xid=63, double_bit_errors=1, rows_to_remap=1)
    return Node("sim-b", _NEW, gpus, (remap,))


def _serving_node() -> Node:
    loads = (0.62, 0.55, 0.48, 0.70, 0.35, 0.58)
    gpus = (
        *(
            Gpu(i, (_server(f"chat-{i}"),), Load(busy, 0.2, 41.0 + 6 * i), used_mib=63100)
            for i, busy in enumerate(loads)
        ),
        Gpu(6, (_server("embed-0"), _server("rerank-0")), Load(0.5, 0.25), used_mib=40000),
        Gpu(7),
    )
    return Node("sim-c", _OLD_PLAIN, gpus, (Incident(gpu=2, at_seconds=30, xid=31),))


def _sliced_node() -> Node:
    first = (
        Instance("3g.40gb", 1, 3, 40448, 31220, _server("emb-0"), Load(0.7, 0.2)),
        Instance("2g.20gb", 5, 2, 20096, 12044, _server("ocr-0"), Load(0.5, 0.3, 29.0)),
        Instance("1g.10gb", 13, 1, 9984),
    )
    second = (
        Instance("4g.40gb", 1, 4, 40448, 22110, _server("asr-0"), Load(0.3, 0.2, 61.0)),
        Instance("3g.40gb", 2, 3, 40448, 38),
    )
    whole = Gpu(2, (_server("chat-6"),), Load(0.6, 0.2, 53.0), used_mib=63100)
    gpus = (Gpu(0, instances=first), Gpu(1, instances=second), whole, *map(Gpu, range(3, 8)))
    return Node("sim-d", _NEW_PLAIN, gpus)


def _mortal_node() -> Node:
    gpus = tuple(Gpu(i, used_mib=44870) for i in range(8))
    return Node("sim-e", _NEW_BARE, gpus, mortal=True)


def _pretraining() -> Job:
    return Job(
        job_id="sim-pretrain",
        team="foundation-models",
        project="llm-7b",
        model="transformer-7b",
        places=tuple(Place("sim-a", i) for i in range(8)),
        phase_seconds={
            "data_wait": 0.02,
            "h2d": 0.01,
            "forward": 0.44,
            "backward": 0.86,
            "comm_exposed": 0.14,
            "optimizer": 0.07,
            "other": 0.02,
        },
        curve=LossCurve(first=10.8, floor=1.9, scale_steps=300, exponent=0.35),
        steps_per_checkpoint=20,
        checkpoint_seconds=1.5,
        checkpoint_bytes=14_200_000_000,
        evaluation_seconds=2.0,
        best_accuracy=0.71,
        startup_seconds=6.0,
        began_before_seconds=2 * 3600,
        flops_per_step=6 * 7e9 * 16384,
        peak_flops=H100_PEAK_FLOPS,
        samples_per_step=4,
        tokens_per_sample=4096,
        learning_rate=3e-4,
        workers=8,
        first_batch_seconds=1.8,
        restarts=True,
    )


def _finetuning() -> Job:
    """Starves on data: its loader delivers a third slower than the GPUs could go."""
    return Job(
        job_id="sim-finetune",
        team="assistants",
        project="support-bot",
        model="transformer-1b",
        places=tuple(Place("sim-b", i) for i in range(4)),
        phase_seconds={
            "data_wait": 0.42,
            "h2d": 0.03,
            "forward": 0.16,
            "backward": 0.32,
            "comm_exposed": 0.03,
            "optimizer": 0.04,
            "other": 0.02,
        },
        curve=LossCurve(first=3.4, floor=0.6, scale_steps=400, exponent=0.45),
        steps_per_checkpoint=40,
        checkpoint_seconds=0.8,
        checkpoint_bytes=2_600_000_000,
        evaluation_seconds=1.5,
        best_accuracy=0.93,
        startup_seconds=4.0,
        began_before_seconds=3600,
        flops_per_step=6 * 1.3e9 * 32768,
        peak_flops=H100_PEAK_FLOPS,
        samples_per_step=16,
        tokens_per_sample=2048,
        learning_rate=2e-5,
        workers=2,
        first_batch_seconds=3.1,
        jitter=0.10,
    )


def _distillation() -> Job:
    return Job(
        job_id="sim-distill",
        team="vision",
        project="edge-models",
        model="vit-large",
        places=tuple(Place("sim-e", i) for i in range(8)),
        phase_seconds={
            "data_wait": 0.05,
            "h2d": 0.02,
            "forward": 0.18,
            "backward": 0.31,
            "comm_exposed": 0.12,
            "optimizer": 0.04,
            "other": 0.01,
        },
        curve=LossCurve(first=6.9, floor=0.8, scale_steps=500, exponent=0.55),
        steps_per_checkpoint=50,
        checkpoint_seconds=1.0,
        checkpoint_bytes=1_250_000_000,
        evaluation_seconds=3.0,
        best_accuracy=0.87,
        startup_seconds=5.0,
        began_before_seconds=5400,
        flops_per_step=2.2e14,
        peak_flops=H100_PEAK_FLOPS,
        samples_per_step=128,
        tokens_per_sample=0,
        learning_rate=1e-3,
        workers=12,
        first_batch_seconds=1.2,
        flops_convention="counted",
        rates_itself=True,
    )


def sample_fleet() -> Fleet:
    """40 GPUs: training, starving on data, idle, free, serving, shared, sliced, and mortal ones."""
    return Fleet(
        nodes=(
            _pretraining_node(),
            _half_used_node(),
            _serving_node(),
            _sliced_node(),
            _mortal_node(),
        ),
        jobs=(_pretraining(), _finetuning(), _distillation()),
    )
