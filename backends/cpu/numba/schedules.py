"""Which schedules numba allows for a loop nest, the default first.

Loops stop at the extents, so tiles need be no powers of two: a block is as long as caches like it. Blocks are also what
threads share, but only work that pays for starting them is run in parallel, since it triples the time to compile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from portakern.device import Device
from portakern.emit.chains import like_attention
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.size import Size

OPTIONS = {"parallel": "whether blocks run on all cores (numba's prange); the default depends on the amount of work"}

SORTED = 1 << 20
"""Elements of a line that are sorted in one array."""

HELD = 1 << 16
"""Elements of a matrix that a loop carries."""

_PARALLEL_FROM = 1 << 21
"""Element operations from which threads are worth their start (about a millisecond of one core)."""


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    """The schedule space of ``nest``, default first."""
    families = {"elementwise": _elementwise, "transpose": _transpose, "rows": _rows, "held": _held, "segments": _segments,
                "scan": _scan, "associative": _associative, "sort": _sort,
                "contraction": _contraction, "grouped": _contraction, "attention": _attention, "chain": _chain}  # fmt: skip
    found = [_schedule(nest, tiles) for tiles in families[nest.family](nest)]
    pays = _work(nest) >= _PARALLEL_FROM
    both = [Schedule(s.tiles, options=(("parallel", p),)) for p in (pays, not pays) for s in found]
    return tuple(dict.fromkeys(both))


def _schedule(nest: Nest, tiles: Mapping[str, int]) -> Schedule:
    return Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in nest.axes))


def _work(nest: Nest) -> int:
    """Element operations of the nest, open extents counted as 64."""
    total = nest.steps if isinstance(nest.steps, int) else 64
    for axis in nest.axes:
        if not (nest.family in ("attention", "chain") and axis.role == "d"):
            total *= axis.extent if isinstance(axis.extent, int) else 64
    return total


def _cut(extent: Size, most: int, least: int = 1) -> int:
    return max(least, min(extent, most)) if isinstance(extent, int) else most


def _elementwise(nest: Nest) -> Iterator[dict[str, int]]:
    for block in (16384, 4096, 65536):
        tiles: dict[str, int] = {}
        left = block
        for axis in list(reversed(nest.role("parallel")))[:2]:
            tiles[axis.name] = _cut(axis.extent, left)
            left = max(1, left // tiles[axis.name])
        yield tiles


def _transpose(nest: Nest) -> Iterator[dict[str, int]]:
    """Blocks whose rows and columns both stay in the first-level cache."""
    for side in (32, 64, 16):
        yield {a.name: _cut(a.extent, side) for role in ("source", "target") for a in nest.role(role)}


def _rows(nest: Nest) -> Iterator[dict[str, int]]:
    reduced, parallel = nest.role("reduced")[-1], nest.role("parallel")
    columns = [a for a in parallel if a.contiguous]
    for row in (65536, 8192, 4096):
        if columns:  # neighbouring columns are summed together, walking down in blocks
            yield {columns[-1].name: _cut(columns[-1].extent, 256), reduced.name: _cut(reduced.extent, row // 64)}
        elif isinstance(reduced.extent, int):
            yield {reduced.name: _cut(reduced.extent, row)}
        else:
            yield {reduced.name: min(row, 8192)}


def _held(nest: Nest) -> Iterator[dict[str, int]]:
    """Rows, columns beside each other, or a whole matrix at a time."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    tiles = {a.name: _cut(a.extent, HELD) for a in held}
    whole = prod(tiles.values())
    if len(held) == 1 and not columns:
        yield from _rows(nest.as_family("rows", held="reduced"))
    elif whole <= HELD and len(held) == 2:
        yield tiles
    elif whole <= HELD:
        yield from ({**tiles, columns[-1].name: _cut(columns[-1].extent, max(room // whole, 16))} for room in (2048, 4096))


def _segments(nest: Nest) -> Iterator[dict[str, int]]:
    """One element of a segment after the other, neighbouring columns side by side."""
    columns = [a for a in nest.role("parallel") if a.contiguous]
    for wide in (256, 1024, 64):
        yield {columns[-1].name: _cut(columns[-1].extent, wide)} if columns else {}


def _scan(nest: Nest) -> Iterator[dict[str, int]]:
    """Lines that are contiguous in pieces, which bound the rounding error of sums; others side by side, going down together."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        yield from ({line.name: _cut(line.extent, piece)} for piece in (4096, 2048, 8192))
        return
    for wide in (256, 1024, 64):
        yield {parallel[-1].name: _cut(parallel[-1].extent, wide)}


def _associative(nest: Nest) -> Iterator[dict[str, int]]:
    """One element after the other: contiguous lines by themselves, others side by side."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        yield {}
        return
    for wide in (256, 1024, 64):
        yield {parallel[-1].name: _cut(parallel[-1].extent, wide)}


def _sort(nest: Nest) -> Iterator[dict[str, int]]:
    yield {a.name: _cut(a.extent, SORTED, 2) for a in (*nest.role("sorted"), *nest.role("first"))}


def _contraction(nest: Nest) -> Iterator[dict[str, int]]:
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    for rows, cols, depth in ((128, 256, 128), (64, 256, 64), (256, 256, 256), (64, 64, 64)):
        yield {m.name: _cut(m.extent, rows, 4), n.name: _cut(n.extent, cols, 16), k.name: _cut(k.extent, depth, 4)}


def _attention(nest: Nest) -> Iterator[dict[str, int]]:
    (m,), (n,), (k,), (d,) = (nest.role(r) for r in ("m", "n", "k", "d"))
    for rows, keys in ((64, 128), (32, 64), (128, 256)):
        yield {m.name: _cut(m.extent, rows, 4), n.name: _cut(n.extent, keys, 16),
               k.name: _cut(k.extent, 1 << 20, 4), d.name: _cut(d.extent, 1 << 20, 16)}  # fmt: skip



def _chain(nest: Nest) -> Iterator[dict[str, int]]:
    for s in like_attention(nest, lambda x: [_schedule(x, tiles) for tiles in _attention(x)]):
        yield dict(s.tiles)
