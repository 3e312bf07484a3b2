"""The schedules CUDA C++ allows for a loop nest on a device, the default first.

Candidates are written down from what is good practice and filtered by what the device holds: shared memory, threads, and
registers by a count of the tile elements that are alive at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.emit.chains import like_attention
from portakern.emit.product_time import Product
from portakern.emit.shares import LEAST_TILES, in_parts, keys_in_parts, product_in_parts
from portakern.ir.schedule import Nest, NestAxis, Schedule

from .attention.choosing import walks
from .chain.choosing import SPLIT, chains
from .hopper.choosing import multiplied_whole, pipelines

MAX_WARPS = 16
TILE_REGISTERS = 168
"""32-bit registers that tiles may take: of 255, the rest is for addresses, loop state and operands on their way."""

SORTED = 2048
"""Elements of a row that are sorted in shared memory, which takes 16 bytes of each."""

STREAMS = ("elementwise", "transpose", "rows", "held", "segments", "scan", "associative")
"""Families that are done when memory is.  On Hopper their results stay in L2 longest (``keep=stores``), since they are what is
read next and what was read is not: on an H200 that took 1 to 5% from each of rms_norm, layer_norm, softmax, add_relu, silu_mul,
transpose and cumsum of 8192 x 8192, and cost 1% at 2048 x 2048.  Part of it is that less of the result has been written to
memory when the kernel ends."""

LIBRARY_SHARED = 6 << 10
"""Static shared memory that the library may use for itself beside the operands, in bytes."""


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    """The schedules for ``nest``, default first, without repeats."""
    found = (s for s in _FAMILIES[nest.family](nest, device) if s.warps <= MAX_WARPS)
    if nest.family in ("rows", "scan"):
        found = in_parts(found, nest, device)
    if nest.family == "attention":
        found = keys_in_parts(found, nest, device, alone=lambda s: s.option("mma", "") in ("wgmma", "tcgen05"))
    if nest.family in STREAMS and device.has("wgmma"):
        found = (replace(s, options=tuple(sorted({"keep": "stores", **dict(s.options)}.items()))) for s in found)
    return list(dict.fromkeys(found))


# ---- sizes --------------------------------------------------------------------------------------------------------------


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()


def fitted(axis: NestAxis, most: int, least: int = 1) -> int:
    """A power of two up to ``most`` that is no larger than it takes to cover the axis, and at least ``least``."""
    if not isinstance(axis.extent, int):
        return most
    return max(least, min(most, power_of_two(axis.extent)))


def steps(axis: NestAxis, tile: int) -> int | None:
    """How many tiles cover the axis; ``None`` where its extent is open."""
    return -(-axis.extent // tile) if isinstance(axis.extent, int) else None


def schedule(nest: Nest, tiles: dict[str, int], warps: int, stages: int = 1) -> Schedule:
    return Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in nest.axes), stages, warps)


def _words(dtype: str) -> int:
    """32-bit registers that an element of this type takes."""
    return 2 if DTYPES[dtype].bytes == 8 else 1


# ---- elementwise --------------------------------------------------------------------------------------------------------


def _elementwise(nest: Nest, device: Device) -> Iterator[Schedule]:
    """16 bytes of the widest array per thread and access, over the last axis and, where that is short, the one before."""
    axes = nest.role("parallel")
    vector = max(2, min(8, 16 // DTYPES[nest.io_dtype].bytes))
    if few := _spread(nest, device, 256 * vector):
        yield few
    for warps, vectors in ((8, 1), (4, 1), (8, 2), (4, 2), (16, 1), (4, 4)):
        if vector * vectors * max(1, nest.live) * _words(nest.compute_dtype) > TILE_REGISTERS:
            continue
        room = warps * 32 * vector * vectors
        tiles: dict[str, int] = {}
        for axis in reversed(axes[-2:]):
            tiles[axis.name] = fitted(axis, room)
            room //= tiles[axis.name]
        yield schedule(nest, tiles, warps)


def _spread(nest: Nest, device: Device, full: int) -> Schedule | None:
    """Of arrays with less than a tile of ``full`` elements for each unit, as where parts are joined: an element for each
    thread, so that all units are at work."""
    axes, units = nest.role("parallel"), device.count("units", 0)
    if not axes or not all(isinstance(a.extent, int) and a.extent > 0 for a in axes):
        return None
    if math.prod(int(a.extent) for a in axes) >= units * full:  # type: ignore[arg-type]
        return None
    room, tiles = 128, {}
    for axis in reversed(axes[-2:]):
        tiles[axis.name] = fitted(axis, room)
        room //= tiles[axis.name]
    return schedule(nest, tiles, 4)


def _transpose(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Square tiles through shared memory, at least 64 bytes wide on either side."""
    source, target = nest.role("source")[0], nest.role("target")[0]
    wide = 64 if DTYPES[nest.io_dtype].bytes <= 2 else 32
    for side, warps in ((wide, 8), (wide, 4), (32, 4), (64, 16)):
        if side * side * DTYPES[nest.io_dtype].bytes <= 32 << 10:
            yield schedule(nest, {source.name: fitted(source, side), target.name: fitted(target, side)}, warps)


