"""The promise that nothing of the monitor's reaches the training: no exception, no return value."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from torch.compiler import is_compiling

from .reporter import give_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from .reporter import Reporter


def guarded(recorder: Reporter, function: Callable[..., Any]) -> Callable[..., None]:
    """``function`` as a callback that never raises and returns nothing.

    It does nothing once the recorder was closed, and in a forked child. An error is logged and
    switches the monitor off. (Warnings would not do: a user may have turned them into errors.)

    It stays in this process: a module that is pickled while a hook is on it, as by
    ``torch.save(model)``, takes a hook along that does nothing and needs nothing of ours.
    """
    return _Guarded(recorder, function)


class _Guarded:
    __torch_unserializable__: Final = True  # a saved loss goes without its hooks, and no warning

    def __init__(self, recorder: Reporter, function: Callable[..., Any]) -> None:
        self._recorder = recorder
        self._function = function

    def __call__(self, *arguments: Any) -> None:
        # Traced into a compiled graph it would break the graph, or fail where one is demanded.
        if is_compiling() or not self._recorder.active:
            return
        try:
            self._function(*arguments)
        except Exception:  # noqa: BLE001  # logged by give_up; the training must go on
            give_up(self._recorder)

    def __deepcopy__(self, _memo: dict[int, Any]) -> _Guarded:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # takes anything and returns None
