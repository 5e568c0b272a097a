"""A small fleet as metrics text: every case that the predictor must tell apart."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Text:
    """Metrics text that a test server exposes."""

    lines: list[str] = field(default_factory=list)

    def add(self, name: str, value: float = 1, /, **labels: str) -> None:
        """One sample."""
        pairs = ",".join(f'{key}="{text}"' for key, text in labels.items())
        self.lines.append(f"{name}{{{pairs}}} {value}\n")

    def add_at(self, at: float, name: str, /, **labels: str) -> None:
        """One sample of 1 with a timestamp of its own, in Unix seconds."""
        pairs = ",".join(f'{key}="{text}"' for key, text in labels.items())
        self.lines.append(f"{name}{{{pairs}}} 1 {int(at * 1000)}\n")

    def gpu(
        self,
        uuid: str,
        *,
        node: str = "n1",
        present: bool = True,
        cost: float | None = 2.0,
        currency: str = "USD",
        **more: str,
    ) -> None:
        """A GPU of the inventory as the rules record it."""
        identity = {"cluster": "c", "node": node, "gpu_uuid": uuid, **more}
        self.add("gpu:inventory:bool", **identity)
        if present:
            self.add("gpu:present:bool", **identity)
        if cost is not None:
            self.add("gpu:cost:money_per_hour", cost, currency=currency, **identity)

    def rank(
        self, job_id: str, rank: int, uuid: str, *, up: int = 1, node: str = "n1", **more: str
    ) -> None:
        """A rank as the sidecar reports it."""
        identity = {"cluster": "c", "node": node, "job_id": job_id, "rank": str(rank), **more}
        self.add("actuary_rank_up", up, **identity)
        self.add("actuary_rank_info", gpu_uuid=uuid, local_rank="0", **identity)

    def job(
        self, job_id: str, *uuids: str, age: float | None = 3600, world_size: int | None = None
    ) -> None:
        """A job with one rank on each GPU; ``world_size`` is the number of ranks unless given."""
        for rank, uuid in enumerate(uuids):
            self.rank(job_id, rank, uuid)
        size = str(world_size or len(uuids))
        self.add("actuary_job_info", cluster="c", job_id=job_id, attempt="1", world_size=size)
        if age is not None:
            self.add("job:checkpoint_age:seconds", age, cluster="c", job_id=job_id)

    def render(self, _path: str = "") -> str:
        return "".join(self.lines)


def every_case(now: float) -> Text:
    """The fleet at Unix time ``now``, all of it in cluster ``c``."""
    text = Text()
    _overrides(text)
    _without_estimate(text, now)
    _jobs(text, now)
    return text


def history(now: float) -> list[tuple[str, float, float]]:
    """What the overrides' GPUs looked like around 24 h before ``now``."""

    def xid(uuid: str) -> str:
        return f'gpu:xid:last{{cluster="c",node="n1",gpu_uuid="{uuid}"}}'

    def double_bit(uuid: str) -> str:
        return f'DCGM_FI_DEV_ECC_DBE_AGG_TOTAL{{cluster="c",Hostname="n1",UUID="{uuid}"}}'

    day_ago = now - 86400
    return [
        (series, day_ago + minutes * 60, value)
        for minutes in range(-10, 20)
        for series, value in (
            (xid("xid-79-old"), 79),
            (xid("xid-48-after-31"), 31),
            (double_bit("double-bit-new"), 2),
            (double_bit("double-bit-lifetime"), 5),
        )
    ]


def _overrides(text: Text) -> None:
    for uuid in ("plain", "plain-2", "xid-48-after-31"):
        text.gpu(uuid)
    text.gpu("plain", source="simulated")
    for reason in ("row_remap_failure", "xid_64", "recovery_action"):
        text.gpu(reason)
        text.add("gpu:condemned:bool", cluster="c", node="n1", gpu_uuid=reason, reason=reason)
    text.gpu("pardoned")
    text.add("gpu:condemned:bool", 0, cluster="c", node="n1", gpu_uuid="pardoned", reason="xid_64")
    text.gpu("vanished", present=False)
    for code in (13, 31, 48, 63, 79, 94, 95):
        text.gpu(f"xid-{code}")
        text.add("gpu:xid:last", code, cluster="c", node="n1", gpu_uuid=f"xid-{code}")
    text.gpu("xid-79-old")
    text.add("gpu:xid:last", 79, cluster="c", node="n1", gpu_uuid="xid-79-old")
    text.add("gpu:xid:last", 48, cluster="c", node="n1", gpu_uuid="xid-48-after-31")

    # Raw series of both generations, repeated per MIG instance and per scheduler job.
    text.gpu("pending-4.8")
    for instance in ("1", "5"):
        text.add(
            "DCGM_FI_DEV_ROW_REMAP_PENDING",
            cluster="c",
            Hostname="n1",
            UUID="pending-4.8",
            GPU_I_ID=instance,
        )
    text.gpu("pending-4.9")
    for hpc_job in ("7", "8"):
        text.add(
            "DCGM_FI_DEV_ROW_REMAP_PENDING",
            cluster="c",
            hostname="n1",
            uuid="pending-4.9",
            hpc_job=hpc_job,
        )
    text.gpu("pending-none")
    text.add("DCGM_FI_DEV_ROW_REMAP_PENDING", 0, cluster="c", hostname="n1", uuid="pending-none")
    text.gpu("hidden-64")
    text.add("gpu:xid:last", 31, cluster="c", node="n1", gpu_uuid="hidden-64")
    for counted in ("64", "31", "not-a-number", "9" * 5000):
        text.add(
            "DCGM_EXP_XID_ERRORS_COUNT", cluster="c", Hostname="n1", UUID="hidden-64", xid=counted
        )
    for uuid, count in (("double-bit-new", 3), ("double-bit-lifetime", 5), ("double-bit-young", 9)):
        text.gpu(uuid)
        text.add("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", count, cluster="c", Hostname="n1", UUID=uuid)


