"""Arrays of one call in memory that both processes see, whose size neither can change."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.backend import HostBuffer

PAGE = 4096
_SPREAD = 64
"""Where an array begins differs by up to so many pages from call to call."""


@dataclass
class Arena:
    """Memory behind a descriptor.  ``places`` are where the buffers of a call begin."""

    descriptor: int
    memory: mmap.mmap
    places: dict[str, int]

    @property
    def bytes(self) -> np.ndarray:
        return np.frombuffer(self.memory, np.uint8)

    def close(self) -> None:
        os.close(self.descriptor)


def arena_for(sizes: Mapping[str, int], rng: np.random.Generator, head: int = 0) -> Arena:
    """New memory that holds allocations of so many bytes behind a ``head``, each at a place that was drawn."""
    places: dict[str, int] = {}
    end = head
    for name in rng.permutation(list(sizes)).tolist():
        places[name] = end = end + PAGE * int(rng.integers(_SPREAD))
        end += -(-sizes[name] // PAGE) * PAGE
    descriptor = os.memfd_create("arrays", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, max(end, PAGE))
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return Arena(descriptor, mmap.mmap(descriptor, max(end, PAGE)), places)


def written(arena: Arena, buffers: Mapping[str, HostBuffer]) -> None:
    for name, buffer in buffers.items():
        place = arena.places[name]
        arena.bytes[place : place + buffer.storage.nbytes] = buffer.storage


def taken(arena: Arena, buffers: Mapping[str, HostBuffer]) -> None:
    """Copies what lies in the arena now: what is judged is this copy, which the other process cannot change any more."""
    for name, buffer in buffers.items():
        place = arena.places[name]
        buffer.storage[...] = arena.bytes[place : place + buffer.storage.nbytes]


def described(arena: Arena, buffers: Mapping[str, HostBuffer]) -> list[dict[str, Any]]:
    return [{"name": n, "place": arena.places[n], "bytes": b.storage.nbytes, "offset": b.offset, "shape": list(b.shape),
             "dtype": b.dtype.name} for n, b in buffers.items()]  # fmt: skip


def mapped(descriptor: int, size: int, described: list[dict[str, Any]]) -> dict[str, HostBuffer]:
    """The buffers as the other process sees them."""
    return mapped_in(mmap.mmap(descriptor, size), described)


def mapped_in(shared: mmap.mmap, described: list[dict[str, Any]]) -> dict[str, HostBuffer]:
    import ml_dtypes  # noqa: F401  (numpy knows bfloat16 by name then)

    memory = np.frombuffer(shared, np.uint8)
    return {d["name"]: HostBuffer(d["name"], memory[d["place"] : d["place"] + d["bytes"]], d["offset"], tuple(d["shape"]),
                                  np.dtype(d["dtype"])) for d in described}  # fmt: skip
