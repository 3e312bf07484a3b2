"""The schedules of a nest on a TPU: big blocks, legal for Mosaic, filtered by what fits in VMEM.

A block is copied between HBM and VMEM while the one before is computed on, so it should be large (megabytes) for a step to
take long beside what starting it costs; every block takes VMEM twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from portakern.device import Device
from portakern.dtypes import dtype
from portakern.emit.chains import like_attention
from portakern.errors import ScheduleError
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.ir.size import Size

from ..planning.blocks import LANES, SUBLANES
from .products import blocks

OPTIONS: Mapping[str, str] = {
    "vmem_mb": "VMEM a kernel may use, in MiB (0: as much as its blocks and values may need)",
    "piece": "attention: rows of a block that are computed at a time, while the scores of the next ones are under way (0: all)",
    "rows": "convolutions, pooling: rows of positions that a step computes together (0: one)",
    "split": "attention: 1: tiles of keys that every row of a block sees whole are walked without the mask",
}

BLOCK_ELEMENTS = 512 * 1024
"""Elements of a block of a memory-bound kernel where the sizes are open."""

_STEP_ELEMENTS = 64 * 1024
"""Elements that are moved in about the time that a grid step costs by itself."""

_OPERATIONS = 1 << 16
"""Operations on vectors in a step of elementwise work at most, of which Mosaic makes straight code (normal random numbers, 560
operations each, v6e: 36,000 of them compile in 10 s, 287,000 in 55 s)."""

_RUNNING_ELEMENTS = 512 * 1024
"""Elements of a block of running values at most, padding among them: each of its log2 steps is straight code (a running maximum
of lines of 31, v6e: 4096 of them in a block compile in 10 s, 8192 in 50 s, 16384 in 258 s)."""

FLAT_ELEMENTS = 128 * 1024
"""Elements of a block of a single row."""

ROW_ELEMENTS = 8192
"""Elements of a row of a block of elementwise work; whole rows are one piece of memory."""

ATTENTION: Sequence[tuple[int, int]] = (
    (2048, 2048), (1024, 1024), (1024, 2048), (512, 1024), (512, 2048), (1024, 512), (512, 512), (256, 1024), (256, 512),
    (512, 256), (256, 256), (128, 512), (128, 256), (128, 128),
)  # fmt: skip
"""Query rows and keys; best first."""

_EXACT = ((1024, 1024), (512, 1024), (512, 512), (256, 512), (256, 256), (128, 128))
"""The same for products of f32, whose operands are cut into three: six products of a block are code enough."""

_OPEN_POSITIONS = 1024
"""Positions of windows in a block along an open dim at most: an array is padded to as much as its last block reaches."""

_CODE = 4096
"""Vectors that a step of a convolution moves and multiplies at most, for which libtpu compiles some thousand bundles (3x3 over
56 x 56, 256 to 256 channels of f32, v6e: 8 rows of positions are 6587 bundles, in 2.3 s of CPU, 28 rows 22214, in 7.9 s: 4%
less for a row)."""

_WEIGHTS = 5 << 18
"""Weights of f32 that a step of a convolution has code for at most (3x3, 512 to 512 channels: 11 s to compile, a half 4 s)."""

_MATRIX = 256  # rows and columns of a matrix unit

_USABLE = 0.7  # of VMEM: the rest is the compiler's own


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    """Every schedule allowed for ``nest`` on ``device``, the default first.

    Raises :class:`ScheduleError` when nothing fits.
    """
    families = {"elementwise": _elementwise, "transpose": _transpose, "rows": _rows, "held": _held, "segments": _segments,
                "scan": _scan, "associative": _scan, "sort": _sort, "contraction": _contraction, "grouped": _contraction,
                "attention": _attention, "chain": _chain}
    found = []
    for tiles in _one_by_one(nest, families[nest.family], device):
        for options in _options(nest, tiles, device):
            schedule = Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in nest.axes), stages=2, warps=1, options=options)
            if schedule not in found and vmem_bytes(nest, schedule) <= _USABLE * device.value("vmem_bytes"):
                found.append(schedule)
    if not found:
        raise ScheduleError(f"no block of this {nest.family} kernel fits in the VMEM of {device.name}",
                            hint="cut the axes that must be whole, such as the head size")
    return found


Tiles = dict[str, int]
Options = tuple[tuple[str, int], ...]


def _options(nest: Nest, tiles: Tiles, device: Device) -> Iterable[Options]:
    """The options that tiles may have, the best first."""
    if nest.family == "attention":
        yield _pieces(nest, device)
        return
    yield from _rows_together(nest, tiles)
    yield ()


def _rows_together(nest: Nest, tiles: Tiles) -> Iterable[Options]:
    """Rows of positions in a step: whole images where they are small, since only what both ends of a step do is not hidden.
    A step is unrolled, so it has no more of them than code that compiles in seconds."""
    at = next((n for n, a in enumerate(nest.axes) if tiles.get(a.name, 1) > 1), 0)
    outer, inner = nest.axes[at - 1], nest.axes[at]
    whole = isinstance(inner.extent, int) and tiles.get(inner.name, 1) >= inner.extent
    if not at or outer.window != "positions" or inner.window == "taps" or not isinstance(outer.extent, int) or not whole:
        return
    for most in (4096, 2048, 1024, 512, 256, 128, 64):
        if most > 128 and most * _code_of_a_position(nest, tiles) > _CODE:
            continue
        rows = min(most // int(inner.extent), outer.extent)  # type: ignore[arg-type]
        if rows > 1:
            yield (("rows", -(-outer.extent // -(-outer.extent // rows))),)


def _code_of_a_position(nest: Nest, tiles: Tiles) -> float:
    """Vectors that a step moves and multiplies for a position of a convolution: its windows side by side, and passes of the
    matrix unit over them.  Six products of bf16 are one of f32."""
    if nest.family not in ("contraction", "grouped"):
        return 0.0
    (n,), (k,) = nest.role("n"), nest.role("k")
    taps = math.prod(a.extent for a in nest.role("reduced") if isinstance(a.extent, int))
    operand = dtype(nest.dots or nest.io_dtype).bytes
    moved = taps * -(-tiles[k.name] // LANES)
    passes = -(-taps * tiles[k.name] // _MATRIX) * -(-tiles[n.name] // _MATRIX)
    return (moved + passes * (6 if operand >= 4 else 1)) * operand / 4 / SUBLANES


def _one_by_one(nest: Nest, family: Callable[[Nest, Device], Iterable[Tiles]], device: Device) -> Iterable[Tiles]:
    """The tiles of ``family`` with single coordinates along the axes that pick: a step fetches the block of one index.

    Those of products stay: what is picked in their epilogue has no rule.
    """
    if nest.family in ("contraction", "grouped", "attention", "chain"):
        yield from family(nest, device)
        return
    if any(a.picks for a in (*nest.role("sorted"), *nest.role("first"))):
        return  # a line is sorted as a whole: what is picked along it is a kernel of its own
    rest = tuple(a for a in nest.axes if not (a.picks and a.role == "parallel"))
    for tiles in family(replace(nest, axes=rest), device) if rest else ({},):
        yield {**tiles, **{a.name: 1 for a in nest.axes if a.picks}}


def _elementwise(nest: Nest, device: Device) -> Iterable[Tiles]:
    *outer, last = nest.axes
    if not outer:
        for size in (FLAT_ELEMENTS, FLAT_ELEMENTS // 4, FLAT_ELEMENTS // 16):
            yield {last.name: _fit(last, size, LANES)}
        return
    above = max(reversed(outer), key=_length)
    for wide, part in ((ROW_ELEMENTS, 1), (ROW_ELEMENTS, 2), (2048, 1), (2048, 2), (1024, 4), (512, 8)):
        lanes = _fit(last, wide, LANES)
        yield {above.name: _rows_for(above, lanes, block_elements(nest, device) // part, nest), last.name: lanes}


def _transpose(nest: Nest, device: Device) -> Iterable[Tiles]:
    pair = [a for a in nest.axes if a.role in ("source", "target")]
    for rows, columns in ((512, 1024), (1024, 512), (512, 512), (1024, 1024), (256, 512), (256, 256), (128, 128)):
        yield {a.name: _fit(a, size, LANES) for a, size in zip(pair, (rows, columns), strict=True)}


def _rows(nest: Nest, device: Device, most: float = math.inf, below: bool = True) -> Iterable[Tiles]:
    """Whole rows where they fit, in blocks of at most ``most`` elements.  ``below`` is whether a block may have columns of
    several matrices below each other, an element of each at a time."""
    elements = int(min(block_elements(nest, device), most))
    reduced = nest.role("reduced")[-1]
    parallel = nest.role("parallel")
    if parallel and all(a.window == "taps" for a in nest.role("reduced")):
        yield from _windows(parallel, nest)
        return
    across = next((a for a in reversed(parallel) if a.contiguous), None)
    if across is not None and not reduced.contiguous:
        above = next((a for a in parallel if a.stacked), None) if below else None
        if above is not None and not joins(above.extent, across.extent, 0):  # lines below each other fill the vectors
            for lines in (2048, 1024, 512):
                yield {across.name: _fit(across, 512, LANES), above.name: _fit(above, lines, _sublanes(nest))}
        # Columns: the axis of the result lies along the lanes.
        for lanes, rows in ((512, 512), (256, 512), (1024, 256), (128, 256)):
            yield {across.name: _fit(across, lanes, LANES), reduced.name: _fit(reduced, rows, _sublanes(nest))}
        return
    row = max(parallel, key=_length, default=None)
    for lanes in (_whole(reduced), 8192, 4096, 2048, 1024):
        if lanes is None or (isinstance(reduced.extent, int) and lanes > _round(reduced.extent, LANES)):
            continue
        for part in (1, 2, 4, 16):
            rows = {row.name: _rows_for(row, lanes, elements // part, nest)} if row else {}
            if row is not None and len(parallel) > 1 and not all(isinstance(a.extent, int) for a in nest.axes):
                # They may be the columns of another array, of which blocks have whole rows of lanes.
                rows = {row.name: max(rows[row.name], _fit(row, LANES, LANES))}
            yield {reduced.name: lanes, **rows}


def _held(nest: Nest, device: Device) -> Iterable[Tiles]:
    """Rows, columns beside each other, or a whole matrix."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    if len(held) == 1 and not columns:
        yield from _rows(nest.as_family("rows", held="reduced"), device)
        return
    first, *rest = (a.extent for a in held)
    if not isinstance(first, int) or not all(isinstance(n, int) for n in rest):
        return
    tiles = {held[0].name: _round(first, _sublanes(nest))}
    if len(held) == 2:
        yield {**tiles, held[1].name: _whole(held[1]) or LANES}
        return
    for lanes in (512, 256, 128):
        yield {**tiles, columns[-1].name: _fit(columns[-1], lanes, LANES)}