# ---- rows ---------------------------------------------------------------------------------------------------------------


def _rows(nest: Nest, device: Device) -> Iterator[Schedule]:
    reduced, parallel = nest.role("reduced")[-1], nest.role("parallel")
    columns = next((a for a in reversed(parallel) if a.contiguous), None)
    if columns is not None and nest.of_windows:
        yield from _windows(nest, columns)
        return
    if columns is None and (line := nest.along_lines) is not None:
        yield from _lines(nest, line)
        return
    if columns is not None and not reduced.contiguous:
        yield from _column_reductions(nest, device, reduced, columns)
        return
    rows = parallel[-1] if parallel else None
    whole = power_of_two(reduced.extent) if isinstance(reduced.extent, int) else None
    longest = _longest_row(nest)
    if whole is not None and whole <= (longest if nest.again else min(longest, WALKED)):
        yield from _whole_rows(nest, device, reduced, rows, whole)
    # 32 elements a thread: enough bytes on their way (cross_entropy 4096x32768 on an H200: 130 us, 137 with 16).
    for cols, warps in ((8192, 8), (4096, 4), (4096, 8), (2048, 4), (8192, 16), (1024, 4)):
        if cols <= longest and (whole is None or cols < whole or whole > longest):
            yield schedule(nest, {reduced.name: fitted(reduced, cols)}, warps)


