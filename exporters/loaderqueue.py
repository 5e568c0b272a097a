"""How many batches a torch ``DataLoader`` with workers has ready."""

from __future__ import annotations

import contextlib
from math import nan
from typing import Any


def shows_depth(iterator: Any) -> bool:
    """Whether ``iterator`` is one of a ``DataLoader`` with workers."""
    return hasattr(iterator, "_data_queue") and hasattr(iterator, "_task_info")


def ready_batches(iterator: Any) -> float:
    """Batches that wait in ``iterator``; NaN where the platform does not say.

    Those in its queue, those that a thread has not pinned yet, and those that came out of order:
    their entry holds the data beside the worker's number.
    """
    queues = {id(q): q for q in (iterator._data_queue, iterator._worker_result_queue)}.values()
    depth = 0
    with contextlib.suppress(NotImplementedError):  # multiprocessing's queues on macOS
        for queue in queues:
            depth += queue.qsize()
        return float(depth + sum(len(entry) == 2 for entry in iterator._task_info.values()))
    return nan
