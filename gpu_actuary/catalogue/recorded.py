"""Series that the rules record (level:metric:operation) and those of predictor and simulator."""

from __future__ import annotations

from typing import Final

from gpu_actuary.catalogue.model import (
    CLUSTER,
    GPU,
    JOB,
    LEVELS,
    Layer,
    Per,
    Series,
)
from gpu_actuary.catalogue.vocabulary import PHASES, REPORTED_STATES, SIDES, STATES

BALANCE_WINDOWS: Final = ("1h", "24h", "7d", "30d")
"""Windows over which the balance sheet is recorded."""


def _rule(
    name: str,
    unit: str,
    layer: Layer,
    help_text: str,
    extra: tuple[str, ...] = (),
    *,
    each: int = 1,
    core: bool = False,
    values: dict[str, tuple[str, ...]] | None = None,
) -> Series:
    level = name.split(":", 1)[0]
    per: Per = level  # type: ignore[assignment]  # the levels are exactly the values of Per
    labels = (*LEVELS[level], *extra)
    return Series(
        name, "gauge", unit, layer, "rules", per, help_text, labels, core, each, values or {}
    )


FOUNDATION: Final = (
    _rule(
        "gpu:identity:bool",
        "",
        "physical",
        "1; what the sources say the GPU is, where it sits and what holds it.",
        ("slot", "model", "holder"),
        each=2,
        values={"holder": ("", "pod", "scheduler")},
    ),
    _rule(
        "gpu:seen:timestamp_seconds",
        "seconds since the epoch",
        "physical",
        "When the GPU was last seen, by slot; its own memory over a vanished GPU.",
        ("slot",),
    ),
    _rule(
        "gpu:inventory:bool", "", "physical", "1 for each GPU of the inventory, declared or learnt."
    ),
    _rule(
        "gpu:present:bool",
        "",
        "physical",
        "1 for each GPU that a source reports now, or whose whole node has been silent for a short time.",
    ),
    _rule("gpu:info:bool", "", "physical", "1; carries the model name of the GPU.", ("model",)),
    _rule(
        "gpu:utilization:ratio",
        "",
        "physical",
        "GPU utilisation 0..1; engine activity where MIG has no utilisation.",
    ),
    _rule("gpu:sm_active:ratio", "", "physical", "SM activity 0..1, where profiling is on."),
    _rule(
        "gpu:power:watts",
        "watts",
        "physical",
        "Board power, counted once per GPU whatever MIG, pods and jobs repeat.",
        ("method",),
        values={"method": ("measured", "assumed")},
    ),
    _rule("gpu:temperature:celsius", "degrees Celsius", "physical", "GPU temperature."),
    _rule("gpu:xid:last", "", "physical", "Last XID code of the driver; sticky."),
    _rule(
        "gpu:energy:joules",
        "joules",
        "physical",
        "Energy since the driver was loaded; a counter that restarts with the driver.",
    ),
    _rule(
        "gpu:xid_64_energy:joules",
        "joules",
        "physical",
        "Energy counter of each GPU that had XID 64, until it is swapped or the driver reloaded.",
    ),
    _rule(
        "gpu:condemned:bool",
        "",
        "physical",
        "1 while a deterministic rule condemns the GPU.",
        ("reason",),
        each=2,
        values={"reason": ("row_remap_failure", "xid_64")},
    ),
    _rule(
        "gpu:allocated:bool",
        "",
        "physical",
        "1 while a pod, a scheduler job or a training rank holds the GPU.",
    ),
    _rule("cluster:inventory_gpus:count", "GPUs", "physical", "GPUs of the inventory.", core=True),
    _rule(
        "cluster:utilization:ratio",
        "",
        "physical",
        "Mean GPU utilisation over the GPUs that report it.",
        core=True,
    ),
    _rule(
        "cluster:power:watts",
        "watts",
        "physical",
        "Board power of the GPUs that have a figure.",
        core=True,
    ),
    _rule(
        "cluster:gpu_util_ratio_series:count",
        "",
        "health",
        "Series of DCGM_FI_DEV_GPU_UTIL_RATIO by the unit in which they are read.",
        ("unit",),
        each=2,
        values={"unit": ("ratio", "percent")},
    ),
    _rule(
        "cluster:gpu_signal_broken:count",
        "",
        "health",
        "DCGM series with impossible values, which were dropped; SM activity 0 on a busy GPU.",
        ("signal",),
        each=3,
        values={"signal": ("utilization", "power", "sm_active")},
    ),
    _rule(
        "cluster:scrape_up:ratio",
        "",
        "health",
        "Share of the scrape targets of GPU Actuary and DCGM that answer.",
        core=True,
    ),
)

