"""Reading a rank file: either a consistent picture, or the reason why there is none."""

from __future__ import annotations

import math
import os
import stat
import struct
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from .layout import (
    BANKS_OFFSET,
    CHECKSUM,
    HEADER,
    LAYOUT_VERSION,
    MAGIC,
    METADATA_CAPACITY,
    METADATA_OFFSET,
    SCORE_NAME_BYTES,
    SCORES,
    SEQUENCE,
    SEQUENCE_OFFSET,
    decode_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Reason = Literal["foreign", "layout", "torn", "truncated", "unreadable"]

_ATTEMPTS: Final = 5
_RETRY_SECONDS: Final = 0.001
_MAX_BANK_BYTES: Final = 1 << 16


class RejectedFile(Exception):  # noqa: N818  # an outcome that the reader counts, not a fault
    """The file gives no picture; ``reason`` is the label value under which it is counted."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent picture of a rank file.

    ``values`` holds the slots by name; a slot that is not finite is absent. ``heartbeat_wall``
    is Unix seconds, ``heartbeat_boot`` seconds of the boot clock.
    """

    fields: Mapping[str, str]
    values: Mapping[str, float]
    score_names: tuple[str, ...]
    pid: int
    sequence: int
    heartbeat_wall: float
    heartbeat_boot: float
    closed: bool

    def age(self) -> float:
        """Seconds since the last heartbeat.

        The larger of two clocks: the boot clock is immune to steps of the wall clock, the wall
        clock notices a file that an earlier boot left behind.
        """
        boot_age = time.clock_gettime(time.CLOCK_BOOTTIME) - self.heartbeat_boot
        return max(boot_age, time.time() - self.heartbeat_wall, 0.0)


def read_rank_file(path: Path) -> Snapshot:
    """Read ``path``; raises :class:`RejectedFile`, and ``FileNotFoundError`` when it has gone."""
    try:
        # NONBLOCK: opening a FIFO that someone left here must not hang the reader.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RejectedFile("unreadable", f"{path}: {error.strerror}") from error
    try:
        return read_descriptor(descriptor, str(path))
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, name: str) -> Snapshot:
    """Read an open rank file; ``name`` is used in messages. Raises :class:`RejectedFile`."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise RejectedFile("foreign", f"{name}: not a regular file")
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_RETRY_SECONDS)
        snapshot = _read_once(descriptor, name)
        if snapshot is not None:
            return snapshot
    raise RejectedFile("torn", f"{name}: no consistent state in {_ATTEMPTS} attempts")


def _read_once(descriptor: int, name: str) -> Snapshot | None:
    """A snapshot, or None when the writer was faster."""
    try:
        content = os.pread(descriptor, BANKS_OFFSET + 2 * _MAX_BANK_BYTES, 0)
    except OSError as error:
        raise RejectedFile("unreadable", f"{name}: {error.strerror}") from error
    if content[: len(MAGIC)] != MAGIC[: len(content)] or not content:
        raise RejectedFile("foreign" if content else "truncated", f"{name}: no rank file")
    if len(content) < BANKS_OFFSET:
        raise RejectedFile("truncated", f"{name}: ends after {len(content)} bytes")
    _, version, length, checksum, bank_bytes, pid = HEADER.unpack_from(content)
    if version != LAYOUT_VERSION:
        raise RejectedFile("layout", f"{name}: layout {version}, expected {LAYOUT_VERSION}")
    if length > METADATA_CAPACITY or not CHECKSUM.size < bank_bytes <= _MAX_BANK_BYTES:
        raise RejectedFile("layout", f"{name}: impossible sizes in the header")
    if len(content) < BANKS_OFFSET + 2 * bank_bytes:
        raise RejectedFile("truncated", f"{name}: ends after {len(content)} bytes")
    block = content[METADATA_OFFSET : METADATA_OFFSET + length]
    if zlib.crc32(block) != checksum:
        raise RejectedFile("torn", f"{name}: metadata does not match its checksum")

    (sequence,) = SEQUENCE.unpack_from(content, SEQUENCE_OFFSET)
    bank_start = BANKS_OFFSET + (sequence & 1) * bank_bytes
    payload = content[bank_start + CHECKSUM.size : bank_start + bank_bytes]
    if zlib.crc32(payload) != CHECKSUM.unpack_from(content, bank_start)[0]:
        return None
    try:
        fields, slots = decode_metadata(block)
        numbers = struct.unpack_from(f"={len(slots)}d", payload)
    except (ValueError, struct.error) as error:
        raise RejectedFile("layout", f"{name}: {error}") from error
    values = {s: number for s, number in zip(slots, numbers, strict=True) if math.isfinite(number)}
    if values.get(".sequence") != sequence:
        return None
    try:
        return Snapshot(
            fields,
            values,
            _score_names(payload[8 * len(slots) :]),
            pid,
            sequence,
            values[".heartbeat_wall"],
            values[".heartbeat_boot"],
            values[".closed"] != 0,
        )
    except KeyError as error:
        raise RejectedFile("layout", f"{name}: no slot {error}") from error


def _score_names(block: bytes) -> tuple[str, ...]:
    names = (
        block[start : start + SCORE_NAME_BYTES].rstrip(b"\0").decode("utf-8", "replace")
        for start in range(0, SCORES * SCORE_NAME_BYTES, SCORE_NAME_BYTES)
    )
    return tuple(names)
