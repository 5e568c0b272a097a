"""Describing a PyTorch rank: the metadata of its file, from torch and from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import torch
import torch.distributed

from . import identity

_PRECISIONS: Final = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}


@dataclass(frozen=True, slots=True)
class Description:
    """What the user says about the job; empty texts are filled from what is found."""

    job_id: str | None = None
    team: str = ""
    project: str = ""
    model_name: str = ""
    precision: str = ""
    flops_convention: str = ""


def model_device(model: torch.nn.Module) -> torch.device:
    """The device of the first parameter; the CPU for a model without parameters."""
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The user's own module inside torch.compile's and the data-parallel wrappers."""
    for attribute in ("_orig_mod", "module", "_orig_mod"):
        inner = getattr(model, attribute, None)
        if isinstance(inner, torch.nn.Module):
            model = inner
    return model


def describe(model: torch.nn.Module, given: Description, job_id: identity.JobId) -> dict[str, str]:
    """The rank file's metadata fields, without ``attempt``, which the file itself knows."""
    device = model_device(model)
    rank, world_size = _place_in_the_world()
    return {
        "job_id": job_id.value,
        "rank": rank,
        # A spawned process has no launcher's LOCAL_RANK; its rank is at least unique on the node.
        "local_rank": identity.local_rank() or rank,
        "world_size": world_size,
        "gpu": _gpu_index(device),
        "gpu_uuid": _gpu_uuid(device),
        "device": device.type,
        "pod": identity.pod(),
        "namespace": identity.namespace(),
        "team": given.team or identity.team(),
        "project": given.project or identity.project(),
        "model": given.model_name or type(unwrapped(model)).__name__,
        "framework": "pytorch",
        "precision": given.precision or _precision(model),
        "flops_convention": given.flops_convention,
    }


def device_name(device: torch.device) -> str:
    """The device's name as CUDA reports it, "" for a CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def _place_in_the_world() -> tuple[str, str]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return str(torch.distributed.get_rank()), str(torch.distributed.get_world_size())
    return identity.rank(), identity.world_size()


def _precision(model: torch.nn.Module) -> str:
    for parameter in model.parameters():
        if parameter.is_floating_point():
            return _PRECISIONS.get(parameter.dtype, str(parameter.dtype).removeprefix("torch."))
    return ""


def _gpu_uuid(device: torch.device) -> str:
    """The UUID as NVML and DCGM write it; "" for a CPU, which the sidecar names by its node."""
    if device.type != "cuda":
        return ""
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    return uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _gpu_index(device: torch.device) -> str:
    """The node's index of the GPU; "" where the process cannot know it."""
    if device.type != "cuda" or device.index is None:
        return ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").strip()
    if not visible:
        return str(device.index)
    entries = [entry.strip() for entry in visible.split(",")]
    entry = entries[device.index] if device.index < len(entries) else ""
    return entry if entry.isdecimal() else ""