def joins(outer: Size, inner: Size, inside: int) -> bool:
    """Whether two neighbouring dims of an array with ``inside`` dims behind them may be seen as one.

    In HBM lines lie in tiles of 8 x 128, filled up where they are no whole ones, so elements change places where lines or tiles
    are joined, and XLA unrolls that.  For few short lines, which fill vectors badly otherwise, it is worth it.  On v6e
    170 x 1018 x 15 as 170 x 15270 took 56 s to compile in bf16, and moves 19 times the bytes of the array.  As 173060 x 15 it
    took 8 s, and a product of two such arrays of f32 is estimated at 224 us, at 82 us where they lie as they are.
    """
    if inside > 1 or (isinstance(inner, int) and inner % (SUBLANES if inside else LANES) == 0):
        return True
    few = inner if inside else outer * inner
    return isinstance(few, int) and few <= (_FEW_LINES if inside else _JOINED)


_JOINED = 4096
"""Elements of short lines that are joined at most."""

_FEW_LINES = 512
"""Lines from which on a block has enough of them by itself."""


def _windows(parallel: Sequence[NestAxis], nest: Nest) -> Iterable[Tiles]:
    """Reductions of windows, whose taps are walked inside a step: elements that no window moves along lie on the other side of
    the tile where windows move along the lanes, which take no steps."""
    *outer, last = parallel
    beside = [a for a in outer if a.window != "positions"] if last.window == "positions" else outer
    for lanes, rows in ((512, 128), (256, 64), (128, 32), (128, 8)):
        above = {beside[-1].name: _fit(beside[-1], rows, _sublanes(nest))} if beside else {}
        yield {last.name: _fit(last, lanes, LANES), **above}


