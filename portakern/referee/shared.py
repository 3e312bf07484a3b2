"""Arrays of one call in memory that both processes see, whose size neither can change.

What of that memory belongs to no array cannot be reached where the kernel is.  On a device that computes in the host's memory
each array ends, or begins, where that begins: which of both is drawn, so that whoever reads or writes one element too many is
ended by it, sooner or later on either side.  On the other side is a guard band, which tells where it was written.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.backend import HostBuffer
from portakern.errors import PortakernError
from portakern.native import core
from portakern.referee.bell import BYTES, FAULT
from portakern.tools.jail import system

PAGE = 4096
LINE = 64
"""Arrays begin at multiples of so many bytes, as vectors want them: between such a one's end and the memory that cannot be
reached lie fewer than that."""

ENDED = ("crash", "implausible-timing")
"""What is said of a process that has ended: the latter where it was to call by our clock."""

_SPREAD = 64
"""Before an array lie up to so many pages of nothing, another number in every call."""


@dataclass(frozen=True)
class Window:
    """What of an allocation the other process can reach: from ``begin`` to ``end`` of its bytes, with the array at ``array``
    there, which has ``reach`` bytes; and whether it is to end where nothing is, rather than to begin there."""

    begin: int
    end: int
    array: int
    reach: int
    behind: bool = False

    @property
    def bytes(self) -> int:
        return self.end - self.begin


def whole(size: int, offset: int, reach: int) -> Window:
    return Window(0, size, offset, reach)


def with_edge(size: int, offset: int, reach: int, behind: bool) -> Window:
    """Up to where its array ends, or from where it begins."""
    if behind:
        return Window(0, min(offset + -(-reach // LINE) * LINE, size), offset, reach, behind)
    return Window(offset, size, offset, reach)


@dataclass
class Arena:
    """Memory behind a descriptor, whose first page is for what processes tell each other.  ``places`` are where the windows of
    a call begin."""

    descriptor: int
    memory: mmap.mmap
    windows: dict[str, Window]
    places: dict[str, int]

    @property
    def bytes(self) -> np.ndarray:
        return np.frombuffer(self.memory, np.uint8)

    def of(self, name: str) -> np.ndarray:
        """The bytes of a window."""
        return self.bytes[self.places[name] : self.places[name] + self.windows[name].bytes]

    def explained(self, error: PortakernError) -> PortakernError:
        """The error that ended the kernel's process, with what it reached for where that is known.  The process itself tells,
        so that nothing but these words may hang on it."""
        told = int(np.frombuffer(self.memory, np.uint64, 1, 8 * FAULT)[0])
        if error.kind not in ENDED or not self.places or not 0 < told <= len(self.memory):
            return error
        away, name = min((self._away(n, told - 1), n) for n in self.places)
        side = "behind" if told - 1 >= self.places[name] else "before"
        words = f"{error.message}: it reached for memory {away} bytes {side} {name.rpartition(' ')[2]}"
        return PortakernError("out-of-bounds", words, hint="nothing is there: an index is too large, or a mask is missing")

    def _away(self, name: str, place: int) -> int:
        window = self.windows[name]
        begin = self.places[name] + window.array - window.begin
        return place - (begin + window.reach) + 1 if place >= begin else begin - place

    def close(self) -> None:
        os.close(self.descriptor)


def arena_for(windows: Mapping[str, Window], rng: np.random.Generator) -> Arena:
    """New memory for so many windows, each at a place that was drawn, with pages between that are nobody's.  What ends with an
    array ends with a page, what begins with one begins with it."""
    places: dict[str, int] = {}
    end = BYTES
    for name in rng.permutation(list(windows)).tolist():
        window = windows[name]
        begin = end + PAGE * int(rng.integers(1, _SPREAD))
        end = begin + -(-window.bytes // PAGE) * PAGE
        places[name] = end - window.bytes if window.behind else begin
    size = end + PAGE
    descriptor = os.memfd_create("arrays", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return Arena(descriptor, mmap.mmap(descriptor, size), dict(windows), places)


def written(arena: Arena, buffers: Mapping[str, HostBuffer]) -> None:
    for name, buffer in buffers.items():
        window = arena.windows[name]
        arena.of(name)[...] = buffer.storage[window.begin : window.end]


def taken(arena: Arena, buffers: Mapping[str, HostBuffer]) -> None:
    """Copies what lies in the arena now: what is judged is this copy, which the other process cannot change any more."""
    for name, buffer in buffers.items():
        window = arena.windows[name]
        buffer.storage[window.begin : window.end] = arena.of(name)


def described(arena: Arena, name: str, shape: Iterable[int], dtype: np.dtype[Any], called: str = "") -> dict[str, Any]:
    """A buffer for the other process, which may know it by another name."""
    window = arena.windows[name]
    return {"name": called or name, "place": arena.places[name], "bytes": window.bytes, "offset": window.array - window.begin,
            "shape": list(shape), "dtype": dtype.name}  # fmt: skip


def mapped(descriptor: int, size: int, described: list[dict[str, Any]]) -> dict[str, HostBuffer]:
    """The buffers as the other process sees them."""
    memory = mmap.mmap(descriptor, size)
    fence(memory, described)
    return mapped_in(memory, described)


def mapped_in(shared: mmap.mmap, described: list[dict[str, Any]]) -> dict[str, HostBuffer]:
    import ml_dtypes  # noqa: F401  (numpy knows bfloat16 by name then)

    memory = np.frombuffer(shared, np.uint8)
    return {d["name"]: HostBuffer(d["name"], memory[d["place"] : d["place"] + d["bytes"]], d["offset"], tuple(d["shape"]),
                                  np.dtype(d["dtype"])) for d in described}  # fmt: skip


def fence(memory: mmap.mmap, described: Iterable[Mapping[str, Any]]) -> None:
    """From now on only the first page and what is described can be reached, and who reaches for the rest leaves word of it."""
    address = np.frombuffer(memory, np.uint8).ctypes.data
    core().watch_faults(address, len(memory), address + 8 * FAULT)
    for begin, end in _between([(d["place"], d["place"] + d["bytes"]) for d in described], len(memory)):
        place, size = ctypes.c_void_p(address + begin), ctypes.c_size_t(end - begin)
        system.checked(system.LIBC.mprotect(place, size, 0), "mprotect")


def _between(spans: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Whole pages that lie in none of the spans."""
    end = BYTES
    for first, last in sorted(spans):
        if first // PAGE * PAGE > end:
            yield end, first // PAGE * PAGE
        end = max(end, -(-last // PAGE) * PAGE)
    if size // PAGE * PAGE > end:
        yield end, size // PAGE * PAGE
