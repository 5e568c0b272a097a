"""Dense peak of known GPUs, for MFU.

Only what is certain: a device that is not in the table, a MIG slice (whose name carries ``MIG``)
and a precision other than bf16 and fp16 have no peak, and so no MFU, unless the user gives one.
"""

from __future__ import annotations

import re
from typing import Final

# Device name (whole, without vendor) → dense tensor TFLOP/s, and the precisions that it holds for.
# Source: NVIDIA's datasheets, with the sparse figures halved.
_BOTH: Final = ("bf16", "fp16")
_FP16: Final = ("fp16",)
_PEAKS: Final[tuple[tuple[str, float, tuple[str, ...]], ...]] = (
    (r"V100-SXM[23]-\d+GB(-LS)?", 125, _FP16),
    (r"T4", 65, _FP16),
    (r"A10", 125, _BOTH),
    (r"A100-(SXM4|PCIE)-\d+GB|A100 80GB PCIe", 312, _BOTH),
    (r"L40S", 362, _BOTH),
    (r"H20", 148, _BOTH),
    (r"H100 PCIe", 756, _BOTH),
    (r"H100 NVL", 835, _BOTH),
    (r"H100 80GB HBM3", 989, _BOTH),
    (r"H200", 989, _BOTH),
    (r"B200", 2250, _BOTH),
    (r"GB200", 2500, _BOTH),
)


def peak_flops(device_name: str, precision: str) -> float | None:
    """Dense peak in FLOP/s of ``device_name`` (as CUDA reports it), or None when unknown."""
    name = re.sub(r"^(NVIDIA|Tesla)\s+", "", device_name.strip())
    for pattern, teraflops, precisions in _PEAKS:
        if re.fullmatch(pattern, name):
            return teraflops * 1e12 if precision in precisions else None
    return None
