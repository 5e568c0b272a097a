"""What a batch holds: its samples and tokens, found without knowing the data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_TOKEN_KEYS: Final = ("input_ids", "tokens")


def batch_size(batch: Any) -> tuple[int, int, int]:
    """Samples, tokens and bytes of ``batch``; 0: cannot be told.

    Understands an array (anything with a ``shape``), and lists, tuples and mappings of arrays. The
    first array says how many samples there are. Tokens are known where a mapping holds
    ``input_ids`` or ``tokens``; padding counts.
    """
    samples = tokens = size = 0
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
            samples = samples or int(shape[0])
            size += getattr(member, "nbytes", 0)
    return samples, tokens, size


def _product(shape: Sequence[int]) -> int:
    product = 1
    for length in shape:
        product *= int(length)
    return product
