from __future__ import annotations

import pytest
import torch

from gpu_actuary.exporters import identity
from gpu_actuary.exporters.batches import batch_size
from gpu_actuary.exporters.peaks import peak_flops
from gpu_actuary.exporters.tensors import tensors_with_gradient, when_gradient_comes


def test_the_job_id_comes_from_the_user_then_from_the_scheduler() -> None:
    environment = {
        "ACTUARY_JOB_ID": "chosen",
        "SLURM_JOB_ID": "4711",
        "TORCHELASTIC_RUN_ID": "run",
        "JOB_NAME": "batch",
    }
    assert identity.job_id("mine", environment).value == "mine"
    for name, value in environment.copy().items():
        assert identity.job_id(None, environment) == identity.JobId(value, chosen=True)
        del environment[name]


def test_the_run_id_none_of_torchelastic_is_no_job_id() -> None:
    environment = {"TORCHELASTIC_RUN_ID": "none", "JOB_NAME": "batch"}
    assert identity.job_id(None, environment).value == "batch"


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_without_any_id_all_ranks_make_up_the_same_one(blank: str | None) -> None:
    one, other = identity.job_id(blank, {"RANK": "0"}), identity.job_id(None, {"RANK": "1"})
    assert one == other
    assert one.value.startswith("local-")
    assert not one.chosen


def test_ranks_come_from_the_launcher_and_a_broken_variable_is_passed_over() -> None:
    assert identity.rank({"RANK": "3", "SLURM_PROCID": "5"}) == "3"
    assert identity.rank({"RANK": "three", "SLURM_PROCID": "5"}) == "5"
    assert identity.rank({}) == "0"
    assert identity.world_size({"OMPI_COMM_WORLD_SIZE": "16"}) == "16"
    assert identity.local_rank({"SLURM_LOCALID": "2"}) == "2"
    assert identity.local_rank({}) == ""


def test_the_pod_is_known_inside_kubernetes_only() -> None:
    assert identity.pod({"HOSTNAME": "laptop"}) == ""
    inside = {"HOSTNAME": "train-0", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert identity.pod(inside) == "train-0"
    assert identity.namespace({**inside, "POD_NAMESPACE": "research"}) == "research"


@pytest.mark.parametrize(
    ("name", "precision", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA H100 NVL", "fp16", 835),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312),
        ("NVIDIA A100 80GB PCIe", "bf16", 312),
        ("NVIDIA L40S", "bf16", 362),
        ("NVIDIA A10", "bf16", 125),
        ("Tesla T4", "fp16", 65),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-SXM2-16GB", "bf16", None),
        ("NVIDIA H100 80GB HBM3", "fp32", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bf16", None),
        ("NVIDIA L4", "bf16", None),
        ("NVIDIA A10G", "bf16", None),
        ("NVIDIA GeForce RTX 4090", "bf16", None),
        ("", "bf16", None),
    ],
)
def test_a_peak_is_known_for_exactly_the_devices_of_the_table(
    name: str, precision: str, teraflops: float | None
) -> None:
    assert peak_flops(name, precision) == (None if teraflops is None else teraflops * 1e12)


def test_a_batch_is_measured_by_its_first_array() -> None:
    images, labels = torch.zeros(5, 3, 2, 2), torch.zeros(5)
    tokens = torch.zeros(4, 7, dtype=torch.long)
    assert batch_size(images) == (5, 0, 240)
    assert batch_size((images, labels)) == (5, 0, 260)
    assert batch_size(["name", images]) == (5, 0, 240)
    assert batch_size({"input_ids": tokens, "labels": tokens}) == (4, 28, 448)
    assert batch_size({"x": images}) == (5, 0, 240)
    assert batch_size("text") == (0, 0, 0)
    assert batch_size(torch.tensor(1.0)) == (0, 0, 0)
    assert batch_size(None) == (0, 0, 0)


def test_tensors_are_found_in_nested_outputs() -> None:
    one, two = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    plain = torch.ones(1)
    assert tensors_with_gradient({"a": (one, [plain, two])}) == [one, two]
    assert tensors_with_gradient("text") == []
    assert len(tensors_with_gradient([one] * 100)) == 8


def test_hooks_of_the_user_and_ours_both_run_and_ours_only_for_its_own_tensor() -> None:
    seen: list[str] = []
    weight = torch.ones(2, requires_grad=True)
    for name in ("first", "second"):
        output = weight * 2
        if name == "first":
            when_gradient_comes(output, lambda _: seen.append("ours"))
        output.register_hook(lambda _, name=name: seen.append(name))
        output.sum().backward()
    assert seen == ["ours", "first", "second"]
