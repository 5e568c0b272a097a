"""Timing the stages of an input pipeline, in whatever process they run. Without torch.

The process of a rank says in its environment where its rank file lies; every process that it starts
inherits that, by fork as well as by spawn, and counts into the stage file beside it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from .layout import OTHER_STAGE
from .rankreader import RejectedFile
from .stagefile import OTHER, SUFFIX, NoLane, StageFile

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

log = logging.getLogger("gpu_actuary")

_VARIABLE: Final = "ACTUARY_RANK_FILE"
_LOOK_EVERY_SECONDS: Final = 5.0


def announce(rank_file: Path) -> None:
    """Stages of this process, and of those that it starts from now on, belong to this rank."""
    os.environ[_VARIABLE] = str(rank_file)


def withdraw(rank_file: Path) -> None:
    """The rank has ended; stages are not counted any more."""
    if os.environ.get(_VARIABLE) == str(rank_file):
        del os.environ[_VARIABLE]
    _counter.detach()


def stage(name: str) -> Stage:
    """Count the time of a ``with`` block as stage ``name`` of the input pipeline.

    Usual names are read, decode, augment, collate; a rank can have eleven, the others are counted as
    "other". The time of a stage within another one counts for the inner one only. In a process that
    belongs to no monitored rank this does nothing. Never raises.
    """
    return Stage(name)


class Stage:
    """What :func:`stage` returns."""

    __slots__ = ("_began", "_inner", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Self:
        _open.stages.append(self)
        self._inner = 0.0
        self._began = monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ended = monotonic()
        elapsed = ended - self._began
        stages = _open.stages
        with contextlib.suppress(ValueError):  # a generator that another thread goes on with
            stages.remove(self)
        if stages:
            stages[-1]._inner += elapsed
        _counter.add(self._name, max(elapsed - self._inner, 0.0), ended)


class _Open(threading.local):
    """The stages that a thread is in, outermost first."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []


class _Counter:
    """This process's lane in the stage file of its rank."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._rank_file = ""
        self._file: StageFile | None = None
        self._look_at = 0.0
        self._warned = False

    def add(self, name: str, seconds: float, now: float) -> None:
        rank_file = os.environ.get(_VARIABLE, "")
        if not rank_file and not self._rank_file:
            return
        with self._lock:
            try:
                self._attach(rank_file, now)
                if self._file is not None:
                    number = self._file.number(str(name))
                    self._file.add(number, seconds)
                    if number == OTHER and name != OTHER_STAGE and not self._warned:
                        self._warned = True
                        log.warning("There are too many stages: %r counts as other.", name)
            except Exception as error:  # noqa: BLE001  # whatever it is, the data must flow
                self._give_up(error)

    def _attach(self, rank_file: str, now: float) -> None:
        if rank_file != self._rank_file:
            self._let_go()
            self._rank_file = rank_file
        elif self._file is None or now < self._look_at or self._file.in_place():
            return
        else:
            self._let_go()  # someone has removed the file: begin another
        self._look_at = now + _LOOK_EVERY_SECONDS
        if rank_file:
            self._file = StageFile(Path(rank_file).with_suffix(SUFFIX))

    def detach(self) -> None:
        """Give the lane back; the next stage looks anew for a file."""
        with self._lock:
            self._let_go()
            self._rank_file = ""

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.release()

    def _give_up(self, error: Exception) -> None:
        if isinstance(error, (OSError, NoLane, RejectedFile)):
            log.warning("The stages of this process are not counted: %s", error)
        else:
            log.exception("Counting stages failed and is now off; the data flows on.")
        with contextlib.suppress(Exception):
            self._let_go()

    def after_fork_in_child(self) -> None:
        """The lane belongs to the parent; the child gets one of its own."""
        file = self._file
        self._start()  # as new, with a lock that no thread of the parent holds
        if file is not None:
            file.release()


_open = _Open()
_counter = _Counter()
os.register_at_fork(after_in_child=_counter.after_fork_in_child)
