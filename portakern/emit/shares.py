"""Into how many parts long rows and long sums are cut where there are too few of them to keep a device busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, NestAxis, Schedule

ALONE = 16.0
"""Bytes per ns that one block draws from memory: on an H200, 64 blocks of 8 warps that normalised 64 groups of 200,704 elements
(group_norm of 32 x 128 x 56 x 56, bf16) drew 1.0 TB/s together, where 132 could have drawn 4.8."""

BUSY = 2.25
"""Such blocks that a unit needs for its share of the memory's rate (4.8 TB/s over 132 units, by ``ALONE``)."""

FULL = 4
"""Blocks a unit that share rows, where there are as many: so many a unit that each ends with the others, whether it has two or
four at once.  A KL divergence of 16384 x 16384 f32 took an H200 900 us in 297 parts of 132 units, of which each held two at
once, and 634 in 528; 64 sums of a million bf16 took 35.4 in 5 parts each and 32.7 in 8."""

KERNEL_NS = 2500.0
"""What one more kernel takes before and after its work, behind another one."""

SCANNED = 4.5
"""How much longer all units are at a scan in parts than at reading a line: it is read twice and written once.  64 lines of a
million f32, by a block each, took 272 us on an H100, which is no longer than memory needs for three times their bytes."""

LEAST_TILES = 4
"""Tiles of a row that a part has at least."""


