"""Every question that the predictor asks Prometheus, in PromQL.

All are instant queries at one common time, so that a cycle sees one state of the world. Each
aggregates by identity first: two scrapes of one exporter, a MIG instance or a pod label that comes
and goes never make a second GPU, rank or job. None scans more than an hour of a series that every
GPU has; what happened within a day is asked for at the two ends of the day.
"""

from __future__ import annotations

from typing import Final

GPU: Final = "cluster, source, node, gpu_uuid"
JOB: Final = "cluster, source, job_id"
RANK: Final = "cluster, source, node, job_id, rank"
RAW_GPU: Final = "cluster, source, node, Hostname, hostname, UUID, uuid, gpu_uuid"
"""Labels that identify a GPU in raw DCGM series of either generation; `identity` reads them."""

DEAD_RANK_GRACE_SECONDS: Final = 900
"""A rank whose heartbeat is stale holds its GPU for so long, as in the ledger's rules."""

NOW: Final = "time()"
"""The server's clock: ages are measured with the clock that stamped the samples."""

INVENTORY: Final = f"max by ({GPU}) (timestamp(gpu:inventory:bool) and gpu:inventory:bool == 1)"
"""Expected GPUs; the value is the time of the sample (Unix seconds)."""

PRESENT: Final = f"max by ({GPU}) (timestamp(gpu:present:bool) and gpu:present:bool == 1)"
"""GPUs that a source reports; the value is the time of the sample (Unix seconds)."""

SEEN: Final = f"max by ({GPU}, slot) (gpu:seen:timestamp_seconds)"
"""When each GPU was last seen in each slot (Unix seconds). A slot that equals the UUID means that
the node's sidecar reported the device, any other slot that DCGM did."""

CONDEMNED: Final = f"max by ({GPU}, reason) (gpu:condemned:bool) == 1"
"""GPUs that a deterministic rule condemns, by reason."""

NEW_XID: Final = (
    f"max by ({GPU}) (gpu:xid:last > 0) unless on ({GPU}) "
    f"(max by ({GPU}) (gpu:xid:last) == on ({GPU}) max by ({GPU}) (gpu:xid:last offset 24h))"
)
"""Last XID code where it is not the code of 24 h ago. The gauge is sticky: an old code says nothing
about the coming day. A GPU without a sample 24 h ago counts as new."""

COUNTED_XID: Final = (
    f'max by ({RAW_GPU}, xid) (max_over_time(DCGM_EXP_XID_ERRORS_COUNT{{xid!=""}}[24h])) > 0'
)
"""XID codes that the exporter's 5-minute window counted within 24 h. Such series exist only for
GPUs with events, and show codes that a later one has hidden in the gauge."""

REMAP_PENDING: Final = f"max by ({RAW_GPU}) (DCGM_FI_DEV_ROW_REMAP_PENDING) == 1"
"""GPUs with a row remap that waits for a reset; one name in both generations of the exporter."""

_DOUBLE_BIT: Final = '{__name__=~"DCGM_FI_DEV_ECC_DBE_(VOL|AGG)_TOTAL"}'
NEW_DOUBLE_BIT: Final = (
    f"group by ({RAW_GPU}) (max by (__name__, {RAW_GPU}) ({_DOUBLE_BIT}) > "
    f"max by (__name__, {RAW_GPU}) ({_DOUBLE_BIT} offset 24h)) "
    f"or group by ({RAW_GPU}) ("
    f"increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[1h]) > 0 or increase(DCGM_FI_DEV_ECC_DBE_AGG_TOTAL[1h]) > 0)"
)
"""GPUs whose count of uncorrectable memory errors grew: against 24 h ago, or within the last hour
where the history is younger. Lifetime totals as such say nothing about the coming day. Both names
are the same in both generations of the exporter."""

RANK_GPU: Final = f"max by ({RANK}, gpu_uuid) (timestamp(actuary_rank_info))"
"""The device of each rank; the value is the time of the sample, so that the newest can be chosen
while a rank moves."""

RANK_HOLDS: Final = (
    f"max by ({RANK}) (actuary_rank_up) == 1 or (max by ({RANK}) (actuary_rank_up) == 0 and on ({RANK}) "
    f"time() - max by ({RANK}) (actuary_rank_heartbeat_timestamp_seconds) < {DEAD_RANK_GRACE_SECONDS})"
)
"""Ranks that hold their device: 1 alive, 0 silent for less than the grace."""

WORLD_SIZE: Final = f"max by ({JOB}, attempt, world_size) (actuary_job_info)"
"""How many ranks each attempt of a job has."""

CHECKPOINT_AGE: Final = f"max by ({JOB}) (job:checkpoint_age:seconds)"
"""Seconds since the job's last durable checkpoint."""

UNSAVED: Final = (
    f"max by ({JOB}) (sum by ({RANK}) (max by ({RANK}, phase) (actuary_step_seconds_total))) "
    f"unless on ({JOB}) max by ({JOB}) (actuary_checkpoint_last_success_timestamp_seconds) > 0"
)
"""For jobs without any durable checkpoint: the longest wall time of a rank since its start in
seconds (the phases of a rank sum to it). All of it is at risk."""

COST: Final = f"max by ({GPU}, currency) (gpu:cost:money_per_hour)"
"""Full cost of each GPU in money per hour."""
