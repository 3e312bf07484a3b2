"""Tiles for a CPU: a block's tiles stay in the first- and second-level cache; no powers of two are needed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from portakern.device import Device
from portakern.emit.chains import like_attention
from portakern.ir.schedule import Nest, NestAxis, Schedule

OPTIONS: dict[str, str] = {}
LINE = 2048  # elements of a contiguous run: long enough to hide its start, short enough for the first-level cache
SORTED = 1 << 17  # elements of a line that are sorted in a tile
FEW = 4  # rows or steps of a product, below which its tiles are padded: half of a tile is still one
ROW = 16384  # longest row that is taken at once
CORES = 8  # blocks that a product should have
LEAST = 64  # rows or columns of a product, less of which are not worth a block
HELD = 16384  # elements of a matrix that a loop carries


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    """The schedules of ``nest``, default first."""
    return list(dict.fromkeys(_RULES[nest.family](nest)))


def fit(axis: NestAxis, most: int, multiple: int = 1) -> int:
    """A tile for ``axis``: all of it where it is no longer than ``most``, else equal parts of at most ``most``."""
    if not isinstance(axis.extent, int):
        return most
    extent = max(axis.extent, 1)
    parts = -(-extent // most)
    tile = -(-extent // parts)
    return -(-tile // multiple) * multiple if parts > 1 or multiple > 1 else tile


def whole(axis: NestAxis, most: int, multiple: int) -> int:
    """The same, and all of an axis that is no longer as it is: rows and steps that are not there are not computed."""
    return fit(axis, most, multiple if _longer(axis, most) or axis.extent < FEW else 1)  # type: ignore[operator]


def _schedule(tiles: dict[str, int], nest: Nest) -> Schedule:
    return Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in nest.axes), stages=1, warps=1)


def _elementwise(nest: Nest) -> list[Schedule]:
    *outer, last = nest.role("parallel")
    found = []
    for line in (LINE, 4 * LINE, LINE // 4):
        tiles = {last.name: fit(last, line, 16 if _longer(last, line) else 1)}
        if outer and tiles[last.name] * 2 <= line:
            tiles[outer[-1].name] = fit(outer[-1], max(line // tiles[last.name], 1))
        found.append(_schedule(tiles, nest))
    return found


def _longer(axis: NestAxis, most: int) -> bool:
    return not isinstance(axis.extent, int) or axis.extent > most


def _transpose(nest: Nest) -> list[Schedule]:
    pair = [*nest.role("source"), *nest.role("target")]
    return [_schedule({a.name: fit(a, side) for a in pair}, nest) for side in (64, 32, 128)]


def _rows(nest: Nest) -> list[Schedule]:
    reduced = nest.role("reduced")[-1]
    parallel = nest.role("parallel")
    contiguous = [a for a in parallel if getattr(a, "contiguous", False)]
    line = next((a for a in contiguous[-1:] if a.window == "positions"), None) or nest.along_lines
    if line is not None and nest.of_windows:  # each tap is a line of memory, from its own beginning
        return [_schedule({line.name: fit(line, wide)}, nest) for wide in (1024, 256, 64)]
    if contiguous:  # columns are reduced: whole lines of them side by side
        return [_schedule({contiguous[-1].name: fit(contiguous[-1], wide), reduced.name: fit(reduced, deep)}, nest)
                for wide, deep in ((256, 32), (1024, 16), (64, 64))]  # fmt: skip
    found = []
    for row in (ROW, 4096, 1024):
        tiles = {reduced.name: min(row, 4096) if _longer(reduced, row) else fit(reduced, row)}
        if parallel and tiles[reduced.name] <= 256:
            tiles[parallel[-1].name] = fit(parallel[-1], max(LINE // tiles[reduced.name], 1))
        found.append(_schedule(tiles, nest))
    return found


def _held(nest: Nest) -> list[Schedule]:
    """Rows, columns beside each other, or a whole matrix at a time."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    if len(held) == 1 and not columns:
        return _rows(nest.as_family("rows", held="reduced"))
    tiles = {a.name: fit(a, HELD) for a in held}
    whole = prod(tiles.values())
    if whole > HELD:
        return []
    if len(held) == 2:
        return [_schedule(tiles, nest)]
    return [_schedule({**tiles, columns[-1].name: fit(columns[-1], max(room // whole, 16))}, nest) for room in (LINE, 2 * LINE)]


def _segments(nest: Nest) -> list[Schedule]:
    """One element of a segment after the other, neighbouring columns side by side; of a line some in a vector."""
    (walked,), columns = nest.role("walked"), [a for a in nest.role("parallel") if a.contiguous]
    if columns:
        return [_schedule({columns[-1].name: fit(columns[-1], wide)}, nest) for wide in (256, 1024, 64)]
    return [_schedule({walked.name: some}, nest) for some in (16, 64, 8)]


def _scan(nest: Nest) -> list[Schedule]:
    """Lines that are contiguous as rows; others side by side, going down together."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        return _rows(nest.as_family("rows", scanned="reduced"))
    return [_schedule({parallel[-1].name: fit(parallel[-1], wide)}, nest) for wide in (256, 1024, 64)]


def _associative(nest: Nest) -> list[Schedule]:
    """One element after the other: contiguous lines by themselves, others side by side."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        return [_schedule({}, nest)]
    return [_schedule({parallel[-1].name: fit(parallel[-1], wide)}, nest) for wide in (256, 1024, 64)]


def _sort(nest: Nest) -> list[Schedule]:
    first = {a.name: max(2, fit(a, SORTED)) for a in nest.role("first")}
    return [_schedule({**{a.name: fit(a, SORTED) for a in nest.role("sorted")}, **first}, nest)]


def _contraction(nest: Nest) -> list[Schedule]:
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    found = []
    for bm, bn, bk in ((256, 256, 256), (128, 256, 256), (64, 128, 256), (32, 64, 512), (128, 128, 512)):
        tiles = {m.name: whole(m, bm, 8), n.name: fit(n, bn, 32), k.name: whole(k, bk, 16)}
        found.append(_schedule(_shared_out(tiles, nest), nest))
    return found


def _shared_out(tiles: dict[str, int], nest: Nest) -> dict[str, int]:
    """``tiles`` of as many blocks as cores may be waiting for, if the product has them: one of 256 x 256 had one block.

    Columns are parted first: a block packs its own of the right operand, and reads the rows of the left one where they lie.
    """
    (m,), (n,) = nest.role("m"), nest.role("n")
    for axis, multiple in ((n, 32), (m, 8)):
        while _blocks(tiles, nest) < CORES and tiles[axis.name] > LEAST:
            tiles = {**tiles, axis.name: fit(axis, max(tiles[axis.name] // 2, LEAST), multiple)}
    return tiles


def _blocks(tiles: dict[str, int], nest: Nest) -> int:
    """How many blocks there are, of open dims as if they were long."""
    grid = [a for a in nest.axes if a.role not in ("k", "reduced")]
    return prod(-(-a.extent // tiles.get(a.name, 1)) if isinstance(a.extent, int) else CORES for a in grid)


def _grouped(nest: Nest) -> list[Schedule]:
    """Few rows: a block makes the whole product anew for every group that has one of its rows."""
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    found = []
    for bm in (64, 32, 128) if _longer(m, 1024) else (32, 64, 128):
        found.append(_schedule({m.name: fit(m, bm, 8), n.name: fit(n, 256, 32), k.name: whole(k, 256, 16)}, nest))
    return found


def _attention(nest: Nest) -> list[Schedule]:
    (m,), (n,) = nest.role("m"), nest.role("n")
    whole = {a.name: fit(a, 1 << 20, 32) for role in ("k", "d") for a in nest.role(role)}
    found = []
    for bm, bn in ((64, 128), (128, 128), (32, 64)):
        found.append(_schedule({**whole, m.name: fit(m, bm, 8), n.name: fit(n, bn, 32)}, nest))
    return found


def _chain(nest: Nest) -> list[Schedule]:
    return list(like_attention(nest, _attention))


_RULES = {
    "elementwise": _elementwise, "transpose": _transpose, "rows": _rows, "held": _held, "segments": _segments, "scan": _scan,
    "associative": _associative, "sort": _sort, "contraction": _contraction, "grouped": _grouped, "attention": _attention,
    "chain": _chain,
}  # fmt: skip