def in_parts(schedules: Iterable[Schedule], nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each of ``schedules`` of a ``rows`` or ``scan`` nest, where it pays after one by which several blocks share a row."""
    for schedule in schedules:
        parts = row_parts(nest, device, dict(schedule.tiles)) if _can_share(nest) else 1
        if parts > 1:
            yield replace(schedule, options=tuple(sorted({**dict(schedule.options), "split_k": parts}.items())))
        yield schedule


def _can_share(nest: Nest) -> bool:
    """No windows, whose taps are few; lines of a scan that lie in memory, where no scan takes what another gives."""
    if nest.family == "scan":
        return nest.passes == 1 and (nest.role("scanned")[0].contiguous or not nest.role("parallel"))
    return not nest.of_windows


def row_parts(nest: Nest, device: Device, tiles: Mapping[str, int]) -> int:
    """How many blocks should share the reduced axes of a ``rows`` nest, or the line of a ``scan``, that is tiled as ``tiles``
    says (1: one block walks them).  Each level of reductions becomes two kernels then, and a scan three of which two read the
    line, so the time that idle units would save must be twice what these cost.  Rows whose number or length is open are walked
    by one block."""
    scan = nest.family == "scan"
    walked = nest.role("scanned" if scan else "reduced")
    blocks = prod(_steps(a, tiles) for a in nest.role("parallel"))
    steps = prod(_steps(a, tiles) for a in walked)
    wanted = BUSY * device.count("units", 128)
    if not 0 < blocks < wanted or steps <= 0:
        return 1
    elements = prod(a.extent for a in walked if isinstance(a.extent, int))
    wide = prod(tiles.get(a.name, 1) for a in nest.role("parallel"))
    alone_ns = nest.passes * elements * wide * DTYPES[nest.io_dtype].bytes / ALONE
    saved_ns, kernels = alone_ns * (1 - (SCANNED if scan else 1) * blocks / wanted), 2 if scan else 2 * (nest.passes - 1)
    parts = ceil(wanted / blocks) if scan else max(ceil(wanted / blocks), FULL * device.count("units", 128) // blocks)
    most = min(parts, steps // LEAST_TILES, _steps(axis, tiles) if (axis := nest.divided(tiles)) else 1)
    return max(1, most) if saved_ns > 2 * kernels * KERNEL_NS else 1


def _steps(axis: NestAxis, tiles: Mapping[str, int]) -> int:
    """How many tiles cover an axis, 0 where that is open."""
    return -(-axis.extent // tiles.get(axis.name, 1)) if isinstance(axis.extent, int) else 0


# ---- products with few tiles -----------------------------------------------------------------------------------------------

RATE = {16: 2000.0, 32: 200.0, 64: 100.0}
"""Multiply-adds per ns that one unit does in good tiles, by bits of the operands: half of what an SM of an H100 has for 16 bits
and its FMAs of 32; a CDNA3 unit is near."""

DRAWN = 40.0
"""Bytes per ns that one block of a product draws, whose copies are under way while it multiplies (H200, as ``JOIN_BYTES``)."""

WARPS = 8
"""Warps that keep a unit multiplying."""

JOIN_BYTES = 6000.0
"""Bytes per ns at which parts go to the last-level cache and come back (H200, fitted to products in parts of 10 to 46 us)."""

STEP_NS = 800.0
"""What a step of a convolution waits for its operands with one step of copies under way, less with more.  Blocks of 16 x 32
elements took an H200 0.8 us a step of 32 channels: 72.7 us for 72 steps (2 x 14 x 14 x 256 to 256), 115 for 144, 249 for 288.
"""

GAIN = 0.7
"""Parts must promise to take at most this share of the time of the whole: the model is coarse."""

LATER = 0.02
"""How much slower each schedule is taken to be than the one before it: backends list those first that do best elsewhere."""

MOST_PARTS = 256


def product_in_parts(schedules: Sequence[Schedule], nest: Nest, device: Device) -> Schedule | None:
    """Of ``schedules`` of a product, the best with its sums in parts, where that beats the first of them by far: few tiles, as
    of 256 x 256 elements, leave most units idle, however long their sums are.  A part of a convolution has some of its channels
    and walks all taps: 2 x 7 x 7 x 512 to 512 of f32 took an H200 115 us in 112 blocks, and 24.9 in 16 parts of 8."""
    (m,), (n,), (k,) = (nest.role(r) for r in "mnk")
    if not schedules or not all(isinstance(a.extent, int) and a.extent > 0 for a in nest.axes):
        return None
    taps = () if nest.groups or nest.mapped else nest.role("reduced")
    if len(nest.role("reduced")) > len(nest.groups[:1]) + len(taps) or any(s.option("programs", 0) for s in schedules[:1]):
        return None
    groups = _extent(nest.groups[0]) if nest.groups else 1
    walks = prod(map(_extent, taps))
    units = device.count("units", 128)
    results = [a for a in nest.axes if a is not k and a not in (*nest.groups, *taps)]

    def ns(s: Schedule, parts: int) -> float:
        tile = [s.tile(a.name) for a in (m, n, k)]
        inside = ceil(_extent(k) / tile[2])
        blocks, steps = _blocks(s, nest) * parts, ceil(groups / parts) * inside if nest.groups else walks * ceil(inside / parts)
        each = ceil(blocks / units)  # of one unit, which has several at once
        busy = min(1.0, each * s.warps / WARPS)
        wasted = 1 + 16 * (1 / tile[0] + 1 / tile[1])
        bits = DTYPES[nest.dots or nest.io_dtype].bits
        multiplied = each * prod(tile) * steps * wasted / (RATE[max(16, min(bits, 64))] * busy)
        read = blocks * steps * (tile[0] + tile[1]) * tile[2] * bits / 8 / (DRAWN * min(blocks, units))
        joined = KERNEL_NS + 8 * parts * prod(map(_extent, results)) / JOIN_BYTES if parts > 1 else 0.0
        waited = steps * STEP_NS / max(1, s.stages - 1) if taps else 0.0
        return max(multiplied, read, waited) + joined

    def most(s: Schedule) -> int:
        steps = ceil(_extent(k) / s.tile(k.name))
        if nest.groups:  # of which whole ones are shared out, where each is a step
            steps = groups if steps == 1 or nest.mapped else 1
        return min(MOST_PARTS, steps, walks * steps // LEAST_TILES, ceil(BUSY * units / _blocks(s, nest)))

    usable = [(number, s) for number, s in enumerate(schedules) if nest.shares(s.tile(n.name))]
    cut = [((1 + number * LATER) * ns(s, parts), number, parts)
           for number, s in usable for parts in _numbers(most(s), units / _blocks(s, nest))]  # fmt: skip
    if not cut or min(cut)[0] > GAIN * ns(schedules[0], 1):
        return None
    _, number, parts = min(cut)
    found = schedules[number]
    return replace(found, options=tuple(sorted({**dict(found.options), "split_k": parts}.items())))


def _numbers(most: int, full: float) -> list[int]:
    """Numbers of parts worth a look: powers of two, and what fills the units once or twice."""
    wanted = {1 << i for i in range(1, MOST_PARTS.bit_length())} | {int(full), int(2 * full)}
    return sorted(p for p in wanted if 2 <= p <= most)


# ---- few queries, many keys ------------------------------------------------------------------------------------------------

WALKED = 8.0
"""Bytes of keys and values per ns that one block of a warp walks: 16 KB in 2 us, in decoding with 8192 keys on an H100."""

TOGETHER = 6
"""Most blocks of attention that a unit has at once: each keeps tens of KB of keys and values in shared memory."""


UNEVEN = 8
"""Blocks that a unit takes one after the other where some have little or nothing to walk.  32 sequences of any length up to
8192 keys, on an H200: 318 us by one block for each of their 8 heads, 293 by four."""

MOST_KEY_PARTS = 64
"""Parts of the keys: who joins them takes one after the other."""


def keys_in_parts(schedules: Iterable[Schedule], nest: Nest, device: Device,
                  alone: Callable[[Schedule], bool] = lambda s: False, least_keys: int = 0) -> Iterator[Schedule]:  # fmt: skip
    """``schedules`` of attention.  Before the first one of those with the same options stands the same with its keys in parts,
    where few blocks of queries would leave most of a device idle: a token that is decoded has one for each head of keys,
    however many keys there are.  ``alone`` says of which schedules a unit has one block at a time; a part has ``least_keys``
    or, where that is 0, ``LEAST_TILES``."""
    seen = set()
    for s in schedules:
        if s.options not in seen and (parts := _key_parts(s, nest, device, alone(s), least_keys)) > 1:
            yield replace(s, options=tuple(sorted({**dict(s.options), "split_k": parts}.items())))
        seen.add(s.options)
        yield s


def _key_parts(s: Schedule, nest: Nest, device: Device, alone: bool, least_keys: int = 0) -> int:
    """How many blocks should share the keys of a row; 1 where a size is open, where results are reduced along their features,
    and where queries are more than one tile: their walks may end early or take turns, and how parts of those do has not been
    measured."""
    (m,), (n,), features = nest.role("m"), nest.role("n"), [*nest.role("k"), *nest.role("d")]
    if not all(isinstance(a.extent, int) and a.extent > 0 for a in nest.axes):
        return 1
    if _extent(m) > s.tile(m.name) or nest.passes > 1:
        return 1
    blocks = prod(map(_extent, nest.role("batch")))
    together = (UNEVEN if nest.uneven else 1) if alone else min(TOGETHER, max(1, WARPS // s.warps))
    wanted = device.count("units", 128) * together
    least = max(s.tile(n.name), least_keys) if least_keys else s.tile(n.name) * LEAST_TILES
    parts = min(wanted // blocks, _extent(n) // least, MOST_KEY_PARTS if alone else MOST_PARTS)
    bytes_ = _extent(n) * sum(map(_extent, features)) * DTYPES[nest.io_dtype].bytes
    return parts if parts > 1 and bytes_ / (WALKED * s.warps) * (1 - 1 / parts) > 2 * KERNEL_NS else 1


def _blocks(schedule: Schedule, nest: Nest) -> int:
    return prod(ceil(_extent(a) / schedule.tile(a.name)) for r in ("batch", "m", "n") for a in nest.role(r))


def _extent(axis: NestAxis) -> int:
    assert isinstance(axis.extent, int)
    return axis.extent
