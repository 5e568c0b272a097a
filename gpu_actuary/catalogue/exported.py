"""Series that the exporters publish from a node: task, pipeline, algorithm, business, GPUs, health.

Only what an exporter really publishes stands here; a series enters the catalogue together with the
code that fills it.
"""

from __future__ import annotations

from typing import Final

from gpu_actuary.catalogue.model import (
    EXPORTER_GPU,
    EXPORTER_JOB_NODE,
    EXPORTER_RANK,
    Layer,
    MetricType,
    Per,
    Series,
)
from gpu_actuary.catalogue.vocabulary import PHASES

STEP_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds of the step-duration and fetch histograms."""


MAX_STAGES: Final = 12
"""Stages of an input pipeline that a rank can tell apart, the last of them "other"."""


def _rank(
    name: str,
    kind: MetricType,
    unit: str,
    layer: Layer,
    help_text: str,
    extra: tuple[str, ...] = (),
    *,
    per: Per = "rank",
    each: int = 1,
    core: bool = False,
    values: dict[str, tuple[str, ...]] | None = None,
) -> Series:
    return Series(
        name,
        kind,
        unit,
        layer,
        "exporters",
        per,
        help_text,
        (*EXPORTER_RANK, *extra),
        core,
        each,
        values or {},
    )


TASK: Final = (
    _rank("actuary_steps_total", "counter", "", "task", "Optimizer steps that the rank completed."),
    _rank(
        "actuary_step_seconds_total",
        "counter",
        "seconds",
        "task",
        "Wall time of the rank by exclusive phase; the phases sum to its wall time.",
        ("phase",),
        each=len(PHASES),
        values={"phase": PHASES},
    ),
    Series(
        "actuary_step_duration_seconds",
        "histogram",
        "seconds",
        "task",
        "exporters",
        "node",
        "Duration of one iteration over the ranks of a job on the node.",
        EXPORTER_JOB_NODE,
        series_each=len(STEP_BUCKETS) + 3,
    ),
    _rank("actuary_tokens_total", "counter", "tokens", "task", "Tokens that the rank consumed."),
    _rank("actuary_samples_total", "counter", "samples", "task", "Samples that the rank consumed."),
    _rank(
        "actuary_model_flops_total",
        "counter",
        "floating-point operations",
        "task",
        "Model floating-point operations of the rank; the convention is in actuary_job_info.",
    ),
    _rank(
        "actuary_gpu_peak_flops",
        "gauge",
        "floating-point operations per second",
        "task",
        "Dense peak of the rank's device at the training precision; absent when unknown.",
    ),
    _rank(
        "actuary_checkpoint_last_success_timestamp_seconds",
        "gauge",
        "seconds since the epoch",
        "task",
        "When the last checkpoint became durable.",
    ),
    _rank(
        "actuary_checkpoint_bytes", "gauge", "bytes", "task", "Size of the last durable checkpoint."
    ),
    _rank(
        "actuary_redone_steps_total",
        "counter",
        "",
        "task",
        "Steps that an earlier attempt had already done and that were done again.",
    ),
    _rank(
        "actuary_rank_up",
        "gauge",
        "",
        "task",
        "1 while the heartbeat is fresh, 0 when it is stale; absent after a clean end.",
    ),
    _rank(
        "actuary_rank_heartbeat_timestamp_seconds",
        "gauge",
        "seconds since the epoch",
        "task",
        "Last sign of life of the rank's process.",
    ),
    _rank(
        "actuary_rank_info",
        "info",
        "",
        "task",
        "What the rank runs on; joined by rules, always 1.",
        ("local_rank", "gpu", "gpu_uuid", "pod", "namespace", "device"),
    ),
    Series(
        "actuary_job_info",
        "info",
        "",
        "task",
        "exporters",
        "job",
        "What the job is; joined by rules, always 1.",
        (
            *EXPORTER_JOB_NODE,
            "team",
            "project",
            "model",
            "framework",
            "precision",
            "flops_convention",
            "world_size",
            "attempt",
        ),
    ),
)

SUPPLY: Final = (
    _rank(
        "actuary_pipeline_bytes_total",
        "counter",
        "bytes",
        "pipeline",
        "Bytes of the batches that the input pipeline delivered.",
    ),
    Series(
        "actuary_pipeline_fetch_seconds",
        "histogram",
        "seconds",
        "pipeline",
        "exporters",
        "node",
        "Wait for one batch over the ranks of a job on the node, without an epoch's first.",
        EXPORTER_JOB_NODE,
        series_each=len(STEP_BUCKETS) + 3,
    ),
    _rank(
        "actuary_pipeline_stage_seconds_total",
        "counter",
        "seconds",
        "pipeline",
        "Time that the pipeline's processes spent in a stage, summed over them.",
        ("stage",),
        each=MAX_STAGES,
    ),
    _rank(
        "actuary_pipeline_queue_depth",
        "gauge",
        "batches",
        "pipeline",
        "Batches that were ready and waited to be used.",
    ),
    _rank(
        "actuary_pipeline_queue_capacity",
        "gauge",
        "batches",
        "pipeline",
        "Batches that may be ready or in the making at most.",
    ),
)
"""How batches come about; no simulated training reports it."""

PIPELINE: Final = (
    *SUPPLY,
    _rank(
        "actuary_pipeline_batches_total",
        "counter",
        "",
        "pipeline",
        "Batches that the input pipeline delivered.",
    ),
    _rank(
        "actuary_pipeline_samples_total",
        "counter",
        "samples",
        "pipeline",
        "Samples that the input pipeline delivered.",
    ),
    _rank(
        "actuary_pipeline_workers", "gauge", "", "pipeline", "Worker processes of the data loader."
    ),
    _rank(
        "actuary_pipeline_first_batch_seconds",
        "gauge",
        "seconds",
        "pipeline",
        "Wait for the first batch of the latest epoch; not part of the steady data wait.",
    ),
)

GRADIENT: Final = (
    _rank(
        "actuary_divergence_score",
        "gauge",
        "",
        "algorithm",
        "Lasting rise of loss or gradient norm over its own baseline, 0..10; 1 is anomalous.",
    ),
    _rank(
        "actuary_loss_scale",
        "gauge",
        "",
        "algorithm",
        "Loss scale of automatic mixed precision.",
    ),
    _rank(
        "actuary_gradient_norm",
        "gauge",
        "",
        "algorithm",
        "Norm of the whole batch's gradient, unscaled and before clipping, in a sampled step.",
    ),
    _rank(
        "actuary_gradient_variance",
        "gauge",
        "",
        "algorithm",
        "tr Σ: variance of one sample's gradient; unbiased, so it may be negative.",
    ),
    _rank(
        "actuary_gradient_squared_norm",
        "gauge",
        "",
        "algorithm",
        "|G|² without the noise's share; unbiased, so it may be negative.",
    ),
    _rank(
        "actuary_gradient_noise_scale",
        "gauge",
        "samples",
        "algorithm",
        "B_simple = tr Σ ÷ |G|² of the rank; absent while either is not positive.",
    ),
    _rank(
        "actuary_update_ratio",
        "gauge",
        "",
        "algorithm",
        "‖Δw‖ ÷ ‖w‖ of a sampled step.",
    ),
)
"""How the optimisation itself goes; no simulated training reports it."""

ALGORITHM: Final = (
    _rank("actuary_loss", "gauge", "", "algorithm", "Training loss of the last steps.", core=True),
    _rank(
        "actuary_loss_slope_per_hour",
        "gauge",
        "per hour",
        "algorithm",
        "Robust d ln(loss)/dt; negative while the loss falls.",
    ),
    _rank("actuary_learning_rate", "gauge", "", "algorithm", "Learning rate of group 0."),
    _rank(
        "actuary_nonfinite_steps_total",
        "counter",
        "",
        "algorithm",
        "Steps whose loss or gradient was NaN or infinite, as far as seen; the value is withheld.",
        ("kind",),
        each=2,
        values={"kind": ("loss", "gradient")},
    ),
    *GRADIENT,
)

BUSINESS: Final = (
    _rank(
        "actuary_evaluation_score",
        "gauge",
        "",
        "business",
        "Latest evaluation score by metric name.",
        ("metric",),
        each=4,
    ),
    _rank("actuary_evaluation_loss", "gauge", "", "business", "Latest evaluation loss."),
    _rank(
        "actuary_evaluation_initial_loss",
        "gauge",
        "",
        "business",
        "First evaluation loss of the job over all attempts: L₀ of the quality formula.",
    ),
    _rank(
        "actuary_evaluation_timestamp_seconds",
        "gauge",
        "seconds since the epoch",
        "business",
        "When the latest evaluation ended.",
    ),
    _rank(
        "actuary_quality_score",
        "gauge",
        "",
        "business",
        "Quality 0..1 that the evaluation gave itself; overrides the computed one.",
    ),
)


def _gpu(
    name: str,
    kind: MetricType,
    unit: str,
    help_text: str,
    values: dict[str, tuple[str, ...]] | None = None,
    *,
    each: int = 1,
) -> Series:
    labels = (*EXPORTER_GPU, *(values or {}))
    closed = {label: allowed for label, allowed in (values or {}).items() if allowed}
    return Series(
        name,
        kind,
        unit,
        "physical",
        "exporters",
        "gpu",
        help_text,
        labels,
        series_each=each,
        values=closed,
    )


NVML: Final = (
    Series(
        "actuary_nvml_up",
        "gauge",
        "",
        "health",
        "exporters",
        "process",
        "1 while NVML answers, 0 without a library, a driver, or an answer.",
        ("node",),
    ),
    _gpu(
        "actuary_gpu_power_fluctuation_ratio",
        "gauge",
        "",
        "Standard deviation of the board's power over its mean, in samples of the last minute.",
    ),
    _gpu(
        "actuary_gpu_energy_joules_total",
        "counter",
        "joules",
        "Energy since the sidecar began to look: the hardware's counter, or integrated power.",
        {"method": ("hardware", "integrated")},
        each=2,
    ),
    _gpu(
        "actuary_gpu_ecc_errors_total",
        "counter",
        "",
        "Memory errors as NVML counts them; the volatile counters restart with the driver.",
        {"type": ("corrected", "uncorrected"), "scope": ("volatile", "aggregate")},
        each=4,
    ),
    _gpu(
        "actuary_gpu_row_remap",
        "gauge",
        "",
        "Remapped memory rows by cause; pending and failure are 1 when it is so.",
        {"state": ("correctable", "uncorrectable", "pending", "failure")},
        each=4,
    ),
    _gpu(
        "actuary_gpu_xid_total",
        "counter",
        "",
        "XIDs, repeats included, since the sidecar began to look; absent before the first.",
        {"xid": ()},
        each=8,
    ),
    _gpu(
        "actuary_gpu_xid_last_timestamp_seconds",
        "gauge",
        "seconds since the epoch",
        "When the last XID came; absent before the first.",
    ),
    _gpu(
        "actuary_gpu_throttle_seconds_total",
        "counter",
        "seconds",
        "Time in which a reason held the clocks down; several reasons can hold at a time.",
        {
            "reason": (
                "application_clocks",
                "sw_power_cap",
                "hw_slowdown",
                "sync_boost",
                "sw_thermal",
                "hw_thermal",
                "hw_power_brake",
                "other",
            )
        },
        each=8,
    ),
    _gpu(
        "actuary_gpu_field_errors_total",
        "counter",
        "",
        "Readings that failed or made no sense; absent before the first. No gpu_uuid: the node.",
        {
            "field": (
                "presence",
                "power",
                "energy",
                "throttle",
                "ecc",
                "row_remap",
                "mig",
                "xid",
                "snapshot",
                "identity",
            )
        },
        each=9,
    ),
)
"""What the sidecar reads from NVML, and no simulated sidecar has."""

PHYSICAL: Final = (
    Series(
        "actuary_gpu_present",
        "gauge",
        "",
        "physical",
        "exporters",
        "gpu",
        "1 while the node has the device, 0 once NVML has lost it. CPU ranks count as devices.",
        (*EXPORTER_GPU, "device"),
        values={"device": ("cpu", "cuda")},
    ),
    *NVML,
)

HEALTH: Final = (
    Series(
        "actuary_exporter_build_info",
        "info",
        "",
        "health",
        "exporters",
        "process",
        "Version of the sidecar, always 1.",
        ("version",),
    ),
    Series(
        "actuary_exporter_scrape_seconds",
        "gauge",
        "seconds",
        "health",
        "exporters",
        "process",
        "Time that building the exposition took.",
    ),
    Series(
        "actuary_rank_files_rejected_total",
        "counter",
        "",
        "health",
        "exporters",
        "process",
        "Rank files that the sidecar skipped, by reason.",
        ("reason",),
        series_each=6,
        values={"reason": ("foreign", "layout", "torn", "truncated", "unreadable", "duplicate")},
    ),
)

SERVICE: Final = (
    Series(
        "actuary_exporter_web_config_in_force",
        "gauge",
        "",
        "health",
        "exporters",
        "process",
        "1 while the web configuration is in force as it lies on disk, 0 after a change that failed.",
    ),
    Series(
        "actuary_evaluation_reports_total",
        "counter",
        "",
        "health",
        "exporters",
        "process",
        "Evaluations that services reported to the sidecar, by what came of them.",
        ("result",),
        series_each=5,
        values={"result": ("stored", "repeated", "conflict", "invalid", "failed")},
    ),
    Series(
        "actuary_evaluation_values_withheld_total",
        "counter",
        "",
        "health",
        "exporters",
        "process",
        "Values of evaluations that came as NaN or infinite and are not shown.",
    ),
    Series(
        "actuary_mlflow_up",
        "gauge",
        "",
        "health",
        "exporters",
        "process",
        "1 while the MLflow tracking server answers as it should, 0 otherwise.",
    ),
    Series(
        "actuary_mlflow_runs",
        "gauge",
        "",
        "health",
        "exporters",
        "process",
        "MLflow runs in the last whole answer, by what became of them.",
        ("outcome",),
        series_each=4,
        values={"outcome": ("used", "without_metrics", "old", "unusable")},
    ),
)
"""What the sidecar says only where the part of it is switched on that this is about."""

EXPORTED: Final = (*TASK, *PIPELINE, *ALGORITHM, *BUSINESS, *PHYSICAL, *HEALTH, *SERVICE)
