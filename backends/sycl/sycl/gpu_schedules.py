"""The schedules SYCL allows on an Intel GPU, default first.

A lane has 128 registers of 32 bits (of which about half may hold tiles), a work-group at most 64 sub-groups of 16.
Sizes are powers of two, as the layouts in ``pk/gpu/layout.hpp`` spread best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from portakern.device import Device
from portakern.dtypes import dtype
from portakern.emit.chains import like_attention
from portakern.ir.schedule import Nest, NestAxis, Schedule

from ..opencl.schedules import SORTED

_LANES = 16
_TILE_REGISTERS = 64


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    return list(dict.fromkeys(_FAMILIES[nest.family](nest, device)))


def _up(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _fit(axis: NestAxis, most: int, least: int = 1) -> int:
    """A power of two that covers the axis, between ``least`` and ``most``."""
    return max(least, min(most, _up(axis.extent))) if isinstance(axis.extent, int) else most


def _schedule(nest: Nest, warps: int, **chosen: int) -> Schedule:
    return Schedule(tuple((a.name, chosen.get(a.name, 1)) for a in nest.axes), stages=1, warps=warps)


def _max_sub_groups(device: Device) -> int:
    return device.count("threads_per_block", 1024) // _LANES


def _elementwise(nest: Nest, device: Device) -> Iterator[Schedule]:
    *outer, last = nest.role("parallel")
    for warps, per_lane in ((16, 8), (16, 4), (8, 8), (32, 8)):
        count = warps * _LANES * per_lane
        chosen = {last.name: _fit(last, count)}
        if outer and chosen[last.name] < count:
            chosen[outer[-1].name] = _fit(outer[-1], count // chosen[last.name])
        yield _schedule(nest, warps, **chosen)


def _transpose(nest: Nest, device: Device) -> Iterator[Schedule]:
    pair = [*nest.role("source"), *nest.role("target")]
    for side, warps in ((32, 8), (64, 16), (16, 4)):
        yield _schedule(nest, warps, **{a.name: _fit(a, side) for a in pair})


def _rows(nest: Nest, device: Device) -> Iterator[Schedule]:
    reduced, parallel = nest.role("reduced"), nest.role("parallel")
    walked = reduced[-1]
    beside = next((a for a in parallel if a.contiguous), None)
    if beside is not None and not walked.contiguous:
        for rows, cols, warps in ((16, 64, 8), (32, 64, 16), (8, 128, 8)):
            yield _schedule(nest, warps, **{walked.name: _fit(walked, rows), beside.name: _fit(beside, cols)})
        return
    budget = max(4, _TILE_REGISTERS // max(2, nest.live))
    most = _max_sub_groups(device)
    if isinstance(walked.extent, int) and _up(max(walked.extent, 1)) <= most * _LANES * budget:
        cols = _up(max(walked.extent, 1))
        for per_lane in (8, 16, 4):
            warps = min(most, max(8, _up(cols // (_LANES * min(per_lane, budget)))))
            rows = max(1, warps * _LANES * min(per_lane, budget) // cols)
            chosen = {walked.name: cols}
            if parallel and rows > 1:
                chosen[parallel[-1].name] = _fit(parallel[-1], min(rows, 32))
            yield _schedule(nest, warps, **chosen)
    for cols, warps in ((2048, 16), (4096, 32), (1024, 8)):
        yield _schedule(nest, warps, **{walked.name: _fit(walked, cols)})


def _held(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Rows, or columns beside each other or a matrix in the registers of a work-group."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    if len(held) == 1 and not columns:
        yield from _rows(nest.as_family("rows", held="reduced"), device)
        return
    most, budget = _max_sub_groups(device), max(4, _TILE_REGISTERS // max(2, nest.live))
    chosen = {a.name: _fit(a, most * _LANES * budget) for a in held}
    chosen |= {a.name: _fit(a, 2 * _LANES) for a in columns[-1:] if len(held) == 1}
    least = _up(-(-prod(chosen.values()) // (_LANES * budget)))
    for warps in (least, 2 * least, 4 * least):
        if warps <= most:
            yield _schedule(nest, warps, **chosen)


# m, n, k, sub-groups: the accumulator takes m n / (16 sub-groups) registers of a lane.
_PRODUCTS = ((128, 128, 32, 16), (64, 128, 32, 8), (64, 64, 32, 8), (128, 64, 32, 8), (32, 64, 32, 4), (64, 32, 32, 4),
             (32, 32, 32, 4), (16, 64, 32, 4), (16, 32, 32, 2), (8, 32, 32, 2), (8, 16, 32, 1))  # fmt: skip


def _contraction(nest: Nest, device: Device) -> Iterator[Schedule]:
    m, n, k = (nest.role(r)[0] for r in "mnk")
    narrow = dtype(nest.dots or "bf16").bytes == 2
    fits: list[tuple[bool, Schedule]] = []
    for tm, tn, tk, warps in _PRODUCTS:
        depth = tk if narrow else 16
        covers = _covers(m, tm) and _covers(n, tn)
        fits.append((covers, _schedule(nest, warps, **{m.name: tm, n.name: tn, k.name: depth})))
    yield from (s for good, s in fits if good)
    yield from (s for good, s in fits if not good)


def _covers(axis: NestAxis, tile: int) -> bool:
    """Whether a tile wastes at most half of itself on the axis."""
    return not isinstance(axis.extent, int) or tile <= max(16, _up(axis.extent))


_FEATURES = 256
"""Of queries and of values, which a block has as a whole."""


def _attention(nest: Nest, device: Device) -> Iterator[Schedule]:
    m, n, k, d = (nest.role(r)[0] for r in "mnkd")
    if any(isinstance(x.extent, int) and x.extent > _FEATURES for x in (k, d)):  # two products then, and a softmax
        return
    deep, wide = (_fit(x, _FEATURES, 16) for x in (k, d))
    element = dtype(nest.dots or "bf16").bytes
    found: list[tuple[bool, Schedule]] = []
    for rows, keys, warps in _ATTENTION:
        registers = rows * (2 * keys + 2 * wide) // (warps * _LANES)
        local = element * (rows * deep + keys * deep + keys * wide + rows * keys) + 4 * rows * 4
        fragments = rows // 8 * min(keys, wide) // 16
        if local > device.count("shared_bytes_per_block") or warps > fragments or registers > 160:
            continue
        good = _covers(m, rows) and registers <= 2 * _TILE_REGISTERS
        found.append((good, _schedule(nest, warps, **{m.name: rows, n.name: keys, k.name: deep, d.name: wide})))
    yield from (s for good, s in found if good)
    yield from (s for good, s in found if not good)


def _chain(nest: Nest, device: Device) -> Iterator[Schedule]:
    return like_attention(nest, lambda x: _attention(x, device))


# Query rows, keys a step, sub-groups.
_ATTENTION = ((64, 64, 16), (64, 32, 16), (32, 32, 8), (32, 64, 16), (32, 64, 8), (16, 64, 8), (16, 32, 4), (8, 16, 1),
              (8, 32, 2))  # fmt: skip


def _scan(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Lines that are contiguous as rows; others side by side, each lane going down its own."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        yield from _rows(nest.as_family("rows", scanned="reduced"), device)
        return
    yield from _side_by_side(nest, device)


def _segments(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each lane goes down a column of its own; a line is walked by a sub-group, since most segments are short."""
    (walked,), columns = nest.role("walked"), [a for a in nest.role("parallel") if a.contiguous]
    if columns:
        for cols, warps in ((128, 8), (64, 4), (256, 16)):
            yield _schedule(nest, warps, **{columns[-1].name: _fit(columns[-1], cols)})
        return
    for along, warps in ((16, 1), (64, 1), (256, 4), (1024, 16)):
        yield _schedule(nest, warps, **{walked.name: along})


