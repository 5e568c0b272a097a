"""The text that dcgm-exporter would serve for a simulated node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .families import (
    DRIVER_LABELS,
    FAMILIES,
    XID_NAMES,
    XID_WINDOW_HELP,
    XID_WINDOW_NAME,
    Row,
)
from .noise import gpu_uuid
from .readings import MEMORY_MIB, RESERVED_MIB, XID_WINDOW_SECONDS, instance_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .families import Value
    from .fleet import Gpu, Instance, Node, Pod
    from .readings import Reading

MODEL: Final = "NVIDIA H100 80GB HBM3"

_PCI_BUSES: Final = ("19", "3B", "4C", "5D", "9B", "BB", "CB", "DB")
_XID_MESSAGES: Final = {
    0: "No Error",
    31: "GPU memory page fault",
    63: "ECC page retirement or row remapping recording event",
}

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """One holder of a GPU or instance; ``attributes`` (pod and so on) come last, in ABC order."""

    identity: Labels
    attributes: Labels
    row: Row


def exposition(node: Node, readings: Sequence[Reading], now: int) -> str:
    """The node's text at ``now`` microseconds; ``readings`` are those of its GPUs in order.

    A GPU that several pods share appears once per pod, a MIG GPU once per instance.
    """
    lines = [
        line
        for gpu, reading in zip(node.gpus, readings, strict=True)
        for line in _lines(node, gpu, reading, now)
    ]
    generation = node.exporter.generation
    text: list[str] = []
    for family in FAMILIES[generation]:
        shown = [line for line in lines if family.under_mig or line.row.whole]
        if not shown:
            continue
        text += _head(family.name, family.type, family.help)
        for line in shown:
            more = _error_labels(line) if family.name == XID_NAMES[generation] else ()
            labels = (*line.identity, *sorted((*line.attributes, *more)))
            text.append(_sample(family.name, labels, family.value(line.row)))
    if node.exporter.xid_window:
        text += _head(XID_WINDOW_NAME, "counter", XID_WINDOW_HELP)
        text += [sample for line in lines for sample in _xids_in_window(line)]
    return "\n".join(text) + "\n"


def _lines(node: Node, gpu: Gpu, reading: Reading, now: int) -> Iterator[_Line]:
    for instance in gpu.instances:
        row = Row(
            reading,
            instance_share(instance.load, now),
            instance.memory_mib,
            instance.used_mib,
            0,
            whole=False,
        )
        pods = () if instance.pod is None else _pod_labels(instance.pod)
        yield _Line(_identity(node, gpu, instance), pods, row)
    if gpu.instances:
        return
    row = Row(reading, reading.share, MEMORY_MIB, gpu.used_mib, RESERVED_MIB, whole=True)
    identity = _identity(node, gpu, None)
    if not gpu.pods:
        yield _Line(identity, (), row)
    for number, pod in enumerate(gpu.pods):
        part = () if len(gpu.pods) == 1 else (("vgpu", str(number)),)
        yield _Line(identity, (*_pod_labels(pod), *part), row)


def _identity(node: Node, gpu: Gpu, instance: Instance | None) -> Labels:
    exporter = node.exporter
    mig: Labels = ()
    if instance is not None:
        mig = (("GPU_I_PROFILE", instance.profile), ("GPU_I_ID", str(instance.instance_id)))
    return (
        ("gpu", str(gpu.index)),
        (exporter.uuid_label, gpu_uuid(node.name, gpu.index)),
        ("pci_bus_id", f"00000000:{_PCI_BUSES[gpu.index]}:00.0"),
        ("device", f"nvidia{gpu.index}"),
        ("modelName", MODEL),
        *mig,
        (exporter.hostname_label, node.name),
        (DRIVER_LABELS[exporter.generation], exporter.driver_version),
    )


def _pod_labels(pod: Pod) -> Labels:
    return (("container", pod.container), ("namespace", pod.namespace), ("pod", pod.name))


def _error_labels(line: _Line) -> Labels:
    xid = line.row.reading.xid
    return (("err_code", str(xid)), ("err_msg", _XID_MESSAGES.get(xid, "Unknown Error")))


def _xids_in_window(line: _Line) -> Iterator[str]:
    window = ("window_size_in_ms", str(1000 * XID_WINDOW_SECONDS))
    counts = line.row.reading.xids_in_window
    if not counts:
        labels = (*line.identity, window, *line.attributes)
        yield _sample(XID_WINDOW_NAME, labels, 0)
    for xid, number in counts.items():
        labels = (*line.identity, window, ("xid", str(xid)), *line.attributes)
        yield _sample(XID_WINDOW_NAME, labels, number)


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, value: Value) -> str:
    # The exporter escapes nothing; the names of the simulated fleet need no escape.
    inside = ",".join(f'{label}="{text}"' for label, text in labels)
    return (
        f"{name}{{{inside}}} {value:.6f}"
        if isinstance(value, float)
        else (f"{name}{{{inside}}} {value}")
    )
