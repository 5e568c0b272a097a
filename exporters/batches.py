"""What a batch holds: its samples and tokens, found without knowing the data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_TOKEN_KEYS: Final = ("input_ids", "tokens")


def batch_size(batch: Any) -> tuple[int, int]:
    """Samples and tokens of ``batch`` by the shape of its first array; 0: cannot be told.

    Understands an array (anything with a ``shape``), and lists, tuples and mappings of arrays.
    Tokens are known where a mapping holds ``input_ids`` or ``tokens``; padding counts.
    """
    tokens = 0
    members: Sequence[Any]
    if isinstance(batch, (list, tuple)):
        members = batch
    elif isinstance(batch, Mapping):
        for key in _TOKEN_KEYS:
            shape = getattr(batch.get(key), "shape", None)
            if shape:
                tokens = _product(shape)
                break
        members = tuple(batch.values())
    else:
        members = (batch,)
    for member in members:
        shape = getattr(member, "shape", None)
        if shape:
            return int(shape[0]), tokens
    return 0, tokens


def _product(shape: Sequence[int]) -> int:
    product = 1
    for length in shape:
        product *= int(length)
    return product