VALUE: Final = (
    _rule(
        "rank:phase_time:rate",
        "seconds per second",
        "task",
        "Wall time of the rank by phase; the ledger state of the phase stands beside it.",
        ("phase", "state"),
        each=len(PHASES),
        values={"phase": PHASES, "state": tuple(REPORTED_STATES)},
    ),
    _rule(
        "rank:iteration_time:rate",
        "seconds per second",
        "task",
        "Iteration time: all phases but checkpoint, evaluation and startup.",
    ),
    _rule(
        "rank:communication_efficiency:ratio",
        "",
        "task",
        "η of the rank: 1 − exposed communication ÷ iteration time.",
    ),
    *(
        _rule(
            f"{level}:iteration_time:rate",
            "seconds per second",
            "task",
            "Iteration time of the ranks together.",
        )
        for level in ("job", "cluster")
    ),
    *(
        _rule(f"{level}:{name}:rate", "seconds per second", "task", text)
        for level in ("node", "job", "cluster")
        for name, text in (
            ("comm_exposed_time", "Exposed communication time of the ranks that measure it."),
            ("comm_iteration_time", "Iteration time of the ranks that measure communication."),
        )
    ),
    _rule("node:communication_efficiency:ratio", "", "task", "η over the ranks of the node."),
    _rule("job:communication_efficiency:ratio", "", "task", "η over the ranks of the job."),
    _rule("cluster:communication_efficiency:ratio", "", "task", "η over all ranks.", core=True),
    _rule(
        "job:data_wait_time:rate",
        "seconds per second",
        "pipeline",
        "Time of the ranks inside next(loader).",
    ),
    _rule(
        "cluster:data_wait_time:rate",
        "seconds per second",
        "pipeline",
        "Time of all ranks inside next(loader).",
    ),
    _rule("job:data_wait:ratio", "", "pipeline", "Data wait ÷ iteration time of the job."),
    _rule(
        "cluster:data_wait:ratio",
        "",
        "pipeline",
        "Data wait ÷ iteration time of all jobs.",
        core=True,
    ),
    _rule(
        "job:step_time:seconds5m", "seconds", "task", "Mean iteration time per step over 5 minutes."
    ),
    _rule("job:steps:rate", "steps per second", "task", "Steps of the job per second."),
    _rule(
        "job:model_flops:rate",
        "floating-point operations per second",
        "task",
        "Model FLOP/s of the ranks whose peak is known.",
    ),
    _rule(
        "job:peak_flops:sum",
        "floating-point operations per second",
        "task",
        "Peak of the job's ranks, weighted with their reported wall time.",
    ),
    _rule("job:mfu:ratio", "", "task", "Model FLOPs utilisation of the job.", core=True),
    _rule(
        "job:effective_utilization:ratio",
        "",
        "task",
        "MFU × η: the founding article's index; it penalises communication twice.",
    ),
    _rule("job:mfu_compute:ratio", "", "task", "MFU ÷ η: utilisation outside communication."),
    _rule(
        "cluster:model_flops:rate",
        "floating-point operations per second",
        "task",
        "Model FLOP/s of all jobs with a known peak.",
    ),
    _rule(
        "cluster:peak_flops:sum",
        "floating-point operations per second",
        "task",
        "Peak of all ranks with a known peak.",
    ),
    _rule("cluster:mfu:ratio", "", "task", "MFU over all jobs with a known peak.", core=True),
    _rule("job:ranks:count", "", "task", "Ranks of the job that are up.", core=True),
    _rule(
        "gpu:job_share:ratio",
        "",
        "task",
        "Part of the GPU that the job's live ranks hold; jobs on one GPU share it evenly.",
        ("job_id",),
    ),
    _rule(
        "job:gpus:count",
        "GPUs",
        "task",
        "GPUs that the job's live ranks hold; a shared GPU counts in part.",
    ),
    _rule("job:loss:avg", "", "algorithm", "Training loss, mean over the ranks."),
    _rule(
        "job:convergence:per_hour",
        "per hour",
        "algorithm",
        "v = max(0, −d ln(loss)/dt).",
        core=True,
    ),
    _rule(
        "rank:service_evaluation:timestamp_seconds",
        "seconds since the epoch",
        "business",
        "When a service evaluated the job, while no rank has evaluated it since.",
    ),
    _rule(
        "job:quality_accuracy:ratio",
        "",
        "business",
        "The score that the quality formula uses, 0..1.",
    ),
    _rule(
        "job:quality_progress:ratio",
        "",
        "business",
        "How far the evaluation loss has come from L₀ to L*, 0..1.",
    ),
    _rule("job:quality:ratio", "", "business", "Quality q of the latest checkpoint.", core=True),
    _rule(
        "job:checkpoint_age:seconds",
        "seconds",
        "task",
        "Time since the job's last durable checkpoint.",
        core=True,
    ),
    _rule(
        "cluster:formula_out_of_range:count",
        "",
        "health",
        "Formula results that were dropped because they were out of range.",
        ("formula",),
        each=3,
        values={"formula": ("communication_efficiency", "mfu", "quality")},
    ),
)