def _segments(nest: Nest, device: Device) -> Iterable[Tiles]:
    """Blocks of rows, of which the first and the last hold rows of other segments: small, since most segments are."""
    (walked,), columns = nest.role("walked"), [a for a in nest.role("parallel") if a.contiguous]
    if columns:
        for lanes, rows in ((512, 64), (256, 64), (128, 64), (128, 32)):
            yield {columns[-1].name: _fit(columns[-1], lanes, LANES), walked.name: _fit(walked, rows, _sublanes(nest))}
        return
    for along in (1024, 512, 128):
        yield {walked.name: _fit(walked, along, LANES)}


def _scan(nest: Nest, device: Device) -> Iterable[Tiles]:
    yield from _rows(nest.as_family("rows", scanned="reduced"), device, _RUNNING_ELEMENTS, below=False)


SORTED = 2048
"""Elements of a line that are sorted at once."""


def _sort(nest: Nest, device: Device) -> Iterable[Tiles]:
    """Lines below each other, whole: what a network exchanges are vectors of them.  Columns are loaded by blocks of lanes."""
    whole = {a.name: max(2, _fit(a, SORTED, LANES)) for a in (*nest.role("sorted"), *nest.role("first"))}
    beside = nest.role("parallel")[-1:]
    columns = any(a.contiguous for a in beside) and not any(a.contiguous for a in nest.role("sorted"))
    for lines in (LANES,) if columns else (_sublanes(nest), 1):
        yield {**whole, **{a.name: _fit(a, lines, lines) for a in beside}}


