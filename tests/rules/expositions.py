"""Small DCGM expositions of every shape that the rules must bear, as a function of a stage.

Each has its own cluster. A stage is one scrape of a story: 0 is the beginning, 7 the end.
"""

from __future__ import annotations

from collections.abc import Callable

Exposition = Callable[[int], str | None]
"""The text at a stage; None: the exporter does not answer."""

MODEL = "NVIDIA H100 80GB HBM3"
LAST_STAGE = 7

_NAMES = {
    "temperature": ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    "power": ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"),
    "energy": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"),
    "utilization": ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"),
    "xid": ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"),
    "remap_failure": ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
    "engine": ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    "sm": ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"),
}


def gpu(
    uuid: str,
    slot: str | None,
    node: str,
    *,
    new: bool = False,
    driver: bool = True,
    labels: dict[str, str] | None = None,
    **readings: float | str,
) -> str:
    """The lines of one GPU in the names and labels of one generation (``new``: from 4.9)."""
    identity = {"uuid" if new else "UUID": uuid, "hostname" if new else "Hostname": node}
    identity["modelName"] = MODEL
    if slot is not None:
        identity["pci_bus_id"] = f"00000000:{slot}:00.0"
    if driver:
        identity["DCGM_FI_SYSTEM_DRIVER_VERSION" if new else "DCGM_FI_DRIVER_VERSION"] = "570.1"
    text = ",".join(f'{k}="{v}"' for k, v in {**identity, **(labels or {})}.items())
    readings.setdefault("temperature", 40)
    return "".join(
        f"{_NAMES[reading][new] if reading in _NAMES else reading}{{{text}}} {value}\n"
        for reading, value in readings.items()
    )


def _same_fleet(new: bool) -> Exposition:
    """One GPU that a pod keeps busy, one that is free, in one of the two generations."""
    scale = 1 if new else 100
    return lambda _: (
        gpu("GPU-0", "19", "n", new=new, labels={"pod": "a"}, utilization=0.8 * scale, power=600.5)
        + gpu("GPU-1", "3B", "n", new=new, utilization=0, power=70)
    )


def _mig(_: int) -> str:
    return "".join(
        gpu(uuid, slot, "n", labels={"GPU_I_ID": instance}, power=power, engine=engine)
        for uuid, slot, power, instances in (
            ("GPU-0", "19", 338.412, (("1", 0.7), ("5", 0.2), ("13", 0.1))),
            ("GPU-1", "3B", 201.775, (("1", 0.3), ("2", 0.0))),
        )
        for instance, engine in instances
    )


def _hpc(_: int) -> str:
    return "".join(
        gpu(f"GPU-{n}", f"{n}9", "n", new=True, labels={"hpc_job": job}, power=100 + n)
        for n, jobs in enumerate((("7", "8", "9"), ("7",), ("0",)))
        for job in jobs
    )


def _time_slices(_: int) -> str:
    shared = (
        gpu("GPU-0", "19", "n", labels={"pod": p, "vgpu": p[-1]}, power=500) for p in ("p0", "p1")
    )
    link = 'DCGM_FI_DEV_NVLINK_BANDWIDTH_L0{gpu_uuid="GPU-0",model_name="x",Hostname="n"} 5\n'
    return "".join(shared) + gpu("GPU-0", "19", "n", power=500) + link


def _scraped(_: int) -> str:
    own = {"pod": "nvidia-dcgm-exporter-x", "namespace": "monitoring"}
    return gpu("GPU-0", "19", "n", labels={**own, "exported_pod": "trainer-0"}) + gpu(
        "GPU-1", "3B", "n", labels=own
    )


def _pod_name(_: int) -> str:
    return gpu("GPU-0", "19", "n", new=True, labels={"pod_name": "bert-0"}) + gpu(
        "GPU-1", "3B", "n", new=True
    )


def _sentinels(_: int) -> str:
    # GPU-1 has no utilisation at all, and its SMs are active: it is not free.
    return gpu(
        "GPU-0", "19", "n", utilization=98, power=140737488355328, energy=9223372036854775794
    ) + gpu(
        "GPU-1",
        "3B",
        "n",
        utilization=2147483632,
        engine=140737488355329,
        sm=0.9,
        temperature=2147483635,
        xid=9223372036854775795,
    )


def _broken(_: int) -> str:
    return (
        gpu("GPU-0", "19", "n", utilization=4294967, engine=0.9, sm=0.8, power=600)
        + gpu("GPU-1", "3B", "n", utilization=98, engine=0, sm=0, power=600)
        + gpu("GPU-2", "4C", "n", utilization=0, sm=0, power=0)
    )


def _not_a_number(_: int) -> str:
    return gpu(
        "GPU-0", "19", "n", utilization="NaN", power="+Inf", temperature="NaN", xid="-Inf"
    ) + gpu("GPU-1", "3B", "n", utilization=50, power=500, energy="NaN")