ACTUARIAL: Final = (
    _rule(
        "gpu:price:money_per_hour",
        "money per hour",
        "economics",
        "Price of the GPU per hour.",
        ("currency",),
    ),
    _rule(
        "gpu:energy_cost:money_per_hour",
        "money per hour",
        "economics",
        "Power × PUE × energy price.",
        ("currency",),
    ),
    _rule(
        "gpu:cost:money_per_hour",
        "money per hour",
        "economics",
        "Full cost of the GPU per hour.",
        ("currency",),
    ),
    _rule(
        "job:energy_cost:money_per_hour",
        "money per hour",
        "economics",
        "Energy cost of the job's GPUs.",
        ("currency",),
    ),
    _rule(
        "job:cost:money_per_hour",
        "money per hour",
        "economics",
        "Full cost of the job's GPUs.",
        ("currency",),
        core=True,
    ),
    _rule(
        "job:roi:ratio",
        "quality per hour ÷ (GPUs × money per hour)",
        "economics",
        "ROI: q·v ÷ (GPU-hours per hour × energy cost per hour).",
        core=True,
    ),
    _rule(
        "job:roi_per_money:ratio",
        "quality per unit of money",
        "economics",
        "q·v ÷ full cost per hour.",
    ),
    _rule("cluster:roi_median:ratio", "as ROI", "economics", "Median ROI of the running jobs."),
    _rule(
        "cluster:roi_reference:ratio",
        "as ROI",
        "economics",
        "Reference ROI: of the specification, or the 30-day median.",
    ),
    _rule("job:roi_index:ratio", "", "economics", "ROI ÷ reference ROI; 1 is normal."),
    _rule(
        "gpu:reported_time:rate",
        "seconds per second",
        "economics",
        "Time that the ranks on the GPU report, by ledger state; above 1 when ranks share it.",
        ("state",),
        each=len(REPORTED_STATES),
        values={"state": tuple(REPORTED_STATES)},
    ),
    _rule(
        "gpu:unreported_time:rate",
        "GPU-seconds per second",
        "economics",
        "Part of the GPU's second on which no rank reports.",
    ),
    _rule(
        "gpu:ledger_share:rate",
        "GPU-seconds per second",
        "economics",
        "The GPU's second by state; the states of a GPU sum to 1.",
        ("state",),
        each=len(STATES),
        values={"state": STATES},
    ),
    _rule(
        "cluster:ledger_gpus:rate",
        "GPU-hours per hour",
        "economics",
        "GPUs by ledger state; sums to the inventory.",
        ("state", "side"),
        each=len(STATES),
        core=True,
        values={"state": STATES},
    ),
    _rule(
        "cluster:ledger_residual:ratio",
        "",
        "economics",
        "(Inventory − Σ ledger) ÷ inventory; 0 within 0.1 %.",
        core=True,
    ),
    _rule(
        "cluster:inventory_cost:money_per_hour",
        "money per hour",
        "economics",
        "Full cost of the inventory: the assets in money.",
        ("currency",),
    ),
    _rule(
        "cluster:ledger_cost:money_per_hour",
        "money per hour",
        "economics",
        "Full cost by ledger state.",
        ("state", "side", "currency"),
        each=len(STATES),
        core=True,
        values={"state": STATES},
    ),
    _rule(
        "job:ledger_gpus:rate",
        "GPU-hours per hour",
        "economics",
        "The job's GPUs by reported state.",
        ("state",),
        each=len(REPORTED_STATES),
        values={"state": tuple(REPORTED_STATES)},
    ),
    *(
        series
        for window in BALANCE_WINDOWS
        for series in (
            _rule(
                f"cluster:balance_gpu_hours:{window}",
                "GPU-hours",
                "economics",
                f"Balance sheet over {window} by state.",
                ("state", "side"),
                each=len(STATES),
                values={"state": STATES, "side": tuple(sorted(set(SIDES.values())))},
            ),
            _rule(
                f"cluster:balance_money:{window}",
                "money",
                "economics",
                f"Balance sheet over {window} by state, in money.",
                ("state", "side", "currency"),
                each=len(STATES),
                values={"state": STATES},
            ),
            _rule(
                f"cluster:balance_coverage:{window}",
                "",
                "economics",
                f"Share of {window} for which the ledger has samples.",
            ),
        )
    ),
)

