"""What a batch holds: its samples and tokens, found without knowing the data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_TOKEN_KEYS: Final = ("input_ids", "tokens")


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Samples and tokens of one batch; None when they cannot be told."""

    samples: int | None
    tokens: int | None


def batch_size(batch: Any) -> BatchSize:
    """The size of ``batch`` by the shape of its first array.

    Understands an array (anything with a ``shape``), and lists, tuples and mappings of arrays.
    Tokens are known where a mapping holds ``input_ids`` or ``tokens``; padding counts.
    """
    tokens = None
    if isinstance(batch, Mapping):
        for key in _TOKEN_KEYS:
            shape = getattr(batch.get(key), "shape", None)
            if shape:
                tokens = _product(shape)
                break
        members: Sequence[Any] = tuple(batch.values())
    elif isinstance(batch, (list, tuple)):
        members = batch
    else:
        members = (batch,)
    for member in members:
        shape = getattr(member, "shape", None)
        if shape:
            return BatchSize(int(shape[0]), tokens)
    return BatchSize(None, tokens)


def _product(shape: Sequence[int]) -> int:
    product = 1
    for length in shape:
        product *= int(length)
    return product
