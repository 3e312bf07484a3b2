"""The schedules OpenCL C kernels may have on a CPU, default first."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from portakern.device import Device
from portakern.dtypes import dtype
from portakern.emit.chains import like_attention
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.ir.size import Size

ROWS, LANES, VECTORS = 8, 16, 2
_LONGEST_ROW = 32768  # elements of a row that stay in local memory with the values kept beside it
SORTED = 2048  # elements of a line that are sorted in local memory
_LOOP_TILE = 4096


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    family = {"contraction": _contraction, "grouped": _contraction, "attention": _attention, "rows": _rows, "held": _held,
              "segments": _segments, "scan": _scan, "associative": _associative, "sort": _sort,
              "chain": _chain, "transpose": _transpose}  # fmt: skip
    found = [_schedule(tiles) for tiles in family.get(nest.family, _elementwise)(nest, device)]
    return list(dict.fromkeys(found))


Tiles = dict[str, int]


def _schedule(tiles: Tiles) -> Schedule:
    return Schedule(tuple(tiles.items()), stages=1, warps=1)


def _ones(nest: Nest) -> Tiles:
    return {a.name: 1 for a in nest.axes}


def _elementwise(nest: Nest, device: Device) -> list[Tiles]:
    """Whole rows in pieces that stay in the first-level cache and are long enough to pay for a work-group."""
    base = _ones(nest)
    last = nest.axes[-1]
    found = []
    for wanted in (8192, 16384, 32768, 4096):
        tiles = dict(base)
        tiles[last.name] = _fit(last.extent, wanted, LANES)
        if len(nest.axes) > 1 and isinstance(last.extent, int) and last.extent < wanted:
            tiles[nest.axes[-2].name] = _fit(nest.axes[-2].extent, max(1, wanted // max(last.extent, 1)), 1)
        found.append(tiles)
    return found


def _transpose(nest: Nest, device: Device) -> list[Tiles]:
    return [{**_ones(nest), **{a.name: size for a in (*nest.role("source"), *nest.role("target"))}} for size in (32, 64, 16)]


def _rows(nest: Nest, device: Device) -> list[Tiles]:
    """One row at a time; a row that fits is one tile, a longer one is walked.

    Where another axis than the reduced one is contiguous, that one is the vector and gets a wide tile.
    """
    base = _ones(nest)
    reduced = nest.role("reduced")[-1]
    beside = [a for a in nest.role("parallel") if getattr(a, "contiguous", False)]
    kept = _word(nest) * max(nest.live, 1)
    longest = min(_LONGEST_ROW, device.count("shared_bytes_per_block", 262144) // kept)
    if beside and not getattr(reduced, "contiguous", False):
        wide = beside[-1]
        loop = _reduced_tile(reduced, min(longest, 256), 64)
        return [{**base, wide.name: _fit(wide.extent, n, LANES), reduced.name: loop} for n in (256, 64, 1024)]
    whole = _reduced_tile(reduced, longest, _LOOP_TILE)
    found = [{**base, reduced.name: whole}]
    return [*found, *({**base, reduced.name: n} for n in (1024, 8192) if n < whole)]


def _held(nest: Nest, device: Device) -> list[Tiles]:
    """Rows, columns beside each other, or a whole matrix at a time."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    if len(held) == 1 and not columns:
        return _rows(nest.as_family("rows", held="reduced"), device)
    extents = [a.extent for a in held if isinstance(a.extent, int)]
    if len(extents) < len(held):
        return []
    tiles = {a.name: extent for a, extent in zip(held, extents, strict=True)}
    last = held[-1] if len(held) == 2 else columns[-1]
    wide = [extents[-1]] if len(held) == 2 else [max(room // extents[0], LANES) for room in (2048, 4096)]
    found = [{**_ones(nest), **tiles, last.name: _fit(last.extent, n, LANES)} for n in wide]
    room = device.count("shared_bytes_per_block", 262144) // (_word(nest) * max(nest.live, 1))
    return [tiles for tiles in found if prod(tiles.values()) <= room]


def _scan(nest: Nest, device: Device) -> list[Tiles]:
    """Lines that are contiguous as rows; others side by side, going down together."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        # In pieces, which bound the rounding error of sums.
        return [{**_ones(nest), line.name: _reduced_tile(line, n, n)} for n in (4096, 2048, 8192)]
    return [{**_ones(nest), parallel[-1].name: _fit(parallel[-1].extent, n, LANES)} for n in (256, 64, 1024)]


def _segments(nest: Nest, device: Device) -> list[Tiles]:
    """One element of a segment after the other, neighbouring columns side by side; of a line some in a vector."""
    (walked,), columns = nest.role("walked"), [a for a in nest.role("parallel") if a.contiguous]
    if columns:
        return [{**_ones(nest), columns[-1].name: _fit(columns[-1].extent, n, LANES)} for n in (256, 64, 1024)]
    return [{**_ones(nest), walked.name: n} for n in (LANES, 4 * LANES)]


def _associative(nest: Nest, device: Device) -> list[Tiles]:
    """One element after the other: contiguous lines by themselves, others side by side."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        return [_ones(nest)]
    return [{**_ones(nest), parallel[-1].name: _fit(parallel[-1].extent, n, LANES)} for n in (256, 64, 1024)]


def _sort(nest: Nest, device: Device) -> list[Tiles]:
    tiles = {a.name: _power(a.extent) for a in (*nest.role("sorted"), *nest.role("first"))}
    return [{**_ones(nest), **tiles}]


def _power(extent: Size) -> int:
    """A power of two that covers the axis, up to what is sorted at once."""
    return min(SORTED, max(2, 1 << max(extent - 1, 0).bit_length())) if isinstance(extent, int) else SORTED


def _reduced_tile(axis: NestAxis, longest: int, loop: int) -> int:
    """The whole extent, rounded up to vectors, where it is known and short enough; otherwise a loop's tile."""
    if isinstance(axis.extent, int) and axis.extent <= longest:
        return _round_up(max(axis.extent, 1), LANES)
    return loop


def _contraction(nest: Nest, device: Device) -> list[Tiles]:
    """Packed operands and the accumulator in local memory, which the runtimes keep in the second-level cache."""
    found = []
    # bf16 is packed as it is: there is room for more rows, over which packing the right operand is spread.
    wide = [(128, 128, 256)] if nest.dots == "bf16" else []
    sizes = (*wide, (64, 128, 256), (128, 128, 128), (64, 64, 256), (32, 128, 256), (64, 256, 64), (16, 128, 512),
             (32, 64, 128), (16, 32, 64))  # fmt: skip
    for m, n, k in sizes:
        tiles = _ones(nest)
        for role, size, unit in (("m", m, ROWS), ("n", n, LANES * VECTORS), ("k", k, LANES)):
            tiles.update({a.name: _fit(a.extent, size, unit) for a in nest.role(role)})
        found.append(tiles)
    limit = device.count("shared_bytes_per_block", 262144)
    return [t for t in found if _contraction_bytes(nest, t) <= limit]


def _contraction_bytes(nest: Nest, tiles: Tiles) -> int:
    m, n, k = ([tiles[a.name] for a in nest.role(r)] or [1] for r in ("m", "n", "k"))
    packed = 2 if nest.dots == "bf16" else _word(nest)
    return packed * (m[-1] * k[-1] + k[-1] * n[-1]) + _word(nest) * m[-1] * n[-1] * max(1, nest.live - 1)


def _attention(nest: Nest, device: Device) -> list[Tiles]:
    limit = device.count("shared_bytes_per_block", 262144)
    found = []
    for m, n in ((64, 64), (32, 64), (64, 32), (32, 32), (16, 32), (8, 32), (8, 16)):
        tiles = _ones(nest)
        tiles.update({a.name: _fit(a.extent, m, ROWS) for a in nest.role("m")})
        tiles.update({a.name: _fit(a.extent, n, LANES * VECTORS) for a in nest.role("n")})
        for role in ("k", "d"):
            tiles.update({a.name: _round_up(max(a.extent, 1), LANES) for a in nest.role(role) if isinstance(a.extent, int)})
        if _attention_bytes(nest, tiles) <= limit:
            found.append(tiles)
    return found


def _attention_bytes(nest: Nest, tiles: Tiles) -> int:
    m, n, k, d = (next((tiles[a.name] for a in nest.role(r)), 1) for r in ("m", "n", "k", "d"))
    wide = _round_up(d, LANES * VECTORS)
    return _word(nest) * (m * k + k * n + 2 * m * n + n * wide + m * wide + 8 * _round_up(m, LANES))


def _chain(nest: Nest, device: Device) -> list[Tiles]:
    return [dict(s.tiles) for s in like_attention(nest, lambda x: map(_schedule, _attention(x, device)))]


def _word(nest: Nest) -> int:
    """Bytes of an element as it is computed with."""
    return max(4, dtype(nest.compute_dtype).bytes)


def _fit(extent: Size, wanted: int, unit: int) -> int:
    """``wanted``, or less where the axis is shorter, in multiples of ``unit``."""
    if not isinstance(extent, int):
        return wanted
    return min(wanted, _round_up(max(extent, 1), unit))


def _round_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit
