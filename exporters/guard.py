"""The promise that nothing of the monitor's reaches the training: no exception, no return value."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recorder import Recorder

log = logging.getLogger("gpu_actuary")


def guarded(recorder: Recorder, function: Callable[..., Any]) -> Callable[..., None]:
    """``function`` as a callback that never raises and returns nothing.

    It does nothing once the recorder was closed, and in a forked child. An error is logged and
    switches the monitor off. (Warnings would not do: a user may have turned them into errors.)
    """

    def call(*arguments: Any) -> None:
        if not recorder.active:
            return
        try:
            function(*arguments)
        except Exception:  # noqa: BLE001  # logged by give_up; the training must go on
            give_up(recorder)

    return call


def give_up(recorder: Recorder) -> None:
    """After an error of the monitor's own: say it once, and end the reports in order.

    The rank itself is well, so its file is closed cleanly: a monitor's error must not look like a
    dead rank.
    """
    if not recorder.active:
        return  # closed by another thread in the middle of the call
    log.exception("GPU Actuary's monitor failed and is now off; the training goes on.")
    try:
        recorder.close(clean=True)
    except Exception:  # noqa: BLE001  # the file itself is what failed, and that was just logged
        recorder.active = False
