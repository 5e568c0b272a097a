"""Finding tensors in what a model returns, and following their gradients."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch

# Apart from the keys that torch gives, which count up from 0.
_OUR_KEY: Final = -1

_MAX_TENSORS: Final = 8
_MAX_DEPTH: Final = 3


def tensors_with_gradient(output: Any) -> list[torch.Tensor]:
    """The tensors of ``output`` that require a gradient, at most eight.

    Looks into tuples, lists, mappings (and so into Hugging Face's outputs) and dataclasses.
    """
    found: list[torch.Tensor] = []
    for tensor in _tensors(output, _MAX_DEPTH):
        if tensor.requires_grad:
            found.append(tensor)
            if len(found) == _MAX_TENSORS:
                break
    return found


def _tensors(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth > 0:
        for member in _members(value):
            yield from _tensors(member, depth - 1)


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return ()


def when_gradient_comes(tensor: torch.Tensor, call: Callable[[torch.Tensor], None]) -> None:
    """Have ``call`` run in the backward pass when the gradient of ``tensor`` is there.

    Does what ``Tensor.register_hook`` does, but without the handle that could remove the hook
    again: making it costs three times as much as everything else.
    """
    node = tensor.grad_fn
    if node is None or tensor._backward_hooks is not None:
        tensor.register_hook(call)
        return
    tensor._backward_hooks = OrderedDict(((_OUR_KEY, call),))
    node._register_hook_dict(tensor)