def _percent(_: int) -> str:
    # DCGM 4.6 behind an old exporter: percent under the new name. GPU-2 says nothing of its driver.
    return (
        gpu("GPU-0", "19", "n", DCGM_FI_DEV_GPU_UTIL_RATIO=60)
        + gpu("GPU-1", "3B", "n", DCGM_FI_DEV_GPU_UTIL_RATIO=1)
        + gpu("GPU-2", "4C", "n", driver=False, DCGM_FI_DEV_GPU_UTIL_RATIO=60)
        + gpu("GPU-3", "5D", "n", new=True, DCGM_FI_DEV_GPU_UTIL_RATIO=1)
    )


def _no_slots(stage: int) -> str:
    gone = "" if stage > 2 else gpu("GPU-1", None, "n")
    return gpu("GPU-0", None, "n") + gone


def _renamed(stage: int) -> str:
    return gpu("GPU-0", "19", "n" if stage < 3 else "n.example", power=100)


def _swapped(stage: int) -> str | None:
    # The new GPU's exporter is silent for a while: the old GPU must not come back for it.
    uuid = "GPU-old" if stage < 2 else "GPU-new"
    return None if stage in (4, 5) else gpu(uuid, "19", "n") + gpu("GPU-1", "3B", "n")


def _vanished(stage: int) -> str:
    gone = "" if stage > 2 else gpu("GPU-1", "3B", "n")
    return gpu("GPU-0", "19", "n") + gone


def _restarted(stage: int) -> str | None:
    return (
        None
        if stage in (3, 4)
        else gpu("GPU-0", "19", "n", labels={"pod": "a"}, remap_failure=0)
        + gpu("GPU-1", "3B", "n", remap_failure=1)
    )


def _dead(stage: int) -> str | None:
    return None if stage > 1 else gpu("GPU-0", "19", "n")


def _xid_64(stage: int) -> str:
    """64 is overwritten, then the exporter restarts (0); at last the driver does (energy)."""
    xid = (0, 64, 94, 94, 0, 0, 0, 0)[stage]
    joules = 20e6 + 600 * stage if stage < 6 else 900
    return (
        gpu("GPU-0", "19", "n", xid=xid, energy=joules * 1000, utilization=50)
        + gpu("GPU-1", "3B", "n", xid=0, energy=20e9)
        + gpu("GPU-blind", "4C", "n", xid=xid)
    )


def _phases(rank: str, job: str, elapsed: float, **seconds: float) -> str:
    return "".join(
        f'actuary_step_seconds_total{{node="n.example",job_id="{job}",rank="{rank}",phase="{phase}"}}'
        f" {each * elapsed}\n"
        for phase, each in seconds.items()
    )


def ranks(elapsed: float) -> str:
    """Ranks with every oddity: two info series, a phase of a newer exporter, NaN, a restart.

    Their sidecar spells the node's name otherwise than DCGM does, and shows one GPU too.
    """
    info = "".join(
        f'actuary_rank_info{{node="n.example",job_id="{job}",rank="{rank}",gpu_uuid="{uuid}",pod="{pod}"}} 1\n'
        for job, rank, uuid, pod in (
            ("j", "0", "GPU-0", "first"),
            ("j", "0", "GPU-0", "second"),
            ("j", "1", "GPU-1", ""),
            ("nan", "0", "GPU-2", ""),
        )
    )
    up = "".join(
        f'actuary_rank_up{{node="n.example",job_id="{job}",rank="{rank}"}} 1\n'
        for job, rank in (("j", "0"), ("j", "1"), ("nan", "0"))
    )
    present = 'actuary_gpu_present{node="n.example",gpu_uuid="GPU-0",device="cuda"} 1\n'
    since_restart = elapsed % 7
    return (
        "".join(gpu(f"GPU-{n}", f"{n}9", "n", utilization=90) for n in range(3))
        + present
        + info
        + up
        + _phases("0", "j", elapsed, forward=0.5, swapping=0.5)
        + _phases("1", "j", since_restart, forward=1)
        + _phases("0", "nan", elapsed, forward=float("nan"), backward=0.5)
    )


SHAPES: dict[str, Exposition] = {
    "old": _same_fleet(new=False),
    "new": _same_fleet(new=True),
    "mig": _mig,
    "hpc": _hpc,
    "time-slices": _time_slices,
    "scraped": _scraped,
    "pod-name": _pod_name,
    "sentinels": _sentinels,
    "broken": _broken,
    "not-a-number": _not_a_number,
    "percent": _percent,
    "no-slots": _no_slots,
    "renamed": _renamed,
    "swapped": _swapped,
    "vanished": _vanished,
    "restarted": _restarted,
    "dead": _dead,
    "xid-64": _xid_64,
    "unescaped": lambda _: gpu("GPU-0", "19", "n", labels={"hpc_job": 'a"b'}),
}
"""By cluster; each is scraped from one target."""
