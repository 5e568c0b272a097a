"""The file in which the processes of a rank's input pipeline count the seconds of their stages.

One file per rank, beside the rank's own, so that it works however the processes were started::

    0     header   magic, layout version, number of stages, number of lanes
    24    count    names in use
    64    names    11 of 40 bytes, shared by all lanes; what finds no room counts as "other"
    512   lanes    128 times 12 float64: seconds by stage, the last one "other"

A process holds a lock on its lane while it lives and is the only one to write there; eight aligned
bytes are written at once, so a reader needs no lock. A new process takes over the lane of one that
ended and adds to it: nothing that was counted is lost, and however many workers come and go the
file stays as small as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import struct
import time
from typing import TYPE_CHECKING, Final

from gpu_actuary.catalogue.exported import MAX_STAGES

from .layout import OTHER_STAGE, clean_text
from .location import TEMPORARY_PREFIX
from .rankreader import RejectedFile

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX: Final = ".stages"

_MAGIC: Final = b"ACTSTAG\n"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("=8sIII")
_LANES: Final = 128
_NAMES: Final = MAX_STAGES - 1
_NAME_BYTES: Final = 40
_COUNT: Final = struct.Struct("=Q")
_COUNT_OFFSET: Final = 24
_NAMES_OFFSET: Final = 64
_LANES_OFFSET: Final = 512
_LANE_BYTES: Final = 8 * MAX_STAGES
_FILE_BYTES: Final = _LANES_OFFSET + _LANES * _LANE_BYTES
_LOCK_TRIES: Final = 20


class NoLane(Exception):  # noqa: N818  # an answer that the caller acts on, not a fault
    """All lanes belong to processes that are alive."""


class StageFile:
    """This process's lane in the stage file at ``path``. Not thread-safe: the caller locks."""

    def __init__(self, path: Path) -> None:
        """Create the file where it is missing and claim a lane.

        Raises :class:`NoLane`, ``OSError``, and :class:`RejectedFile` when something else is there.
        """
        self.path = path
        self._descriptor = _opened(path)
        try:
            self._map = mmap.mmap(self._descriptor, _FILE_BYTES)
            _check(self._map[:_NAMES_OFFSET], str(path))
            start = _LANES_OFFSET + self._claim() * _LANE_BYTES
        except BaseException:
            os.close(self._descriptor)
            raise
        self._seconds = memoryview(self._map)[start : start + _LANE_BYTES].cast("d")
        self._numbers: dict[str, int] = {}

    def _claim(self) -> int:
        for lane in range(_LANES):
            with contextlib.suppress(BlockingIOError, PermissionError):
                fcntl.lockf(
                    self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LANES_OFFSET + lane
                )
                return lane
        raise NoLane(f"{self.path}: {_LANES} processes count stages already")

    def number(self, name: str) -> int:
        """The number of the stage; :data:`OTHER` when there is no room for its name."""
        number = self._numbers.get(name)
        if number is None:
            number = self._entered(clean_text(name, _NAME_BYTES - 1) or OTHER_STAGE)
            if len(self._numbers) < 10 * MAX_STAGES:  # names without end must not fill the memory
                self._numbers[name] = number
        return number

    def _entered(self, name: str) -> int:
        if name == OTHER_STAGE:
            return OTHER
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _COUNT_OFFSET)
            except (BlockingIOError, PermissionError):
                time.sleep(0.001)
                continue
            try:
                return self._find_or_append(name)
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _COUNT_OFFSET)
        return OTHER

    def _find_or_append(self, name: str) -> int:
        names = _names(self._map)
        if name in names:
            return names.index(name)
        number = len(names)
        if number == _NAMES:
            return OTHER
        start = _NAMES_OFFSET + number * _NAME_BYTES
        self._map[start : start + _NAME_BYTES] = name.encode().ljust(_NAME_BYTES, b"\0")
        _COUNT.pack_into(self._map, _COUNT_OFFSET, number + 1)
        return number

    def add(self, number: int, seconds: float) -> None:
        """Add to a stage by its :meth:`number`."""
        self._seconds[number] += seconds

    def in_place(self) -> bool:
        """Whether the file is still where readers look for it."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.lstat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the lane back, or, in a forked child, let go of the parent's."""
        self._seconds.release()
        self._map.close()
        os.close(self._descriptor)


OTHER: Final = _NAMES


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return _regular(os.open(path, flags), path)
    temporary = path.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
    descriptor = os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.fchmod(descriptor, 0o644)  # the sidecar runs as another user, whatever the umask
        # Reserve the pages: writing to a sparse page of a full tmpfs would kill the process.
        os.posix_fallocate(descriptor, 0, _FILE_BYTES)
        os.pwrite(descriptor, _HEADER.pack(_MAGIC, _VERSION, MAX_STAGES, _LANES), 0)
        path.hardlink_to(temporary)
    except FileExistsError:
        os.close(descriptor)  # another worker was faster
        return _regular(os.open(path, flags), path)
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        temporary.unlink()
    return descriptor


def _regular(descriptor: int, path: Path) -> int:
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size == _FILE_BYTES:
        return descriptor
    os.close(descriptor)
    raise RejectedFile("foreign", f"{path}: no stage file")


def _check(header: bytes, name: str) -> None:
    magic, version, stages, lanes = _HEADER.unpack_from(header)
    if magic != _MAGIC:
        raise RejectedFile("foreign", f"{name}: no stage file")
    if (version, stages, lanes) != (_VERSION, MAX_STAGES, _LANES):
        raise RejectedFile("layout", f"{name}: layout {version}, expected {_VERSION}")


def _names(content: bytes | mmap.mmap) -> list[str]:
    (count,) = _COUNT.unpack_from(content, _COUNT_OFFSET)
    starts = (_NAMES_OFFSET + n * _NAME_BYTES for n in range(min(count, _NAMES)))
    raw = (content[start : start + _NAME_BYTES] for start in starts)
    return [bytes(each).rstrip(b"\0").decode("utf-8", "replace") for each in raw]


def read_stages(path: Path) -> dict[str, float]:
    """Seconds by stage over all lanes; empty when there is no file. Raises :class:`RejectedFile`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RejectedFile("unreadable", f"{path}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RejectedFile("foreign", f"{path}: not a regular file")
        content = os.pread(descriptor, _FILE_BYTES, 0)
    except OSError as error:
        raise RejectedFile("unreadable", f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(content) < _FILE_BYTES:
        raise RejectedFile("truncated", f"{path}: ends after {len(content)} bytes")
    _check(content, str(path))
    numbers = struct.unpack_from(f"={_LANES * MAX_STAGES}d", content, _LANES_OFFSET)
    totals = {name: sum(numbers[number::MAX_STAGES]) for number, name in enumerate(_names(content))}
    other = sum(numbers[OTHER::MAX_STAGES])
    if other:
        totals[OTHER_STAGE] = totals.get(OTHER_STAGE, 0.0) + other
    return {name: seconds for name, seconds in totals.items() if 0 <= seconds < float("inf")}