def _side_by_side(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each lane goes down a line of its own.  So do scans by functions of the operator's own, contiguous ones too: the CPU's
    runtime, which these kernels are checked with, has miscompiled scans of structs in a sub-group."""
    parallel = nest.role("parallel")
    if not parallel:
        yield _schedule(nest, 1)
        return
    for cols, warps in ((128, 8), (64, 4), (256, 16)):
        yield _schedule(nest, warps, **{parallel[-1].name: _fit(parallel[-1], cols)})


def _sort(nest: Nest, device: Device) -> Iterator[Schedule]:
    """A row for a work-group, four elements to an item."""
    (line,) = nest.role("sorted")
    cols = _fit(line, SORTED, 2)
    chosen = {line.name: cols, **{a.name: _fit(a, SORTED, 2) for a in nest.role("first")}}
    for each in (4, 8, 2):
        yield _schedule(nest, max(1, min(_max_sub_groups(device), cols // each // _LANES)), **chosen)


_FAMILIES = {"elementwise": _elementwise, "transpose": _transpose, "rows": _rows, "held": _held, "segments": _segments,
             "scan": _scan, "associative": _side_by_side, "sort": _sort, "contraction": _contraction, "grouped": _contraction,
             "attention": _attention, "chain": _chain}  # fmt: skip