def _held(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Rows, or columns beside each other or a matrix in the registers of a block: as few warps as have room, since all of them
    wait for each other."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    if len(held) == 1 and not columns:
        rows = nest.as_family("rows", held="reduced")
        yield from _rows_of_warps(rows, device)
        yield from _rows(rows, device)
        return
    longest = _longest_row(nest)
    tiles = {a.name: fitted(a, longest) for a in held}
    tiles |= {a.name: fitted(a, 32) for a in columns[-1:] if len(held) == 1}
    elements = math.prod(tiles.values())
    if elements <= longest:
        least = max(1, elements * max(2, nest.live) * _words(nest.compute_dtype) // (32 * TILE_REGISTERS))
        for warps in (power_of_two(least), 2 * power_of_two(least), 4 * power_of_two(least)):
            yield schedule(nest, tiles, warps)


ENOUGH_WARPS = 3
"""Warps for a unit, from which on there are enough of them where steps wait for each other."""


def _rows_of_warps(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Rows that a warp has to itself, so that its threads wait for no other ones, eight elements to a thread; fewer rows, until
    all units have work.  The delta rule of 32 heads, 4096 steps and 128 features took 1476 us on an H200, by 16 rows for four
    warps 1927; a state-space model of 2048 lanes with 16 numbers each 626 by four rows, 1073 by 16."""
    (reduced,), parallel = nest.role("reduced"), nest.role("parallel")
    cols = power_of_two(reduced.extent) if isinstance(reduced.extent, int) else 0
    if not reduced.contiguous or not 0 < cols <= _longest_row(nest):
        return
    tiles = {reduced.name: cols}
    if parallel:
        wanted = max(1, 32 * 8 // cols)
        tiles[parallel[-1].name] = _rows_per_block(nest, device, parallel[-1], wanted, ENOUGH_WARPS)
    least = power_of_two(-(-cols * max(2, nest.live) * _words(nest.compute_dtype) // (32 * TILE_REGISTERS)))
    yield schedule(nest, tiles, max(least, min(MAX_WARPS, cols // (32 * 8)), 1))


WALKED = MAX_WARPS * 32 * 32
"""Longer rows of which nothing is needed twice are walked: threads that hold more than 32 elements of each are few, and one
block of them is all that an SM has.  The hinge loss of 32768 x 32768 f32 took 2082 us on an H200 by whole rows, at less than
half of the memory's rate."""


def _longest_row(nest: Nest) -> int:
    """The longest row of which a block of the most warps can hold every live tile in registers."""
    per_thread = TILE_REGISTERS // (max(2, nest.live) * _words(nest.compute_dtype))
    return MAX_WARPS * 32 * (1 << (per_thread.bit_length() - 1))


def _whole_rows(nest: Nest, device: Device, reduced: NestAxis, rows: NestAxis | None, cols: int) -> Iterator[Schedule]:
    """Short rows: several to a block, a warp to a row. Long rows: a block to a row, 16 elements to a thread or more; 32 of 16
    bits, with which rows of 8192 took 4 to 13% less on an H200 (softmax, layer_norm, rms_norm)."""
    for per_thread in (32, 16, 8) if DTYPES[nest.io_dtype].bytes <= 2 else (16, 32, 8):
        warps = max(1, min(MAX_WARPS, cols // (32 * per_thread)))
        if cols * max(2, nest.live) * _words(nest.compute_dtype) > warps * 32 * TILE_REGISTERS:
            warps = MAX_WARPS
        tiles = {reduced.name: cols}
        if warps < 4:
            warps = 4
            if rows is not None:
                tiles[rows.name] = _rows_per_block(nest, device, rows, max(warps, warps * 32 * per_thread // cols))
        yield schedule(nest, tiles, warps)


def _rows_per_block(nest: Nest, device: Device, rows: NestAxis, wanted: int, blocks: int = 1) -> int:
    """As many as wanted (a power of two, at most 64), fewer where the device's units would not all get so many blocks."""
    tile = fitted(rows, min(64, power_of_two(wanted)))
    beside = math.prod(steps(a, 1) or 1 for a in nest.role("parallel") if a is not rows)
    units = -(-device.count("units", 128) * blocks // max(1, beside))
    while tile > 1 and (steps(rows, tile) or units) < units:
        tile //= 2
    return tile


def _windows(nest: Nest, columns: NestAxis) -> Iterator[Schedule]:
    """Positions of windows as rows and what lies side by side as columns, 16 bytes a thread; every thread walks the taps, and
    makes several neighbouring results where these share elements."""
    vector = max(2, 16 // DTYPES[nest.io_dtype].bytes)
    rows = nest.beside(columns)
    for warps, slide in ((8, 4), (8, 8), (4, 4), (8, 2), (4, 8), (8, 1)):
        room = warps * 32 * vector
        across = fitted(columns, min(room, 128))
        tiles = {columns.name: across}
        if rows is not None:
            tiles[rows.name] = fitted(rows, room // across)
        made = schedule(nest, tiles, warps)
        yield replace(made, options=(("slide", count),)) if (count := nest.slide(slide)) > 1 else made


def _lines(nest: Nest, line: NestAxis) -> Iterator[Schedule]:
    """Windows along lines of memory, 16 bytes a thread."""
    vector = max(2, 16 // DTYPES[nest.io_dtype].bytes)
    for warps in (4, 8, 2):
        yield schedule(nest, nest.line_tiles(line, warps * 32 * vector), warps)


ALONE = (256, 8, 2)
"""Columns, rows and warps of a tile whose threads walk their columns alone: 8 rows of 4 neighbours each."""

JOINED_SELDOM = (128, 128, 8)
"""Columns, rows and warps of a tile of which a thread holds 64 elements, so that warps join few sums.  Those of 128 x 4096 x
4095 f32 along their rows took 1958 us on an H200, 2301 in tiles of 64 x 32, 2036 to 2090 where warps had columns alone."""

ENOUGH = 6
"""Such blocks for each unit that fill the device."""


def _column_reductions(nest: Nest, device: Device, reduced: NestAxis, columns: NestAxis) -> Iterator[Schedule]:
    """Neighbouring lanes take neighbouring columns and walk down them; columns that are read again stay in registers.

    Warps below each other must join what they find in every step.  Where several things are found (a place and its value) and
    there are enough columns, a thread has its columns to itself: argmax of 64 x 4096 x 4095 f32 along its rows took 1040 us
    on an H200, 2074 joined.
    """
    yield from _whole_columns(nest, reduced, columns)
    across, down, warps = ALONE
    blocks = math.prod(steps(a, across if a is columns else 1) or 0 for a in nest.role("parallel"))
    if nest.live > 2 and blocks >= ENOUGH * device.count("units", 128):
        yield schedule(nest, {columns.name: across, reduced.name: fitted(reduced, down)}, warps)
    shapes = [(64, 32, 8), (128, 32, 8), (32, 64, 8), (64, 16, 4), (256, 16, 16)]
    if nest.again or nest.passes > 2:  # what is joined in every step: variance of 100000 x 300 bf16 42 us, 73 by (64, 32, 8)
        shapes.insert(0, (64, 64, 4))
    across, down, warps = JOINED_SELDOM
    blocks = math.prod(steps(a, across if a is columns else 1) or 0 for a in nest.role("parallel"))
    if (steps(reduced, down) or 0) > 1 and blocks >= ENOUGH * device.count("units", 128):
        shapes.insert(0 if not nest.again and nest.live <= 2 and _words(nest.compute_dtype) == 1 else 2, JOINED_SELDOM)
    for across, down, warps in shapes:
        yield schedule(nest, {columns.name: fitted(columns, across), reduced.name: fitted(reduced, down)}, warps)


def _whole_columns(nest: Nest, reduced: NestAxis, columns: NestAxis) -> Iterator[Schedule]:
    """Whole columns, as channels of a pixel, where they are short and more than a sum is made of them."""
    if not isinstance(reduced.extent, int) or (nest.live < 3 and nest.passes < 3):
        return
    down = power_of_two(reduced.extent)
    for across, warps in ((64, 8), (32, 8), (32, 16)):
        tile = fitted(columns, across)
        if tile * down * max(2, nest.live) * _words(nest.compute_dtype) <= warps * 32 * TILE_REGISTERS:
            yield schedule(nest, {columns.name: tile, reduced.name: down}, warps)
            return


def _segments(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each thread goes down a column of its own; a line is walked by a warp, since most segments are short."""
    (walked,), columns = nest.role("walked"), [a for a in nest.role("parallel") if a.contiguous]
    if columns:
        for across, warps in ((128, 4), (64, 2), (256, 8), (32, 1)):
            yield schedule(nest, {columns[-1].name: fitted(columns[-1], across)}, warps)
        return
    for along, warps in ((32, 1), (128, 1), (512, 4), (2048, 8)):
        yield schedule(nest, {walked.name: along}, warps)


def _scan(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Lines that are contiguous as rows; others side by side, each thread going down its own."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        yield from _rows(nest.as_family("rows", scanned="reduced"), device)
        return
    for across, warps in ((128, 4), (64, 2), (256, 8), (32, 1)):
        yield schedule(nest, {parallel[-1].name: fitted(parallel[-1], across)}, warps)


# ---- contractions -------------------------------------------------------------------------------------------------------

# (m, n, k, warps, stages), best for large products first. 16-bit operands go to the matrix unit, large tiles of f32 by thirds
# (see thirds.py; on an H100 4096^3 by wgmma 1.84 ms, by mma.sync 2.45, by FMAs 2.92), wider ones and small tiles to FMAs.
# Small tiles have few blocks on an SM, of which one warp waits for all it copies: ResNet18 of two images in f32 took 2940 us on
# an H200 with convolutions of 98 and 392 pixels by 16 x 16 and 16 x 32 elements to a warp, and 1910 by 16 x 32 to four.
_MATRIX = (
    (128, 128, 64, 8, 3), (128, 128, 32, 8, 4), (128, 128, 32, 8, 3), (128, 64, 64, 4, 3), (64, 128, 64, 4, 3),
    (128, 128, 32, 4, 3), (64, 64, 64, 4, 4), (64, 64, 64, 4, 3), (64, 64, 32, 4, 4), (128, 256, 32, 8, 3), (64, 32, 64, 4, 3),
    (32, 64, 64, 4, 3), (32, 32, 64, 4, 3), (16, 64, 64, 4, 3), (64, 16, 64, 4, 3), (16, 32, 64, 2, 3), (32, 16, 64, 2, 3),
    (16, 16, 64, 1, 3),
)  # fmt: skip
_THIRDS = (
    (128, 128, 16, 4, 3), (128, 128, 16, 8, 3), (64, 128, 16, 4, 4), (128, 64, 16, 4, 4), (64, 64, 32, 4, 3),
    (128, 32, 32, 4, 3), (32, 128, 32, 4, 3), (64, 32, 32, 2, 3), (32, 64, 32, 2, 3),
)  # fmt: skip
_THIRDS_BY_UNIT = ((128, 128, 32, 8, 3), (128, 128, 32, 8, 2), (64, 128, 32, 4, 2), (128, 64, 32, 8, 3))
_SCALAR = (
    (128, 256, 16, 8, 3), (256, 128, 16, 8, 3), (128, 128, 16, 4, 3), (128, 128, 16, 8, 2), (128, 64, 16, 4, 2),
    (64, 64, 16, 4, 3), (64, 64, 16, 4, 2), (32, 64, 32, 4, 2), (64, 32, 32, 4, 2), (32, 32, 32, 4, 2), (16, 64, 32, 2, 2),
    (64, 16, 32, 2, 2), (16, 32, 32, 4, 2), (16, 16, 32, 4, 2), (16, 32, 32, 1, 2), (16, 16, 32, 1, 2),
)  # fmt: skip

# Of f32, few rows (output channels) by many pixels, by the rows of a tile.  Pixels arrive word by word, so steps are short and
# warps few, and there is another block to multiply while one waits.  In us on an H200, by tasks of KernelBench's first level:
# - 64 rows by wgmma: operands and thirds of 64 x 128 x 32 leave room for one block of four warps, those of steps of 16 for two.
#   54 took 2287 by steps of 32 and 1264 by 16, 61 8473 and 7311.  64 x 256 x 16 by eight warps: 54 1320, 61 7784, and beside
#   64 x 128 x 32 57 12233 (13147), 68 27455 (28194).
# - 32 rows by mma.sync: a warp splits what it reads, for each k 96 numbers for 32 x 64 elements or 64 for 32 x 32.  70 took
#   18089 by 32 x 128 x 32, 17449 by 32 x 128 x 16, 15608 by 32 x 256 x 16, 17289 by fused multiply-adds.
# - 16 rows by fused multiply-adds, of which a thread with 32 elements reads fewer operands than one with 16.  58 took 3452 by
#   eight warps, 2864 by four, 2934 by eight with twice the columns.
_BY_PIXELS = {64: (64, 128, 16, 4, 3), 32: (32, 256, 16, 4, 2), 16: (16, 256, 16, 4, 2)}


FEW_ROWS, BLOCKS_AT_ONCE = 64, 3
"""Rows up to which a product of weights in groups is a matter of reading these, and blocks on an SM that do: what is
dequantised is not fetched ahead, so that other blocks must be at it."""


def _few_rows_of_groups(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each block takes some of the groups, one a step, and another kernel joins the sums."""
    m, n, k = (nest.role(x)[0] for x in "mnk")
    if len(nest.groups) != 1 or len(nest.role("reduced")) != 1 or not multiplied_whole(nest):
        return
    (groups,) = nest.groups
    if not all(isinstance(a.extent, int) and a.extent > 0 for a in nest.axes):
        return
    least = 32 if DTYPES[multiplied_whole(nest)].bytes == 1 else 16
    rows, depth = fitted(m, FEW_ROWS, 16), fitted(k, 128, least)
    if m.extent > FEW_ROWS or k.extent != depth:  # type: ignore[operator]
        return
    tiles = {m.name: rows, n.name: fitted(n, 64, 16), k.name: depth}
    blocks = math.prod(steps(a, tiles.get(a.name, 1)) or 1 for a in (*nest.role("batch"), m, n))
    parts = min(groups.extent // 2, -(-BLOCKS_AT_ONCE * device.count("units", 128) // blocks))  # type: ignore[operator]
    if parts > 1:  # type: ignore[operator]
        yield replace(schedule(nest, tiles, 8, 2), options=(("split_k", parts),))


def _few_turned_rows(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Few rows whose neighbours in memory are rows, which narrow products do not take: sums in parts, two blocks for a unit.
    On an H100 7 x 4096 x 14336 takes 46 us so (428 by the narrow product's shape, cuBLAS 103), 3 x 5000 x 7000 34 (213, 72)."""
    m, n, k = (nest.role(x)[0] for x in "mnk")
    product = Product.of(nest, device, 2)
    if product is None or not nest.turned or nest.role("reduced") or DTYPES[multiplied_whole(nest) or "f32"].bytes != 2:
        return
    if product.m > 16 or product.k < 512 or not device.has("wgmma"):
        return
    tiles = {m.name: 16, n.name: fitted(n, 128, 16), k.name: 64}
    parts = min(2 * product.units // product.tiles(16, tiles[n.name]), product.k // (64 * LEAST_TILES))
    found = schedule(nest, tiles, 8, 3)
    yield replace(found, options=(("split_k", parts),)) if parts > 1 else found


def _contraction(nest: Nest, device: Device) -> Iterator[Schedule]:
    yield from _few_rows_of_groups(nest, device)
    yield from _few_turned_rows(nest, device)
    pipelined, others = pipelines(nest, device), list(_by_all_warps(nest, device))
    if not pipelined and (parts := product_in_parts(others, nest, device)) is not None:
        yield parts
    yield from pipelined
    yield from others


def _grouped(nest: Nest, device: Device) -> Iterator[Schedule]:
    """As a product whose warps all load and multiply: pipelines of warps have no walk over groups."""
    return _by_all_warps(nest.as_family("contraction", group="reduced"), device)


def _by_pixels(nest: Nest, device: Device) -> tuple[tuple[int, int, int, int, int], ...]:
    """The entry of :data:`_BY_PIXELS` for ``nest``, if it gives more blocks than there are units: one alone is better off with
    longer steps, which have fewer barriers."""
    m, n = (nest.role(x)[0] for x in "mn")
    found = _BY_PIXELS.get(fitted(m, 128, 16))
    if found is None or nest.dots != "f32" or nest.precision != "ieee" or n.window != "positions":
        return ()
    if found[0] == 64 and not device.has("wgmma"):
        return ()
    blocks = [steps(a, found[1] if a is n else 1) for a in (n, *nest.role("batch"))]
    one_each = None not in blocks and math.prod(b or 0 for b in blocks) <= device.count("units", 128)
    return () if one_each else (found,)


def _by_all_warps(nest: Nest, device: Device) -> Iterator[Schedule]:
    m, n, k = (nest.role(x)[0] for x in "mnk")
    dtype = nest.dots or nest.io_dtype
    least = 32 if DTYPES[dtype].bytes == 1 else 16  # as the operands lie in shared memory, whatever they are multiplied as
    if whole := multiplied_whole(nest):
        dtype = whole
    narrow = DTYPES[dtype].bytes == 1
    table = [(tm, tn, 2 * tk, w, s) for tm, tn, tk, w, s in _MATRIX] if narrow else _MATRIX if whole else _SCALAR
    thirds = (*(_THIRDS_BY_UNIT if device.has("wgmma") else ()), *_THIRDS) if dtype == "f32" else ()
    first = _by_pixels(nest, device)
    most = 0 if dtype != "f32" or nest.live > 3 else 2 * 128  # 8 x 16 of f32 to a thread leave room for their operands
    found: list[Schedule] = []
    for tm, tn, tk, warps, stages in (*first, *thirds, *table):
        tiles = {m.name: fitted(m, tm, 16), n.name: fitted(n, tn, 16), k.name: nest.step(fitted(k, tk, least), least)}
        narrower = [tiles[m.name] < tm, tiles[n.name] < tn]
        if all(narrower) or (any(narrower) and (tm, tn, tk, warps, stages) in (*first, *thirds)):
            continue  # a smaller entry of the table says the same with fewer warps
        elements = (tiles[m.name] + tiles[n.name]) * tiles[k.name] * stages
        accumulator = tiles[m.name] * tiles[n.name] // (warps * 32) * _words("f64" if dtype == "f64" else "f32")
        if elements * DTYPES[dtype].bytes > _shared(device) or accumulator * max(1, nest.live - 1) > max(TILE_REGISTERS, most):
            continue
        found.append(schedule(nest, tiles, warps, stages))
    if not found:
        found = [schedule(nest, {m.name: 16, n.name: 16, k.name: least}, 1, 2)]
    # Large tiles save traffic, but only where they give every unit something to do; those by thirds are worth half of them.
    units = device.count("units", 128)
    others = 1
    for axis in nest.role("batch"):
        others *= axis.extent if isinstance(axis.extent, int) else 1

    def idle(s: Schedule) -> bool:
        blocks = [steps(axis, s.tile(axis.name)) for axis in (m, n)]
        by_thirds = dtype == "f32" and s.tile(m.name) * s.tile(n.name) >= 1024 * s.warps
        # Half of a small tile is half of the work for three quarters of the operands: not for the last few units.
        enough = units // 2 if by_thirds else 3 * units // 4 if not whole and _area(s, m, n) <= 512 else units
        return None not in blocks and (blocks[0] or 1) * (blocks[1] or 1) * others < enough

    busy = [s for s in found if not idle(s)]
    # Not the smallest where none keeps the units busy: four warps wait less for a step than one (33 x 65 x 129 6.1 and 8.3 us).
    some = [s for s in found if _area(s, m, n) >= 1024 and s.warps >= 4] if whole else []
    yield _least_wasted(busy, m, n, k) if busy else min(some or found, key=lambda s: _area(s, m, n))
    yield from found


GAIN = 0.85
"""A smaller tile must promise to take at most this share of the first one's time."""


def _least_wasted(found: Sequence[Schedule], m: NestAxis, n: NestAxis, k: NestAxis) -> Schedule:
    """The first, whose tiles are best where they are full; or one that reaches so much less past the ends (260 columns are two
    tiles of 256) that it makes up for the operands that smaller tiles load more often."""

    def time(s: Schedule) -> float:
        rows, columns = s.tile(m.name), s.tile(n.name)
        covered = math.prod((steps(axis, s.tile(axis.name)) or 1) * s.tile(axis.name) for axis in (m, n, k))
        return covered * (1 + 16 * (1 / rows + 1 / columns))

    best = min(found, key=time)
    open_ended = not isinstance(m.extent, int) or not isinstance(n.extent, int)
    return found[0] if open_ended or time(best) > GAIN * time(found[0]) else best


def _area(s: Schedule, m: NestAxis, n: NestAxis) -> int:
    return s.tile(m.name) * s.tile(n.name)


def _shared(device: Device) -> int:
    return device.count("shared_bytes_per_block") - LIBRARY_SHARED


# ---- attention ----------------------------------------------------------------------------------------------------------


def _attention(nest: Nest, device: Device) -> Iterator[Schedule]:
    """A block keeps its queries and walks the keys; heads are taken whole, rounded up to 16."""
    yield from walks(nest, device)
    yield from _by_all_keys(nest, device)


def _chain(nest: Nest, device: Device) -> Iterator[Schedule]:
    yield from chains(nest, device)
    yield from (replace(s, options=SPLIT) for s in like_attention(nest, lambda x: _by_all_keys(x, device)))


WIDEST, MOST_SCORES = 512, 1 << 30
"""Heads of f32 wider than this leave 16 queries to a block, whose products are slow: two products with the scores between them
are lowered apart, if these are not more.  32x32x512x1024 on an H100: 174.6 ms in one kernel, PyTorch's products 22.6 ms."""


F32_REGISTERS = 192
"""Those that tiles of f32 attention may take: of 64 features, plain or causal, nothing is spilled with as many.  A thread that
makes 8 by 8 scores reads shared memory least for each.  2 x 8 x 4096 x 4096 on an H200, us, by rows, keys and warps of a block,
and steps of keys that it holds:

    features   64, 32, 8, 1   64, 64, 4, 1   128, 64, 8, 2   128, 64, 8, 1   128, 64, 4, 1   PyTorch
    32                 2507           1531            1513            2062            1273      1760
    64                 3438           2565            2506            2650            2104      2022
    128                6434           4798            4491            4622            6771      3058
"""


def _scores(nest: Nest) -> float:
    """How many scores attention has in all; as many as can be where a size is open."""
    extents = [a.extent for role in ("batch", "m", "n") for a in nest.role(role)]
    return math.prod(extents) if all(isinstance(e, int) for e in extents) else math.inf  # type: ignore[arg-type]


def _by_all_keys(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Blocks whose warps all load and multiply."""
    m, n, k, d = (nest.role(x)[0] for x in "mnkd")
    dtype = nest.dots or nest.io_dtype
    scored = nest.scores or dtype  # of queries and keys, where values may have another
    bytes_, each, matrix = DTYPES[dtype].bytes, DTYPES[scored].bytes, dtype in ("bf16", "f16")
    stay = matrix and scored not in ("f32", "f64")  # weights in registers, as fragments
    deep = 32 if each == 1 else 16  # an instruction takes 32 bytes of each row
    width, features = (-(-int(a.extent) // to) * to if isinstance(a.extent, int) else 0 for a, to in ((k, deep), (d, 16)))
    if not width or not features or (not matrix and max(width, features) > WIDEST and _scores(nest) <= MOST_SCORES):
        return
    table = ((128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2), (128, 32, 8, 2), (64, 64, 4, 1), (64, 32, 4, 1), (32, 32, 4, 1),
             (32, 16, 4, 1), (16, 32, 1, 2), (16, 16, 1, 1), (16, 16, 4, 1))  # fmt: skip
    if not matrix:
        table = ((128, 64, 4, 1), (128, 64, 8, 2), (128, 64, 8, 1), (64, 64, 4, 1), (64, 32, 8, 1), (32, 32, 4, 2),
                 (32, 32, 4, 1), (32, 16, 4, 1), (16, 16, 4, 1), (16, 16, 1, 1))  # fmt: skip
    most = TILE_REGISTERS if matrix or dtype == "f64" else F32_REGISTERS
    found: list[Schedule] = []
    for tm, tn, warps, stages in table:
        tiles = {m.name: fitted(m, tm, 16), n.name: fitted(n, tn, 16), k.name: width, d.name: features}
        if tiles[m.name] < tm and (tm, tn) != (16, 16):
            continue
        rows, cols = tiles[m.name], tiles[n.name]
        scores = rows * cols * bytes_ * (not stay or rows < 16 * warps)  # probabilities that pass through memory
        shared = (rows * width + cols * width * stages) * each + cols * features * stages * bytes_ + scores
        alive = rows * (features + 2 * cols) // (warps * 32) * _words("f64" if dtype == "f64" else "f32")
        if shared <= _shared(device) and alive <= most:
            found.append(schedule(nest, tiles, warps, stages))
    units = device.count("units", 128)
    yield from found if matrix else sorted(found, key=lambda s: s.tile(m.name) > 64 and (_walkers(nest, s) or units) < units)


def _walkers(nest: Nest, s: Schedule) -> int | None:
    """How many blocks walk the keys; ``None`` where a size is open."""
    found = [steps(a, s.tile(a.name)) for role in ("batch", "m") for a in nest.role(role)]
    return None if None in found else math.prod(found)  # type: ignore[arg-type]


def _sort(nest: Nest, device: Device) -> Iterator[Schedule]:
    """A row for a block, four elements to a thread; of few that are asked for, a vector of them."""
    (line,) = nest.role("sorted")
    size = min(SORTED, power_of_two(line.extent)) if isinstance(line.extent, int) else SORTED
    tiles = {line.name: max(2, size), **{a.name: max(2, fitted(a, SORTED)) for a in nest.role("first")}}
    for each in (4, 8, 2):
        yield schedule(nest, tiles, max(1, min(MAX_WARPS, size // each // 32)))


_FAMILIES = {
    "elementwise": _elementwise, "transpose": _transpose, "rows": _rows, "held": _held, "segments": _segments, "scan": _scan,
    "associative": _scan, "sort": _sort,
    "contraction": _contraction,
    "grouped": _grouped,
    "attention": _attention,
    "chain": _chain,
}  # fmt: skip