def _contraction(nest: Nest, device: Device) -> Iterable[Tiles]:
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    if "taps" in (a.window for a in (*nest.role("reduced"), k)):
        yield from _convolution(nest)
        return
    for a, b, c in blocks(nest, device):
        yield {m.name: _fit(m, a, _sublanes(nest)), n.name: _fit(n, b, LANES), k.name: _dividing(k, c)}


def _convolution(nest: Nest) -> Iterable[Tiles]:
    """A row of positions in a tile, with all that its windows reach; further rows are an option.  Of wide windows of f32 fewer
    columns are taken at once, since a step is code for all of their weights."""
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    summed = math.prod(a.extent for a in (*nest.role("reduced"), k) if isinstance(a.extent, int))
    exact = dtype(nest.dots or nest.io_dtype).bytes >= 4
    for rows, columns in ((512, 512), (512, 256), (256, 256), (256, 128), (128, 128)):
        if exact and columns > LANES and summed * columns > _WEIGHTS:
            continue
        yield {m.name: _fit(m, rows, _sublanes(nest)), n.name: _fit(n, columns, LANES), k.name: _whole(k) or LANES}


def _attention(nest: Nest, device: Device) -> Iterable[Tiles]:
    (m,), (n,) = nest.role("m"), nest.role("n")
    whole = {a.name: _round(int(a.extent), LANES) for a in (*nest.role("k"), *nest.role("d")) if isinstance(a.extent, int)}
    for a, b in ATTENTION if dtype(nest.dots or nest.io_dtype).bytes < 4 else _EXACT:
        yield {m.name: _fit(m, a, _sublanes(nest)), n.name: _fit(n, b, LANES), **whole}


