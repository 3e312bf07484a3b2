"""Whether arrays hold the same bytes, and a digest of these: piece by piece, since copies of large arrays take long."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

PIECE = 1 << 22
"""Bytes that are looked at together."""

LARGE = 1 << 26
"""Bytes of an array from which on a digest is one of the sums of its words, which memory gives as fast as it can."""


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Of two arrays of one shape and dtype."""
    return all(np.array_equal(x, y) for x, y in zip(_pieces(a), _pieces(b), strict=True))


def count_of_differences(a: np.ndarray, b: np.ndarray) -> int:
    """Elements of which some byte differs."""
    width = a.dtype.itemsize

    def apart(x: np.ndarray, y: np.ndarray) -> int:
        return 0 if np.array_equal(x, y) else int((x != y).reshape(-1, width).any(-1).sum())

    return sum(apart(x, y) for x, y in zip(_pieces(a, width), _pieces(b, width), strict=True))


def digest_of(x: np.ndarray) -> bytes:
    """Of the bytes of ``x``; of a large array, of what sums of its words and of their products with their places are."""
    found = hashlib.blake2b(digest_size=16)
    for piece in _pieces(x):
        found.update(piece.data if x.nbytes <= LARGE else _sums(piece))
    return found.digest()


def _sums(piece: np.ndarray) -> bytes:
    words = piece[: piece.size // 8 * 8].view(np.uint64)
    places = np.arange(1, 2 * words.size, 2, dtype=np.uint64)  # odd, so that no bit of a word is lost
    with np.errstate(over="ignore"):
        sums = words.sum(dtype=np.uint64), (words * places).sum(dtype=np.uint64)
    return b"".join(s.tobytes() for s in sums) + piece[words.size * 8 :].tobytes()


def _pieces(x: np.ndarray, width: int = 8) -> Iterator[np.ndarray]:
    """The bytes of ``x`` in order, whole elements of ``width`` bytes in each piece."""
    flat = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    step = PIECE // width * width
    for begin in range(0, flat.size, step):
        yield flat[begin : begin + step]
