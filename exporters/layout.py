"""The rank file's layout: what lies at which byte, and which slot holds which value.

A file is a header, a metadata block and two banks::

    0       header    magic, layout version, sizes, checksum of the metadata, pid
    64      sequence  number of completed publications; its parity names the current bank
    128     metadata  JSON: the job's and rank's descriptions, and the names of the slots
    16384   bank 0    checksum, float64 slots, names of the evaluation scores
            bank 1    the same

The writer fills the bank that is not current, then raises the sequence number: a writer that is
killed half-way leaves the current bank whole. The checksum and the sequence number inside the bank
let a reader notice that it was overtaken. Byte order is the machine's own, because a file never
leaves its node.

The slots are generated from the metric catalogue. Their names travel in the file, so that a
sidecar and a monitor of different versions still understand each other.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

from gpu_actuary.catalogue.exported import EXPORTED, STEP_BUCKETS
from gpu_actuary.catalogue.model import EXPORTER_RANK
from gpu_actuary.catalogue.vocabulary import PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping

MAGIC: Final = b"ACTRANK\n"
LAYOUT_VERSION: Final = 3
HEADER: Final = struct.Struct("=8sIIIII")
"""Magic, layout version, metadata length in bytes, metadata checksum, bank size in bytes, pid."""
SEQUENCE: Final = struct.Struct("=Q")
SEQUENCE_OFFSET: Final = 64
METADATA_OFFSET: Final = 128
BANKS_OFFSET: Final = 16384
METADATA_CAPACITY: Final = BANKS_OFFSET - METADATA_OFFSET
CHECKSUM: Final = struct.Struct("=Q")

SCORES: Final = 4
"""Evaluation scores that one rank can name."""
SCORE_NAME_BYTES: Final = 64

METADATA_FIELDS: Final = (
    "job_id",
    "rank",
    "local_rank",
    "world_size",
    "attempt",
    "gpu",
    "gpu_uuid",
    "device",
    "pod",
    "namespace",
    "team",
    "project",
    "model",
    "framework",
    "precision",
    "flops_convention",
)
"""Descriptions in the metadata; all are strings, empty when unknown."""

STEP_SECONDS: Final = "actuary_step_seconds_total"
STEP_DURATION: Final = "actuary_step_duration_seconds"
FETCH_DURATION: Final = "actuary_pipeline_fetch_seconds"
STAGE_SECONDS: Final = "actuary_pipeline_stage_seconds_total"
OTHER_STAGE: Final = "other"
EVALUATION_SCORE: Final = "actuary_evaluation_score"
BUCKET_BOUNDS: Final = (*(str(bound) for bound in STEP_BUCKETS), "+Inf")

# What the writer keeps for itself and the sidecar; a leading dot keeps it apart from series.
INTERNAL_SLOTS: Final = (".sequence", ".heartbeat_boot", ".heartbeat_wall", ".closed", ".highest")

# These come from the heartbeat, the metadata and the stage file, not from a slot.
_WITHOUT_SLOT: Final = (
    "actuary_rank_up",
    "actuary_rank_heartbeat_timestamp_seconds",
    STAGE_SECONDS,
)


def _slot_names() -> tuple[str, ...]:
    names = [*INTERNAL_SLOTS, *(f"{STEP_SECONDS}/{phase}" for phase in PHASES)]
    for series in EXPORTED:
        if series.per != "rank" or series.type == "info" or series.name in _WITHOUT_SLOT:
            continue
        if series.name == STEP_SECONDS:
            continue
        extra = series.labels[len(EXPORTER_RANK) :]
        if series.name == EVALUATION_SCORE:
            names += [f"{series.name}/{index}" for index in range(SCORES)]
        elif extra:
            names += [f"{series.name}/{value}" for value in series.values[extra[0]]]
        else:
            names.append(series.name)
    for histogram in (STEP_DURATION, FETCH_DURATION):
        names += [f"{histogram}/{bound}" for bound in (*BUCKET_BOUNDS, "sum")]
    return tuple(names)


SLOT_NAMES: Final = _slot_names()
"""``series`` or ``series/label value``, in file order."""
SLOT: Final = {name: index for index, name in enumerate(SLOT_NAMES)}
"""Slot number by name."""

SLOTS_BYTES: Final = 8 * len(SLOT_NAMES)
PAYLOAD_BYTES: Final = SLOTS_BYTES + SCORES * SCORE_NAME_BYTES
BANK_BYTES: Final = CHECKSUM.size + PAYLOAD_BYTES
FILE_BYTES: Final = BANKS_OFFSET + 2 * BANK_BYTES


def clean_text(value: object, limit_bytes: int = 512) -> str:
    """``value`` as text that every reader can decode, at most ``limit_bytes`` long in UTF-8.

    Bytes of the environment that are not UTF-8 (lone surrogates in Python) become question marks;
    a NUL ends the text, as it does in C.
    """
    raw = str(value).partition("\0")[0].encode("utf-8", "replace")[:limit_bytes]
    return raw.decode("utf-8", "ignore")


def encode_metadata(fields: Mapping[str, str]) -> bytes:
    """The metadata block of ``fields`` (see :data:`METADATA_FIELDS`) with the slot names.

    Long values are cut until the block fits its capacity.
    """
    for limit in (512, 128, 32):
        document: dict[str, Any] = {
            name: clean_text(fields.get(name, ""), limit) for name in METADATA_FIELDS
        }
        document["slots"] = SLOT_NAMES
        block = json.dumps(document, ensure_ascii=False).encode("utf-8")
        if len(block) <= METADATA_CAPACITY:
            return block
    raise ValueError(
        f"the metadata needs {len(block)} bytes, there is room for {METADATA_CAPACITY}"
    )


def decode_metadata(block: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    """The fields and the slot names of a metadata block; ``ValueError`` when it is none."""
    document = json.loads(block)
    slots = document.pop("slots", None) if isinstance(document, dict) else None
    if not isinstance(slots, list):
        raise ValueError("the metadata names no slots")  # noqa: TRY004  # bad content, not a bad call
    fields = {name: str(document.get(name, "")) for name in METADATA_FIELDS}
    return fields, tuple(map(str, slots))
