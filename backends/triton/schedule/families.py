"""Which schedules Triton allows for a loop nest, the default first.

Triton's tiles are powers of two, its matrix operands at least 16 wide (:func:`shortest`). The defaults follow
Triton's own tutorials (softmax, matrix multiplication, fused attention) and are then held to the device's shared memory and
registers; tuning has its own command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from portakern.device import Device
from portakern.dtypes import dtype
from portakern.emit.chains import like_attention
from portakern.emit.packing import LINE_BYTES
from portakern.emit.shares import in_parts, keys_in_parts, product_in_parts
from portakern.ir.schedule import Nest, NestAxis, Schedule, Value
from portakern.ir.size import Size

from ..prepare.descriptors import LOADS
from ..prepare.dots import WIDTH, shortest, takes
from . import hopper

OPTIONS = {
    "group_m": "contractions: how many rows of blocks a group walks before the next columns (1: plain row-major order)",
    "descriptors": "products, attention on NVIDIA: 1: arrays read and written through descriptors; 2: only read; 0: neither",
    "pack": "products: which operands (m, n, both, none) are copied to longer rows first if theirs are off cache lines",
    "programs": "products through descriptors: how many programs share the blocks, one after another (0: a program each)",
    "heads": "causal attention: how many heads take turns, their longest walks first (0: one after another)",
    "split": "attention: tiles that every row of a block sees whole are walked apart, without the mask: 1: first, 2: last; "
    "3: in one walk, which asks of each tile",
    "ahead": "attention on Hopper: a step computes the next tile's scores before its weights are multiplied; "
    "2: this product goes on during the next step",
    "at_once": "attention in parts: 1: the kernel that joins them loads all before it joins any",
    "keep": "NVIDIA: lines that loads, stores or both touch stay in the last-level cache as long as it lasts",
    "waves_per_eu": "AMD: wavefronts per SIMD the compiler makes room for (0: its own choice)",
    "maxnreg": "NVIDIA: registers per thread the compiler may use (0: its own choice)",
}

_LONGEST_ROW = 16384
"""Elements of a row kept in registers by one block; longer rows are walked."""


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    """The schedule space of ``nest`` on ``device``, default first, without those that cannot fit.

    It is empty for attention and chains whose rows are too long for any: those are lowered apart.
    """
    families = {"elementwise": _elementwise, "transpose": _transpose, "rows": _rows, "held": _held, "segments": _segments,
                "scan": _scan, "associative": _scan, "sort": _sort, "contraction": _contraction, "grouped": _grouped,
                "attention": _attention, "chain": _chain}  # fmt: skip
    found = list(families[nest.family](nest, device))
    if nest.family in ("rows", "scan"):
        found = list(in_parts(found, nest, device))
    if nest.family == "attention":
        found = list(keys_in_parts(found, nest, device, least_keys=_LEAST_KEYS if device.has("wgmma") else 0))
    by_model = nest.family == "contraction" and takes(device, nest.dots) and hopper.paced(nest, device)
    if nest.family == "contraction" and not by_model and (parts := product_in_parts(found, nest, device)) is not None:
        found.insert(0, parts)
    if nest.steps != 1 and device.vendor == "NVIDIA":
        found = [replace(s, stages=_stages_of_steps(nest, device, s)) for s in found]
    kept = [s for s in found if _fits(nest, device, s)]
    return tuple(dict.fromkeys(kept or (() if nest.family in ("attention", "chain") else found[-1:])))


def _stages_of_steps(nest: Nest, device: Device, s: Schedule) -> int:
    """Stages of a loop of steps that wait for each other: what a step reads is on its way to shared memory before it comes, as
    far as there is room.  Of a state-space model of 8 x 2048 x 2048 with 16 numbers a lane an H200 took 2402 us without, 911
    with three stages and 716 with four; with six 700."""
    tiles = [s.tile(a.name) for a in nest.axes]
    whole = max(0, nest.live - 2) if nest.family == "held" else nest.live
    each = (whole * prod(tiles) + nest.live * sum(tiles)) * dtype(nest.io_dtype).bytes
    return next((n for n in (4, 3) if n * each <= device.count("shared_bytes_per_block")), 1)


def pow2(extent: Size, most: int, least: int = 1) -> int:
    """The smallest power of two that covers ``extent``, at most ``most``; open extents count as long."""
    if not isinstance(extent, int):
        return most
    return max(least, min(most, 1 << max(extent - 1, 0).bit_length()))


def _schedule(nest: Nest, tiles: dict[str, int], stages: int, warps: int, **options: Value) -> Schedule:
    return Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in nest.axes), stages, warps, tuple(sorted(options.items())))


def _warps(elements: int, device: Device, per_lane: int = 8) -> int:
    """Warps that leave each lane about ``per_lane`` elements: a power of two from 1 to 16."""
    warps = pow2(max(1, elements // (per_lane * device.count("subgroup"))), 16)
    return max(1, min(warps, device.count("threads_per_block") // device.count("subgroup")))


def _kept(device: Device, what: str) -> dict[str, Value]:
    """Lines just read or written outlast older ones where the device takes the hint: what is written then goes to memory
    later and in one piece (H200: 2.5% of what streams through)."""
    return {"keep": what} if device.vendor == "NVIDIA" else {}


# ---- families --------------------------------------------------------------------------------------------------------


def _elementwise(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Blocks of consecutive elements; a second axis fills the block where the last one is short.  Of few elements, as where
    parts are joined, small blocks first, so that all units are at work."""
    if nest.joins >= _JOINED_AT_ONCE and device.has("wgmma"):
        yield from _join(nest)
    known = [a.extent for a in nest.role("parallel") if isinstance(a.extent, int)]
    few = len(known) == len(nest.role("parallel")) and 0 < prod(known) < 4096 * device.count("units", 0)
    for elements in (*((256,) if few else ()), 4096, 2048, 1024, 8192):
        tiles: dict[str, int] = {}
        left = elements
        for axis in list(reversed(nest.role("parallel")))[:2]:
            tiles[axis.name] = pow2(axis.extent, left)
            left = max(1, left // tiles[axis.name])
        yield _schedule(nest, tiles, 1, _warps(elements // left, device, 16), **_kept(device, "both"))


_JOINED_AT_ONCE = 8
"""Parts from which on they are loaded all before any is joined, as far as they fit: 32 parts of 8 x 4 rows of 128 features took
18.6 us with their walk, and one after the other 25.9 (H200)."""


def _join(nest: Nest) -> Iterator[Schedule]:
    """A program for each row, with all parts of it."""
    last = nest.role("parallel")[-1]
    elements = pow2(last.extent, 1 << 20) * pow2(nest.joins, 1 << 20)
    if elements <= 1 << 14:
        yield _schedule(nest, {last.name: pow2(last.extent, 1 << 20)}, 1, pow2(elements // 1024, 8), at_once=1, keep="both")


def _transpose(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Square blocks, contiguous both in the source and in the target."""
    for rows, cols, warps in ((64, 64, 4), (64, 128, 8), (32, 32, 2), (128, 64, 8)):
        (source,), (target,) = nest.role("source"), nest.role("target")
        tiles = {source.name: pow2(source.extent, rows), target.name: pow2(target.extent, cols)}
        for axis, other in ((source, target), (target, source)):  # a short side leaves room for the other
            tiles[axis.name] = pow2(axis.extent, rows * cols // tiles[other.name])
        yield _schedule(nest, tiles, 1, warps, **_kept(device, "stores"))


def _rows(nest: Nest, device: Device) -> Iterator[Schedule]:
    reduced, parallel = nest.role("reduced")[-1], nest.role("parallel")
    columns = [a for a in parallel if a.contiguous]
    if columns and nest.of_windows:
        yield from _windows(nest, columns[-1], device)
        return
    if not columns and (line := nest.along_lines) is not None:
        yield from _lines(nest, line, device)
        return
    if columns:
        yield from _columns(nest, device, columns[-1], reduced)
        return
    longest = _LONGEST_ROW if nest.live <= 3 else _LONGEST_ROW // 2
    if isinstance(reduced.extent, int) and reduced.extent <= longest:
        row = pow2(reduced.extent, longest)
        for block in (2048, 4096, 1024):
            tiles = {reduced.name: row}
            if parallel:
                rows = max(1, block // row)
                tiles[parallel[-1].name] = pow2(parallel[-1].extent, rows)
            warps = _warps(max(row, block), device, 8 if row < 4096 else 16)
            yield _schedule(nest, tiles, 1, warps, **_kept(device, "both"))
    for step in (4096, 2048, 8192, 1024):
        yield _schedule(nest, {reduced.name: pow2(reduced.extent, step)}, 2, _warps(step, device, 16))


def _held(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Rows, or columns beside each other or a matrix in the registers of a program: few warps, since all of them wait for each
    other."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    if len(held) == 1 and not columns:
        yield from _rows_of_warps(nest, device)
        yield from _rows(nest.as_family("rows", held="reduced"), device)
        return
    tiles = {a.name: pow2(a.extent, _LONGEST_ROW) for a in held}
    tiles |= {a.name: pow2(a.extent, 32) for a in columns[-1:] if len(held) == 1}
    elements = prod(tiles.values())
    if elements <= _LONGEST_ROW:
        for per_lane in (64, 32, 16):  # balancing 64 x 64: 131, 183 and 456 us (H200)
            yield _schedule(nest, tiles, 1, _warps(elements, device, per_lane), **_kept(device, "both"))


_ENOUGH_PROGRAMS = 3
"""Programs of one warp for a unit, from which on there are enough of them where steps wait for each other."""


def _rows_of_warps(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Rows that one warp has to itself, 8 elements to a lane of short ones, 16 of longer ones; fewer rows, until all units have
    work.  The delta rule of 32 heads, 4096 steps and 128 features took 1649 us on an H200, by 16 rows for eight warps 2204."""
    (held,), parallel = nest.role("held"), nest.role("parallel")
    if not held.contiguous or not isinstance(held.extent, int) or held.extent > _LONGEST_ROW:
        return
    row = pow2(held.extent, _LONGEST_ROW)
    tiles = {held.name: row}
    if parallel:
        *outer, last = parallel
        rows = pow2(last.extent, max(1, (256 if row < 64 else 512) // row))
        beside = prod(a.extent for a in outer if isinstance(a.extent, int))
        enough = _ENOUGH_PROGRAMS * device.count("units", 0)
        while isinstance(last.extent, int) and rows > 1 and -(-last.extent // rows) * beside < enough:
            rows //= 2
        tiles[last.name] = rows
    yield _schedule(nest, tiles, 1, _warps(row, device, 32), **_kept(device, "both"))


def _windows(nest: Nest, column: NestAxis, device: Device) -> Iterator[Schedule]:
    """Positions of windows beside what is contiguous; several neighbouring results in one walk along the taps."""
    rows = nest.beside(column)
    for elements, slide, warps in ((2048, 4, 8), (2048, 8, 8), (1024, 4, 4), (1024, 8, 4), (2048, 1, 4)):
        tiles = {column.name: pow2(column.extent, 128)}
        if rows is not None:
            tiles[rows.name] = pow2(rows.extent, elements // tiles[column.name])
        count = nest.slide(slide)
        yield _schedule(nest, tiles, 1, warps, **({"slide": count} if count > 1 else {}), **_kept(device, "both"))


def _lines(nest: Nest, line: NestAxis, device: Device) -> Iterator[Schedule]:
    """Windows along lines of memory."""
    for elements, warps in ((1024, 4), (2048, 8), (512, 4)):
        yield _schedule(nest, nest.line_tiles(line, elements), 1, warps, **_kept(device, "both"))


def _columns(nest: Nest, device: Device, column: NestAxis, reduced: NestAxis) -> Iterator[Schedule]:
    """The reduced axis is not contiguous: blocks as wide as a few cache lines walk down it.

    Of sums alone a thread holds so few elements that it carries a tile for each (:mod:`portakern.emit.partials`); what is
    joined in every step, as by softmax and variances, has many (variance of 100000 x 300 bf16 on an H200: 36 us, 160 by tiles
    of 32 rows and eight warps; softmax of 64 x 1001 x 300 along its rows: 58 us, 151).
    """
    often = [(64, 128, 4)] if nest.again or nest.passes > 2 else [(64, 32, 8), (64, 64, 8)]
    for wide, deep, warps in (*often, (64, 64, 4), (128, 32, 4), (32, 128, 4), (128, 64, 8)):
        yield _schedule(nest, {column.name: pow2(column.extent, wide), reduced.name: pow2(reduced.extent, deep)}, 2, warps)


@dataclass(frozen=True)
class _Shape:
    m: int
    n: int
    k: int
    warps: int
    stages: int


def _blocks(device: Device, half: bool) -> tuple[_Shape, ...]:
    """Preferred block shapes of a matrix product; ``half``: 16-bit or narrower operands."""
    if not half:  # full-precision products run on the vector units of NVIDIA and on slow matrix units of AMD
        return (_Shape(64, 64, 32, 4, 2), _Shape(128, 64, 16, 8, 2), _Shape(128, 128, 16, 8, 2), _Shape(32, 32, 32, 4, 2),
                _Shape(16, 16, 16, 4, 1))  # fmt: skip
    small = (_Shape(128, 128, 32, 8, 3), _Shape(64, 64, 64, 4, 3), _Shape(64, 64, 32, 4, 2), _Shape(32, 32, 32, 4, 2))
    if device.has("wgmma") or device.has("tcgen05"):
        # None below what a warpgroup multiplies: 512 x 512 x 8192 took 293 us by 32 x 32 on an H100, and 20 by 128 x 128.
        return (_Shape(128, 256, 64, 8, 3), _Shape(256, 128, 64, 8, 4), _Shape(128, 128, 64, 4, 3), _Shape(64, 128, 128, 4, 3),
                *small[:-1])  # fmt: skip
    if device.has("mfma"):
        return (_Shape(256, 256, 32, 8, 2), _Shape(256, 128, 64, 8, 2), _Shape(128, 128, 64, 4, 2), *small)
    return (_Shape(128, 128, 32, 4, 4), _Shape(128, 128, 64, 8, 3), _Shape(128, 64, 32, 4, 4), *small)


def _segments(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each lane goes down a column of its own; a line is walked in short pieces, since most segments are short."""
    (walked,), columns = nest.role("walked"), [a for a in nest.role("parallel") if a.contiguous]
    if columns:
        for wide in (128, 64, 256):
            tiles = {columns[-1].name: pow2(columns[-1].extent, wide)}
            yield _schedule(nest, tiles, 1, _warps(tiles[columns[-1].name], device, 1))
        return
    for along in (64, 256, 1024):
        yield _schedule(nest, {walked.name: along}, 1, _warps(along, device, 2))


def _scan(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Lines that are contiguous as rows; others side by side, each lane going down its own."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        yield from _rows(nest.as_family("rows", scanned="reduced"), device)
        return
    for wide in (128, 64, 256):
        tiles = {parallel[-1].name: pow2(parallel[-1].extent, wide)}
        yield _schedule(nest, tiles, 1, _warps(tiles[parallel[-1].name], device, 1))


SORTED = 2048
"""Elements of a line that are sorted at once."""


def _sort(nest: Nest, device: Device) -> Iterator[Schedule]:
    """A line for a program, about four elements to a lane."""
    tiles = {a.name: pow2(a.extent, SORTED, 2) for a in (*nest.role("sorted"), *nest.role("first"))}
    for per_lane in (4, 8, 2):
        yield _schedule(nest, tiles, 1, _warps(tiles[nest.role("sorted")[0].name], device, per_lane))


def _described(nest: Nest, device: Device) -> dict[str, Value]:
    """Tensor descriptors where the copy engine feeds matrix units straight from shared memory."""
    return {"descriptors": 1} if device.has("tma") and dtype(nest.dots).bits <= 16 else {}


_SUMMED = (_Shape(32, 32, 8, 8, 1), _Shape(16, 16, 16, 4, 1), _Shape(16, 16, 4, 4, 1))
"""Products of elements that lanes hold all at once, where ``tl.dot`` does not take the operands."""


def _contraction(nest: Nest, device: Device) -> Iterator[Schedule]:
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    depth = shortest(device, nest.dots)
    if not takes(device, nest.dots):
        for b in _SUMMED:
            tiles = {m.name: pow2(m.extent, b.m, WIDTH), n.name: pow2(n.extent, b.n, WIDTH), k.name: pow2(k.extent, b.k, depth)}
            yield _schedule(nest, tiles, b.stages, b.warps)
        return
    if hopper.paced(nest, device):
        yield from _paced(nest, device)
        return
    blocks = _blocks(device, dtype(nest.dots).bits <= 16)
    options = _described(nest, device)
    pack = _worth_packing(nest, device) if options else ""
    if pack:
        options |= {"pack": pack}
        if m.extent * n.extent < 64 * 128 * device.count("units", 0):  # type: ignore[operator]
            blocks = (_Shape(64, 128, 64, 4, 4),)  # smaller ones would read the copies too often
    elif options and not _multiples(nest, 16, n, k):
        blocks = (_Shape(128, 128, 64, 8, 3), *blocks[2:])  # rows off 16 bytes are loaded element by element
    batch = 1
    for axis in nest.role("batch"):
        batch *= axis.extent if isinstance(axis.extent, int) else 1
    units = device.count("units", 0)  # known of products, not of instruction sets
    if options and isinstance(m.extent, int) and m.extent <= 16:
        # One operand is read once: many small copies on the way keep the memory busy.
        tiles = {m.name: WIDTH, n.name: pow2(n.extent, 64, WIDTH), k.name: pow2(k.extent, 64, depth)}
        yield _schedule(nest, tiles, 8, 4, descriptors=0)
    made = []
    for b in blocks:
        step = nest.step(pow2(k.extent, b.k, depth), depth)
        tiles = {m.name: pow2(m.extent, b.m, WIDTH), n.name: pow2(n.extent, b.n, WIDTH), k.name: step}
        warps = max(1, min(b.warps, tiles[m.name] * tiles[n.name] // 1024))
        count = batch * _count(m.extent, tiles[m.name]) * _count(n.extent, tiles[n.name])
        walked = bool(options) and b.m <= b.n and 0 < units < count and _even(count, units) and _multiples(nest, 16, n)
        more: dict[str, Value] = {"programs": units} if walked else {}
        if options and not pack and count <= units and _multiples(nest, 16, n) and not _multiples(nest, LINE_BYTES, n):
            more = {"descriptors": LOADS}  # one block each, rows off lines: threads write them sooner (1000^3 on an H200: 1%)
        group = 8 if b.m <= b.n else 4 if pack else 2
        schedule = _schedule(nest, tiles, min(b.stages, 3) if walked else b.stages, warps, group_m=group, **{**options, **more})
        # A first wave that leaves units idle costs more than a smaller block; at ragged ends tall blocks did better than wide.
        made.append((count < _FULL * (units or 100), b.m < b.n and 0 < units < count and not walked, schedule))
    yield from (s for *_, s in sorted(made, key=lambda x: x[:2]))


def _paced(nest: Nest, device: Device) -> Iterator[Schedule]:
    (m,), (n,) = nest.role("m"), nest.role("n")
    options, blocks = _described(nest, device), hopper.BLOCKS
    if pack := _worth_packing(nest, device):
        options |= {"pack": pack}
        if m.extent * n.extent < 64 * 128 * device.count("units", 132):  # type: ignore[operator]
            blocks = (hopper.Block(64, 128, 64, 4, 4, 0.8),)  # smaller ones would read the copies too often
    elif not _multiples(nest, 16, n, nest.role("k")[0]):
        blocks = hopper.ELEMENTWISE
    if m.extent <= hopper.FEW_ROWS:  # type: ignore[operator]
        yield from hopper.few_rows(nest, device, options)
    yield from hopper.fastest(nest, device, blocks, options)


def _grouped(nest: Nest, device: Device) -> Iterator[Schedule]:
    """As a product, without tensor descriptors and programs that take several blocks."""
    for s in _contraction(nest.as_family("contraction", group="reduced"), device):
        yield Schedule(s.tiles, s.stages, s.warps)


_FULL = 0.95
"""The share of units at work from which on a wave of blocks counts as full."""


_LEAST_PACKED = 1 << 26
"""Multiply-adds from which rows off 16 bytes are packed: below, the copies cost more than loads element by element."""


def _worth_packing(nest: Nest, device: Device) -> str:
    """Which operands are copied first where their rows do not begin on cache lines ('' where none is): both where the copy
    engine cannot take them; that of the rows, of which tall blocks read more, where both together do not fit into the
    last-level cache, so that each line too many comes from memory."""
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    if not (isinstance(m.extent, int) and isinstance(n.extent, int) and isinstance(k.extent, int)):
        return ""
    if not _multiples(nest, 16, n, k):
        return "both" if m.extent * n.extent * k.extent >= _LEAST_PACKED else ""
    read = (m.extent + n.extent) * k.extent * dtype(nest.dots).bytes
    return "m" if not _multiples(nest, LINE_BYTES, n, k) and 0 < device.count("last_level_cache", 0) < read else ""


def _multiples(nest: Nest, of: int, *axes: NestAxis) -> bool:
    """Whether rows along each of the axes are multiples of so many bytes."""
    return all(isinstance(a.extent, int) and a.extent * dtype(nest.dots).bytes % of == 0 for a in axes)


def _even(count: int, units: int) -> bool:
    """Whether blocks dealt out in advance end at about the same time: then programs that take several each store one block
    while they load the next.  Elsewhere units take the next block when they are done, since those at a ragged end are short."""
    return count >= _FULL * units * -(-count // units)


def _count(extent: Size, tile: int) -> int:
    return -(-extent // tile) if isinstance(extent, int) else 1 << 20


def _attention(nest: Nest, device: Device) -> Iterator[Schedule]:
    (m,), (n,), (k,), (d,) = (nest.role(r) for r in ("m", "n", "k", "d"))
    scores = nest.scores or nest.dots
    if not (takes(device, scores) and takes(device, nest.dots)):
        return
    half = max(dtype(scores).bits, dtype(nest.dots).bits) <= 16
    whole = {k.name: pow2(k.extent, 1 << 20, shortest(device, scores)), d.name: pow2(d.extent, 1 << 20, WIDTH)}
    wide = max(whole.values())
    shapes = ((128, 64, 8, 2), (128, 128, 8, 2), (64, 64, 4, 2), (128, 64, 4, 3), (64, 32, 4, 2), (32, 32, 4, 1),
              (16, 16, 4, 1))  # fmt: skip
    if not half:
        # Vector units keep whole rows of both operands in registers: more lanes, so that none spills.
        shapes = ((64, 32, 8, 1), (32, 32, 8, 1), (16, 16, 8, 1), (16, 16, 4, 1))[(wide > 64) + (wide > 128) :]
    elif device.has("wgmma"):
        # 128x64 by one warpgroup in two stages leaves room for two blocks a unit: one computes weights while the other
        # multiplies, and no warpgroup waits for another.
        shapes = ((128, 64, 4, 2), shapes[0], (128, 128, 8, 3), *shapes[1:])[5 * (wide > 128) :]
    elif wide > 128:
        shapes = shapes[2:]
    if half and device.has("wgmma"):
        yield from _ahead(nest, device, whole)
        picked = nest.uneven or any(a.picks for a in nest.role("n"))  # pages: not measured
        if isinstance(m.extent, int) and m.extent <= 32 and wide <= 128 and not picked:
            shapes = ((32, min(256, _STEP // wide), 4, 2), *shapes)
    for rows, keys, warps, stages in shapes:
        tiles = {m.name: pow2(m.extent, rows, WIDTH), n.name: pow2(n.extent, keys, shortest(device, nest.dots)), **whole}
        # ptxas serialises matrix instructions whose sums go on into a second walk: the long walk comes last.
        apart: dict[str, Value] = {"split": 2 if device.has("wgmma") else 1} if tiles[m.name] % tiles[n.name] == 0 else {}
        lanes = min(warps, max(4, tiles[m.name] // 16)) if half else warps
        yield _schedule(nest, tiles, stages, lanes, heads=8, **apart, **_described(nest, device))


_SHORT_WALK = 128
"""Keys up to which many small blocks are faster than two large ones: of 256 features 44 us by 64 x 32, and 52 by 128 x 64, for
512 heads of 128 rows (H200)."""


_STEP = 1 << 14
"""Elements of the keys of a step where few rows walk: 128 keys of 128 features or 256 of 64 keep enough on the way, for which
one step of them after another is the best of 20 to 30 schedules in seven of eight decodings (H200)."""

_LEAST_KEYS = 256
"""Keys that a part has at least."""


_LONG_WALK = 1000
"""Keys from which on steps of 128 are better than of 64 where all rows see all of them, of 64 features: 288 us for 312 of 4096
keys, 64 for 67 of 1023, but 112 for 109 of 777 and 40 for 34 of 256 (H200)."""


def _ahead(nest: Nest, device: Device, whole: dict[str, int]) -> Iterator[Schedule]:
    """Of many rows: the next scores before the product of these weights.  Where blocks are small enough for several of them to
    share a unit, one multiplies while another computes weights; else a block does both at once."""
    (m,), (n,) = nest.role("m"), nest.role("n")
    few = isinstance(m.extent, int) and m.extent <= 64
    wide = max(whole.values())
    if few or (wide > 128 and isinstance(n.extent, int) and n.extent <= _SHORT_WALK):
        return
    rows, keys, warps, at_once = (64, 64, 4, 1) if wide <= 64 else (128, 64, 4, 1) if wide <= 128 else (128, 64, 8, 2)
    if wide <= 64 and not nest.bounded and (not isinstance(n.extent, int) or n.extent >= _LONG_WALK):
        keys = 128
    tiles = {m.name: rows, n.name: pow2(n.extent, keys, shortest(device, nest.dots)), **whole}
    yield _schedule(nest, tiles, 2, warps, heads=_heads(nest, whole), split=3, ahead=at_once, **_described(nest, device))


TURNS_BYTES = 20 << 20
"""Keys and values of the heads that take turns, which stay in the last-level cache.  On an H200 512 and 1024 rows were 2 to 5%
faster by 32 heads than by 8 (64 and 128 features), and 2048 of 256 features 1% slower."""


def _heads(nest: Nest, whole: dict[str, int]) -> int:
    (n,) = nest.role("n")
    if not isinstance(n.extent, int) or n.extent <= 0:
        return 8
    each = n.extent * sum(whole.values()) * dtype(nest.dots).bytes
    return max(8, min(256, 1 << max(0, (TURNS_BYTES // each).bit_length() - 1)))


def _chain(nest: Nest, device: Device) -> Iterator[Schedule]:
    """As attention; on NVIDIA by two warps for each of its ones, since tiles of all inner products are alive at once, and with
    the tiles that are not masked apart.  Gradients of causal attention (B=4, H=8, G=4, 4096 queries and keys, bf16) took 4572
    us on an H200 so, 6159 with all tiles masked; of 128 features 6705 and 7460."""
    fitting = like_attention(nest, lambda x: (s for s in _attention(x, device) if _fits(x, device, s)))
    apart = (("split", 1),)
    return (replace(s, warps=min(8, 2 * s.warps), options=apart) if device.vendor == "NVIDIA" else s for s in fitting)


# ---- limits ----------------------------------------------------------------------------------------------------------


def _fits(nest: Nest, device: Device, s: Schedule) -> bool:
    """Whether operands fit in shared memory and accumulators in registers, as far as can be told before compiling."""
    lanes = s.warps * device.count("subgroup")
    if lanes > device.count("threads_per_block"):
        return False
    if nest.family not in ("contraction", "grouped", "attention"):
        return True
    size = dtype(nest.dots).bytes
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    tm, tn, tk = s.tile(m.name), s.tile(n.name), s.tile(k.name)
    # AMD's pipeliner keeps one stage fewer in LDS than NVIDIA's asynchronous copies do in shared memory.
    copies = max(1, s.stages - (1 if device.vendor == "AMD" else 0))
    if nest.family in ("contraction", "grouped"):
        shared, accumulators = (tm * tk + tk * tn) * size * copies, tm * tn
        accumulators *= 2 if nest.family == "grouped" else 1  # the product of a group, and the rows of those before
        stored = dtype(nest.stored or nest.dots).bytes
        # The block that is stored while the next one is loaded; Triton 3.6 keeps one wider than the operands beside them, too
        # (an LSTM's gates in f32: 327,712 bytes for 4 stages of 256 x 128 x 64 on an H200).
        if s.option("programs", 0) or (stored > size and device.vendor == "NVIDIA"):
            shared += tm * tn * stored
    else:
        td = s.tile(nest.role("d")[0].name)
        weights = 0 if device.has("wgmma") else tm * tn  # elsewhere the weights go through shared memory
        first = tn * tk if s.option("ahead", 0) == 2 else 0  # keys of the first tile, which no step loads
        shared = (tm * tk + (tk + td) * tn * copies + first + weights) * size
        accumulators = tm * td + tm * tn + tm * tn * size // 4
    per_lane = accumulators / lanes
    registers = min(256, device.count("registers_per_thread"))
    # Operands of wgmma lie in shared memory, so that sums may take almost all registers.
    most = 0.9 if device.has("wgmma") else 0.75
    return shared <= device.count("shared_bytes_per_block") and per_lane <= registers * most