def _chain(nest: Nest, device: Device) -> Iterable[Tiles]:
    def attention(x: Nest) -> Iterable[Schedule]:
        made = (Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in x.axes), 2, 1) for tiles in _attention(x, device))
        return (s for s in made if vmem_bytes(x, s) <= _USABLE * device.value("vmem_bytes") / 2)

    return (dict(s.tiles) for s in like_attention(nest, attention))


def _pieces(nest: Nest, device: Device) -> tuple[tuple[str, int], ...]:
    """How the steps of attention are cut: pieces that are rows enough for the matrix units to work on while the softmax of
    another one is computed.  f32 keeps the matrix units busy by itself."""
    if dtype(nest.dots or nest.io_dtype).bytes >= 4:
        return (("split", 1),)
    return (("piece", int(device.value("piece_rows"))), ("split", 1))


def block_elements(nest: Nest, device: Device) -> int:
    """Elements of a block of a memory-bound kernel: long copies, and yet enough steps that one is hidden behind the next.

    What is not hidden is the first copy and the last, and every step costs a little by itself: of n elements in blocks of b
    about b + n / b * _STEP_ELEMENTS is lost, the least of which is at the square root.
    """
    room = min(_USABLE * device.value("vmem_bytes") / _element_bytes(nest), _OPERATIONS * SUBLANES * LANES / max(nest.work, 1))
    lengths = [a.extent for a in nest.axes if isinstance(a.extent, int)]
    best = math.sqrt(max(math.prod(lengths), 1) * _STEP_ELEMENTS) if len(lengths) == len(nest.axes) else BLOCK_ELEMENTS
    # The factor is fitted to two arrays; where rows are read and a number of each is written, it is one.
    factor = 2 if (nest.family, nest.live) == ("rows", 2) else 1.4
    return 1 << int(math.log2(min(max(factor * best, _STEP_ELEMENTS), room)))


def _element_bytes(nest: Nest) -> int:
    """VMEM that an element of a block takes: arrays twice, and again what a reduction goes over a second time.

    Elementwise work runs vector by vector and keeps nothing.
    """
    io, compute = dtype(nest.io_dtype).bytes, dtype(nest.compute_dtype).bytes
    return 2 * io * max(nest.live, 2) + compute * {"rows": 1, "held": 1, "scan": 3, "associative": 8}.get(nest.family, 0)


