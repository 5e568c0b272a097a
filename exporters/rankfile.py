"""Writing a rank file: the trainer's side, without torch and without an HTTP server.

A file is built under a temporary name and then put in place, so a reader never sees half of one.
The writer holds a lock on its file as long as it lives; a restarted rank finds the file of its
predecessor unlocked and continues its values.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import time
import zlib
from typing import TYPE_CHECKING, Final

from .layout import (
    BANK_BYTES,
    BANKS_OFFSET,
    CHECKSUM,
    FILE_BYTES,
    HEADER,
    LAYOUT_VERSION,
    MAGIC,
    METADATA_OFFSET,
    PAYLOAD_BYTES,
    SCORE_NAME_BYTES,
    SCORES,
    SEQUENCE,
    SEQUENCE_OFFSET,
    SLOT,
    SLOTS_BYTES,
    encode_metadata,
)
from .location import TEMPORARY_PREFIX, ensure_directory, file_name
from .rankreader import RejectedFile, Snapshot, read_descriptor
from .stagefile import SUFFIX as STAGE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SEQUENCE_SLOT: Final = SLOT[".sequence"]
_BOOT_SLOT: Final = SLOT[".heartbeat_boot"]
_WALL_SLOT: Final = SLOT[".heartbeat_wall"]
_CLOSED_SLOT: Final = SLOT[".closed"]
_TRIES: Final = 20


class FileInUse(Exception):  # noqa: N818  # an answer that the caller acts on, not a fault
    """Another live writer holds the rank file."""


class RankFile:
    """The file of one rank while its process lives.

    ``values`` are the float64 slots (NaN: absent) by the numbers of :data:`layout.SLOT`; writing to
    them changes nothing that others see until :meth:`publish`. Not thread-safe: the caller locks.
    """

    def __init__(self, path: Path, fields: Mapping[str, str], previous: Snapshot | None) -> None:
        """Put the file in place; use :func:`open_rank_file`, which finds ``previous``."""
        self.path = path
        self.fields = dict(fields)
        self._metadata = encode_metadata(fields)
        self._payload = bytearray(PAYLOAD_BYTES)
        self.values = memoryview(self._payload)[:SLOTS_BYTES].cast("d")
        self._names = memoryview(self._payload)[SLOTS_BYTES:]
        self._sequence = 0
        self._start_values(previous)
        self._descriptor, self._map = self._create(replace=previous is not None)

    def _start_values(self, previous: Snapshot | None) -> None:
        for index in range(len(self.values)):
            self.values[index] = float("nan")
        if previous is not None:
            for name, value in previous.values.items():
                if name in SLOT:
                    self.values[SLOT[name]] = value
            for index, score in enumerate(previous.score_names):
                self.name_score(index, score)
        self.values[_CLOSED_SLOT] = 0.0

    def name_score(self, index: int, name: str) -> None:
        """Give evaluation score ``index`` its name, cut to what the layout has room for."""
        raw = name.encode("utf-8", "replace")[: SCORE_NAME_BYTES - 1]
        raw = raw.decode("utf-8", "ignore").encode("utf-8")
        start = index * SCORE_NAME_BYTES
        self._names[start : start + SCORE_NAME_BYTES] = raw.ljust(SCORE_NAME_BYTES, b"\0")

    def score_names(self) -> list[str]:
        """The names of the evaluation scores, empty for those without one."""
        blocks = (
            bytes(self._names[start : start + SCORE_NAME_BYTES])
            for start in range(0, SCORES * SCORE_NAME_BYTES, SCORE_NAME_BYTES)
        )
        return [block.rstrip(b"\0").decode("utf-8", "ignore") for block in blocks]

    def publish(self) -> None:
        """Make the slots visible, with a heartbeat of now."""
        values = self.values
        sequence = self._sequence = self._sequence + 1
        values[_SEQUENCE_SLOT] = sequence
        values[_BOOT_SLOT] = time.clock_gettime(time.CLOCK_BOOTTIME)
        values[_WALL_SLOT] = time.time()
        start = BANKS_OFFSET + (sequence & 1) * BANK_BYTES
        CHECKSUM.pack_into(self._map, start, zlib.crc32(self._payload))
        self._map[start + CHECKSUM.size : start + BANK_BYTES] = self._payload
        SEQUENCE.pack_into(self._map, SEQUENCE_OFFSET, sequence)

    def restore_if_missing(self) -> None:
        """Put the file back when someone has removed it (a clean-up of shared memory, say).

        Raises ``OSError`` when that fails; the values stay and the next call tries again.
        """
        if self.path.exists():
            return
        ensure_directory(self.path.parent)
        old_descriptor, old_map = self._descriptor, self._map
        self._descriptor, self._map = self._create(replace=False)
        old_map.close()
        os.close(old_descriptor)

    def close(self, *, clean: bool) -> None:
        """Publish a last time, as ended when ``clean``, and release the file.

        A rank that is not closed cleanly is reported as down once its heartbeat is stale.
        """
        self.values[_CLOSED_SLOT] = float(clean)
        self.publish()
        self.release()

    def release(self) -> None:
        """Let go of the file without writing to it (in a forked child: the parent's)."""
        self._map.close()
        os.close(self._descriptor)

    def _create(self, *, replace: bool) -> tuple[int, mmap.mmap]:
        """Build the file under a temporary name, lock it, and move it to its place."""
        temporary = self.path.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
        descriptor = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
        )
        try:
            os.fchmod(descriptor, 0o644)  # the sidecar runs as another user, whatever the umask
            # Reserve the pages: writing to a sparse page of a full tmpfs would kill the process.
            os.posix_fallocate(descriptor, 0, FILE_BYTES)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mapped = mmap.mmap(descriptor, FILE_BYTES)
            HEADER.pack_into(
                mapped,
                0,
                MAGIC,
                LAYOUT_VERSION,
                len(self._metadata),
                zlib.crc32(self._metadata),
                BANK_BYTES,
                os.getpid(),
            )
            mapped[METADATA_OFFSET : METADATA_OFFSET + len(self._metadata)] = self._metadata
            self._map = mapped
            self.publish()
            if replace:
                temporary.replace(self.path)
            else:
                self.path.hardlink_to(temporary)  # unlike a rename, fails when the file exists
                temporary.unlink()
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        return descriptor, mapped


