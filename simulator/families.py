"""The metric families of both generations of dcgm-exporter: names, help texts, units, order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from .activity import Activity
    from .readings import Reading

_MIB: Final = 1 << 20
_NVLINK_UNIT: Final = 1_024_000
"""Bytes per second in the "MB/s" of the old NVLink bandwidth."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one line of each family is about: a GPU, or a MIG instance of it.

    The board's sensors are the GPU's, engines and memory (MiB) those of the instance. ``whole``: not
    an instance, so that the families exist which MIG lacks.
    """

    reading: Reading
    share: Activity
    capacity_mib: int
    used_mib: int
    reserved_mib: int
    whole: bool

    @property
    def free_mib(self) -> int:
        """Framebuffer memory that nobody holds."""
        return self.capacity_mib - self.used_mib - self.reserved_mib


Value = int | float
"""An integer is written plainly, a float with six decimals, as the exporter does."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family. ``under_mig`` is False where MIG instances have no such sensor."""

    name: str
    type: Literal["gauge", "counter"]
    help: str
    value: Callable[[Row], Value]
    under_mig: bool = True


XID_HELP: Final = "Value of the last XID error encountered."
XID_NAMES: Final = {"4.8": "DCGM_FI_DEV_XID_ERRORS", "4.9": "DCGM_FI_DEV_XID_ERROR"}
XID_WINDOW_NAME: Final = "DCGM_EXP_XID_ERRORS_COUNT"
XID_WINDOW_HELP: Final = "reported XIDs during last window"

_ECC: Final = (
    Family(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "counter",
        "Total number of single-bit volatile ECC errors.",
        lambda row: row.reading.single_bit_volatile,
    ),
    Family(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "Total number of double-bit volatile ECC errors.",
        lambda row: row.reading.double_bit_volatile,
    ),
    Family(
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
        "counter",
        "Total number of single-bit persistent ECC errors.",
        lambda row: row.reading.single_bit_lifetime,
    ),
    Family(
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "counter",
        "Total number of double-bit persistent ECC errors.",
        lambda row: row.reading.double_bit_lifetime,
    ),
)


def _remaps(uncorrectable: str, correctable: str, failed: str) -> tuple[Family, ...]:
    return (
        Family(
            f"DCGM_FI_DEV_{uncorrectable}",
            "counter",
            "Number of remapped rows for uncorrectable errors",
            lambda row: row.reading.remapped_rows,
        ),
        Family(
            f"DCGM_FI_DEV_{correctable}",
            "counter",
            "Number of remapped rows for correctable errors",
            lambda _: 0,
        ),
        Family(
            f"DCGM_FI_DEV_{failed}", "gauge", "Whether remapping of rows has failed", lambda _: 0
        ),
        Family(
            "DCGM_FI_DEV_ROW_REMAP_PENDING",
            "gauge",
            "Whether remapping of rows is pending",
            lambda row: int(row.reading.remap_pending),
        ),
    )


def _engines(
    engine: str, sm: str, occupancy: str, tensor: str, dram: str, *, pipe: str
) -> tuple[Family, ...]:
    return (
        Family(
            f"DCGM_FI_PROF_{engine}",
            "gauge",
            "Ratio of time the graphics engine is active.",
            lambda row: row.share.engine,
        ),
        Family(
            f"DCGM_FI_PROF_{sm}",
            "gauge",
            "The ratio of cycles an SM has at least 1 warp assigned.",
            lambda row: row.share.sm,
        ),
        Family(
            f"DCGM_FI_PROF_{occupancy}",
            "gauge",
            "The ratio of number of warps resident on an SM.",
            lambda row: 0.32 * row.share.sm,
        ),
        Family(
            f"DCGM_FI_PROF_{tensor}",
            "gauge",
            f"Ratio of cycles the {pipe} is active.",
            lambda row: row.share.tensor,
        ),
        Family(
            f"DCGM_FI_PROF_{dram}",
            "gauge",
            "Ratio of cycles the device memory interface is active sending or receiving data.",
            lambda row: row.share.dram,
        ),
    )


def _pcie(details: str) -> tuple[Family, ...]:
    return (
        Family(
            "DCGM_FI_PROF_PCIE_TX_BYTES",
            "gauge",
            f"The rate of data transmitted over the PCIe bus{details} in bytes per second.",
            lambda row: row.reading.pcie_sent,
            under_mig=False,
        ),
        Family(
            "DCGM_FI_PROF_PCIE_RX_BYTES",
            "gauge",
            f"The rate of data received over the PCIe bus{details} in bytes per second.",
            lambda row: row.reading.pcie_received,
            under_mig=False,
        ),
    )


def _no_work(name: str, text: str, zero: Value) -> Family:
    return Family(name, "gauge", text, lambda _: zero, under_mig=False)