def _sublanes(nest: Nest) -> int:
    """Rows of one native tile of the widest array: 8 of f32, 16 of bf16, 32 of 8-bit types."""
    return SUBLANES * max(1, 4 // dtype(nest.io_dtype).bytes)


def _length(axis: NestAxis) -> float:
    return axis.extent if isinstance(axis.extent, int) else math.inf


def _round(n: int, unit: int) -> int:
    return -(-max(n, 1) // unit) * unit


def _fit(axis: NestAxis, wanted: int, unit: int) -> int:
    """``wanted``, or just enough to cover a shorter axis (whose block is then its exact extent)."""
    if isinstance(axis.extent, int):
        return min(wanted, _round(axis.extent, unit))
    return min(wanted, _OPEN_POSITIONS) if axis.window == "positions" else wanted


def _whole(axis: NestAxis) -> int | None:
    return _round(axis.extent, LANES) if isinstance(axis.extent, int) else None


def _dividing(axis: NestAxis, wanted: int) -> int:
    """A tile that leaves no ragged end, which would have to be masked in both operands, where one is near."""
    if not isinstance(axis.extent, int) or axis.extent <= wanted:
        return _fit(axis, wanted, LANES)
    return next((t for t in range(wanted, wanted // 2 - 1, -LANES) if axis.extent % t == 0), wanted)


def _rows_for(axis: NestAxis, lanes: int, elements: int, nest: Nest) -> int:
    """Rows that make a block of about ``elements`` with ``lanes`` in each."""
    unit = _sublanes(nest)
    rows = max(elements // _round(lanes, LANES), unit)
    # Powers of two: they leave fewer ragged ends, and blocks of one dim that store a number a row are legal from 128 on.
    return _fit(axis, 1 << int(math.log2(rows)), unit)


def vmem_bytes(nest: Nest, schedule: Schedule) -> float:
    """An upper estimate of the VMEM a kernel takes: blocks twice, what is alive in between once.

    Blocks are padded to whole native tiles, as they lie in VMEM.
    """
    io, compute = dtype(nest.io_dtype).bytes, dtype(nest.compute_dtype).bytes
    size = dict(schedule.tiles)

    def area(*axes: NestAxis) -> float:
        tiled = [a for a in axes if size[a.name] > 1]
        if len(tiled) < 2:  # a row is packed densely, save that 16-bit ones take two
            return 2 * _round(size[tiled[0].name], LANES) if tiled else SUBLANES * LANES
        rows = math.prod(size[a.name] for a in tiled[:-1])
        return _round(rows, SUBLANES) * _round(size[tiled[-1].name], LANES)

    rows = int(schedule.option("rows", 1))
    if nest.family in ("contraction", "grouped"):
        (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
        # What follows the product is computed vector by vector, in and out of one tile of results.
        operand = dtype(nest.dots or nest.io_dtype).bytes
        if "taps" in (a.window for a in nest.axes):
            taps = math.prod(a.extent for a in nest.role("reduced") if isinstance(a.extent, int))
            summed = taps * _round(size[k.name], LANES)
            # Every position reaches about as many elements of its own; side by side, its window is all that is summed.
            inside = operand * rows * (2 * area(m, k) + _round(size[m.name], SUBLANES) * summed)
            return inside + 2 * operand * summed * _round(size[n.name], LANES) + 2 * (io + compute) * rows * area(m, n)
        kept = 2 if nest.family == "grouped" else 1  # the product of a group, and the rows of those before
        return 2 * operand * (area(m, k) + area(k, n)) + 2 * (io + kept * compute) * area(m, n)
    if nest.family == "chain":
        (m,), (n,), whole = nest.role("m"), nest.role("n"), [a for role in ("k", "kd", "d") for a in nest.role(role)]
        blocks = sum(2 * area(m, a) + 2 * area(n, a) for a in whole)
        results = sum(2 * area(m, a) for a in whole if a.role != "k")
        return 2 * io * blocks + compute * (results + (nest.live + 1) * area(m, n))
    if nest.family == "attention":
        (m,), (n,), (d,) = nest.role("m"), nest.role("n"), nest.role("d")
        blocks = 2 * area(m, d) + 2 * area(n, d)
        rows = min(size[m.name], m.extent) if isinstance(m.extent, int) else size[m.name]
        piece = int(schedule.option("piece", 0))
        share = piece / rows if piece and rows > piece and rows % piece == 0 else 1.0
        return 2 * io * blocks + compute * (2 * area(m, d) + 3 * area(m, n) * share)
    if nest.family == "sort":  # lines, and as many of their first elements as are asked for, are tiles of their own
        beside = [a for a in nest.axes if a.role not in ("sorted", "first")]
        lines = [a for a in nest.axes if a.role in ("sorted", "first")]
        whole = sum(area(*(x for x in nest.axes if x in beside or x is line)) for line in lines)
        return rows * whole * _element_bytes(nest)
    return rows * area(*nest.axes) * _element_bytes(nest)
