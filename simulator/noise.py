"""Repeatable randomness: the same key always gives the same number, in every process."""

from __future__ import annotations

import hashlib

_RANGE = 1 << 64


def uniform(*key: object) -> float:
    """A number in 0..1 (1 excluded) that depends on ``key`` alone."""
    digest = hashlib.blake2b("\0".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / _RANGE


def signed(*key: object) -> float:
    """A number in -1..1 (1 excluded) that depends on ``key`` alone."""
    return 2.0 * uniform(*key) - 1.0


def gpu_uuid(node: str, index: int) -> str:
    """The UUID of a GPU; not of the seed, so that another seed does not look like swapped GPUs."""
    digits = hashlib.blake2b(f"{node}\0{index}".encode(), digest_size=16).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