_LICENSE: Final = _no_work("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "vGPU License status", 0)


def _gauge(name: str, text: str, value: Callable[[Row], Value]) -> Family:
    return Family(f"DCGM_FI_DEV_{name}", "gauge", text, value)


UP_TO_4_8: Final = (
    _gauge("SM_CLOCK", "SM clock frequency (in MHz).", lambda r: r.reading.sm_clock // 10**6),
    _gauge(
        "MEM_CLOCK", "Memory clock frequency (in MHz).", lambda r: r.reading.memory_clock // 10**6
    ),
    _gauge("MEMORY_TEMP", "Memory temperature (in C).", lambda r: r.reading.memory_temperature),
    _gauge("GPU_TEMP", "GPU temperature (in C).", lambda r: r.reading.temperature),
    _gauge("POWER_USAGE", "Power draw (in W).", lambda r: r.reading.watts),
    Family(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        lambda row: int(1000 * row.reading.joules),
    ),
    Family(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", lambda _: 0
    ),
    Family(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "GPU utilization (in %).",
        lambda row: round(100 * row.share.engine),
        under_mig=False,
    ),
    Family(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "Memory utilization (in %).",
        lambda row: round(100 * row.share.dram),
        under_mig=False,
    ),
    _no_work("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).", 0),
    _no_work("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).", 0),
    Family(XID_NAMES["4.8"], "gauge", XID_HELP, lambda row: row.reading.xid),
    _gauge("FB_FREE", "Framebuffer memory free (in MiB).", lambda row: row.free_mib),
    _gauge("FB_USED", "Framebuffer memory used (in MiB).", lambda row: row.used_mib),
    _gauge("FB_RESERVED", "Framebuffer memory reserved (in MiB).", lambda row: row.reserved_mib),
    *_ECC,
    *_remaps("UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE"),
    Family(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "counter",
        "Total number of NVLink bandwidth counters for all lanes.",
        lambda row: row.reading.nvlink_bytes_per_second // _NVLINK_UNIT,
        under_mig=False,
    ),
    _LICENSE,
    *_engines(
        "GR_ENGINE_ACTIVE",
        "SM_ACTIVE",
        "SM_OCCUPANCY",
        "PIPE_TENSOR_ACTIVE",
        "DRAM_ACTIVE",
        pipe="tensor (HMMA) pipe",
    ),
    *_pcie(" - including both protocol headers and data payloads -"),
)

FROM_4_9: Final = (
    _gauge(
        "MEMORY_TEMP_CELSIUS",
        "Memory temperature (in C).",
        lambda row: row.reading.memory_temperature,
    ),
    _gauge("GPU_TEMP_CELSIUS", "GPU temperature (in C).", lambda row: row.reading.temperature),
    _gauge("BOARD_POWER_WATTS", "Power draw (in W).", lambda row: row.reading.watts),
    Family(
        "DCGM_FI_DEV_PCIE_REPLAY_TOTAL", "counter", "Total number of PCIe retries.", lambda _: 0
    ),
    Family(XID_NAMES["4.9"], "gauge", XID_HELP, lambda row: row.reading.xid),
    *_ECC,
    *_remaps("ROW_REMAP_UNCORRECTABLE_TOTAL", "ROW_REMAP_CORRECTABLE_TOTAL", "ROW_REMAP_FAILED"),
    _LICENSE,
    *_engines(
        "GR_ENGINE_UTIL_RATIO",
        "SM_UTIL_RATIO",
        "SM_OCCUPANCY_RATIO",
        "TENSOR_UTIL_RATIO",
        "DRAM_UTIL_RATIO",
        pipe="tensor pipe",
    ),
    *_pcie(","),
    _gauge("SM_CLOCK_HERTZ", "SM clock frequency (in Hz).", lambda row: row.reading.sm_clock),
    _gauge(
        "MEMORY_CLOCK_HERTZ",
        "Memory clock frequency (in Hz).",
        lambda row: row.reading.memory_clock,
    ),
    Family(
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
        "counter",
        "Total energy consumption since driver load (in J).",
        lambda row: int(row.reading.joules),
    ),
    Family(
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "gauge",
        "GPU utilization (ratio 0-1).",
        lambda row: row.share.engine,
        under_mig=False,
    ),
    Family(
        "DCGM_FI_DEV_MEMORY_UTIL_RATIO",
        "gauge",
        "Memory utilization (ratio 0-1).",
        lambda row: row.share.dram,
        under_mig=False,
    ),
    _no_work("DCGM_FI_DEV_ENC_UTIL_RATIO", "Encoder utilization (ratio 0-1).", 0.0),
    _no_work("DCGM_FI_DEV_DEC_UTIL_RATIO", "Decoder utilization (ratio 0-1).", 0.0),
    _gauge(
        "FB_CAPACITY_BYTES",
        "Framebuffer memory capacity (in bytes).",
        lambda row: row.capacity_mib * _MIB,
    ),
    _gauge("FB_FREE_BYTES", "Framebuffer memory free (in bytes).", lambda row: row.free_mib * _MIB),
    _gauge("FB_USED_BYTES", "Framebuffer memory used (in bytes).", lambda row: row.used_mib * _MIB),
    _gauge(
        "FB_RESERVED_BYTES",
        "Framebuffer memory reserved (in bytes).",
        lambda row: row.reserved_mib * _MIB,
    ),
    Family(
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
        "gauge",
        "Aggregate NVLink throughput, in bytes per second.",
        lambda row: row.reading.nvlink_bytes_per_second,
        under_mig=False,
    ),
)

FAMILIES: Final = {"4.8": UP_TO_4_8, "4.9": FROM_4_9}
DRIVER_LABELS: Final = {"4.8": "DCGM_FI_DRIVER_VERSION", "4.9": "DCGM_FI_SYSTEM_DRIVER_VERSION"}