def _without_estimate(text: Text, now: float) -> None:
    text.gpu("silent-0", node="n2", present=False)
    text.gpu("silent-1", node="n2", present=False)
    text.gpu("CPU-n1-0", present=False)
    text.add(
        "gpu:seen:timestamp_seconds",
        now - 60,
        cluster="c",
        node="n1",
        gpu_uuid="CPU-n1-0",
        slot="CPU-n1-0",
    )
    text.add(
        "gpu:seen:timestamp_seconds",
        now - 60,
        cluster="c",
        node="n1",
        gpu_uuid="vanished",
        slot="00:19",
    )
    text.add(
        "gpu:seen:timestamp_seconds",
        now - 900,
        cluster="c",
        node="n1",
        gpu_uuid="vanished",
        slot="vanished",
    )
    text.gpu("stale", present=False)
    text.add_at(now - 200, "gpu:present:bool", cluster="c", node="n1", gpu_uuid="stale")
    text.add("gpu:inventory:bool", cluster="c", node="n1")
    text.gpu("not-a-number", node="n3", present=False)
    text.add("gpu:present:bool", float("nan"), cluster="c", node="n3", gpu_uuid="not-a-number")


def _jobs(text: Text, now: float) -> None:
    text.gpu("pair-0", cost=2.5)
    text.gpu("pair-1", cost=3.5)
    text.job("pair", "pair-0", "pair-1")

    text.job("doomed", "plain", "vanished")

    text.gpu("shared", cost=4.0)
    text.job("shared-a", "shared", "shared")
    text.job("shared-b", "shared")

    text.gpu("euro", currency="EUR")
    text.job("two-currencies", "plain-2", "euro")

    text.gpu("unpriced", cost=None)
    text.job("unpriced", "unpriced")

    text.job("unsaved", "xid-13", age=None)
    for phase, seconds in (("forward", 1500), ("data_wait", 300)):
        text.add(
            "actuary_step_seconds_total",
            seconds,
            cluster="c",
            node="n1",
            job_id="unsaved",
            rank="0",
            phase=phase,
        )

    text.job("skewed", "xid-31", age=None)
    identity = {"cluster": "c", "node": "n1", "job_id": "skewed", "rank": "0"}
    text.add("actuary_step_seconds_total", 600, phase="forward", **identity)
    text.add("actuary_checkpoint_last_success_timestamp_seconds", now + 30, **identity)

    text.gpu("negative")
    text.job("negative-age", "negative", age=-5)

    text.job("half", "xid-94", world_size=4)
    text.job("blind", "silent-0")
    text.job("nameless", "")

    # Restarted elsewhere: the dead rank's GPU vanished, the living one has another.
    text.gpu("new-home", node="n4")
    text.rank("moved", 0, "vanished", up=0)
    text.add(
        "actuary_rank_heartbeat_timestamp_seconds",
        now - 60,
        cluster="c",
        node="n1",
        job_id="moved",
        rank="0",
    )
    text.rank("moved", 0, "new-home", node="n4")
    text.add("job:checkpoint_age:seconds", 0, cluster="c", job_id="moved")
    for attempt, size in (("1", "8"), ("2", "1")):
        text.add("actuary_job_info", cluster="c", job_id="moved", attempt=attempt, world_size=size)

    text.rank("long-dead", 0, "plain-2", up=0)
    text.add(
        "actuary_rank_heartbeat_timestamp_seconds",
        now - 3600,
        cluster="c",
        node="n1",
        job_id="long-dead",
        rank="0",
    )

    text.gpu("renamed", node="n5.example.org")
    text.rank("renamed", 0, "renamed", node="n5")
    text.add("job:checkpoint_age:seconds", 0, cluster="c", job_id="renamed")