BASELINES: Final = tuple(
    _rule(f"job:step_time_baseline:{operation}", unit, "task", f"Step-time baseline: {text}")
    for operation, unit, text in (
        ("residual", "scales", "(3-minute mean − mean) ÷ scale, as of the last update."),
        ("observations", "updates", "updates that it has learnt from."),
        ("anomalous_seconds", "seconds", "how long the job has been anomalous; absent while not."),
        ("mean", "seconds", "what is expected."),
        ("scale", "seconds", "mean absolute residual, with its floors."),
        ("score", "", "deviation in units of what is tolerated; above 1 is anomalous."),
    )
)

RECORDED: Final = (*FOUNDATION, *VALUE, *ACTUARIAL, *BASELINES)

PREDICTOR: Final = (
    Series(
        "actuary_failure_probability",
        "gauge",
        "",
        "physical",
        "predictor",
        "gpu",
        "Probability that the GPU interrupts its job in the horizon; absent when inputs are stale.",
        (*GPU, "horizon", "reason"),
        core=False,
    ),
    Series(
        "actuary_job_failure_probability",
        "gauge",
        "",
        "economics",
        "predictor",
        "job",
        "P = 1 − Π(1 − p) over the job's GPUs.",
        (*JOB, "horizon"),
        core=True,
    ),
    Series(
        "actuary_interruption_loss",
        "gauge",
        "money",
        "economics",
        "predictor",
        "job",
        "(Hours since the last durable checkpoint + restart hours) × GPUs × cost per GPU-hour.",
        (*JOB, "currency"),
    ),
    Series(
        "actuary_elastic_budget",
        "gauge",
        "money",
        "economics",
        "predictor",
        "job",
        "P × interruption loss × recovery coefficient.",
        (*JOB, "currency"),
        core=True,
    ),
    Series(
        "actuary_predictor_last_success_timestamp_seconds",
        "gauge",
        "seconds since the epoch",
        "health",
        "predictor",
        "process",
        "When the last inference over fresh inputs ended.",
    ),
    Series(
        "actuary_predictor_base_hazard_per_day",
        "gauge",
        "per GPU-day",
        "health",
        "predictor",
        "process",
        "Prior hazard in use.",
    ),
    Series(
        "actuary_predictor_input_errors_total",
        "counter",
        "",
        "health",
        "predictor",
        "process",
        "Cycles whose inputs could not be read, by reason.",
        ("reason",),
        series_each=4,
        values={"reason": ("unreachable", "rejected", "empty", "stale")},
    ),
    Series(
        "actuary_predictor_cycle_seconds",
        "gauge",
        "seconds",
        "health",
        "predictor",
        "process",
        "Time that the last successful cycle took, reading included.",
    ),
    Series(
        "actuary_predictor_gpus_withheld",
        "gauge",
        "GPUs",
        "health",
        "predictor",
        "cluster",
        "GPUs that have no failure probability now, by reason.",
        (*CLUSTER, "reason"),
        series_each=3,
        values={"reason": ("silent", "stale", "unidentified")},
    ),
    Series(
        "actuary_predictor_jobs_withheld",
        "gauge",
        "jobs",
        "health",
        "predictor",
        "cluster",
        "Jobs that lack a probability, a loss or a budget now, by reason.",
        (*CLUSTER, "reason"),
        series_each=7,
        values={
            "reason": (
                "ranks_missing",
                "gpu_unknown",
                "gpu_without_estimate",
                "cost_missing",
                "mixed_currency",
                "checkpoint_age_missing",
                "out_of_range",
            )
        },
    ),
    Series(
        "actuary_predictor_build_info",
        "info",
        "",
        "health",
        "predictor",
        "process",
        "Version and model of the predictor, always 1.",
        ("version", "model", "trained_on"),
    ),
)

SIMULATOR: Final = (
    Series(
        "actuary_simulator_info",
        "info",
        "",
        "health",
        "simulator",
        "process",
        "1; says that the data of this target is simulated.",
        ("seed",),
    ),
)