def open_rank_file(
    directory: Path, fields: Mapping[str, str], *, new_job_after_clean_end: bool = False
) -> RankFile:
    """Take over or create the file of ``fields["job_id"]`` and ``fields["rank"]``.

    The counters of a predecessor are continued and ``attempt`` is one more than its; with
    ``new_job_after_clean_end`` a predecessor that closed cleanly was another job, and everything
    starts anew. Raises :class:`FileInUse` when a live writer holds the file, and ``OSError``.
    """
    ensure_directory(directory)
    path = directory / file_name(fields["job_id"], fields["rank"])
    for _ in range(_TRIES):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            try:
                return RankFile(path, {**fields, "attempt": "1"}, None)
            except FileExistsError:
                continue  # another process was faster; look at its file
        try:
            _lock(descriptor, path)
            if not _still_in_place(descriptor, path):
                continue
            return _succeed(descriptor, path, fields, new_job_after_clean_end)
        finally:
            os.close(descriptor)
    raise FileInUse(f"{path} keeps being replaced by others")


def _succeed(
    descriptor: int, path: Path, fields: Mapping[str, str], new_job_after_clean_end: bool
) -> RankFile:
    previous: Snapshot | None
    try:
        previous = read_descriptor(descriptor, str(path))
    except RejectedFile:
        previous = None  # of no use to anyone: not a rank file, or one that cannot be read
    if previous is None or (previous.closed and new_job_after_clean_end):
        for old in (path.with_suffix(STAGE_SUFFIX), path):
            old.unlink(missing_ok=True)
        return RankFile(path, {**fields, "attempt": "1"}, None)
    attempt = previous.fields["attempt"]
    following = int(attempt) + 1 if attempt.isdecimal() else 2
    return RankFile(path, {**fields, "attempt": str(following)}, previous)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FileInUse(f"{path} belongs to a process that is alive") from error


def _still_in_place(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
