"""The schedules HIP allows for a loop nest on a device, the default first.

Sizes are chosen so that everything stays in registers: ``budget`` counts 32-bit values a lane may hold in tiles (of 512
registers on CDNA, 256 on RDNA, some are needed for addresses and operands on their way to LDS).  What does not fit in LDS
is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from portakern.device import Device
from portakern.dtypes import dtype
from portakern.emit.chains import like_attention
from portakern.emit.shares import in_parts, keys_in_parts, product_in_parts
from portakern.ir.schedule import Nest, NestAxis, Schedule

from .attention import FEATURES, KEYS, ROWS, WAVES
from .emitter import LEFT_IN_REGISTERS, matrix_depth, on_matrix_cores, subgroup, waves_across
from .pingpong import slice_of, takes_turns
from .products import product_of

_MAX_THREADS = 1024


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    """Every schedule of ``nest`` that fits ``device``; the first is the default."""
    found = list(_FAMILIES[nest.family](nest, device))
    if nest.family in ("rows", "scan"):
        found = list(in_parts(found, nest, device))
    if nest.family == "attention":
        found = list(keys_in_parts(found, nest, device))
    if nest.family == "contraction" and (parts := product_in_parts(found, nest, device)) is not None:
        found.insert(0, parts)
    return list(dict.fromkeys(found))


def _size(axis: NestAxis) -> int | None:
    """The extent of an axis, ``None`` where it is open."""
    return axis.extent if isinstance(axis.extent, int) else None


def _up(n: int) -> int:
    """The power of two at or above ``n``."""
    return 1 << max(0, n - 1).bit_length()


def _fit(axis: NestAxis, most: int, least: int = 1) -> int:
    """A power of two that covers the axis, between ``least`` and ``most``."""
    size = _size(axis)
    return max(least, min(most, _up(size) if size is not None else most))


def _tiles(nest: Nest, **chosen: int) -> tuple[tuple[str, int], ...]:
    """Tiles for all axes: those named in ``chosen``, 1 for the rest."""
    return tuple((a.name, chosen.get(a.name, 1)) for a in nest.axes)


# ---- elementwise, transpose -------------------------------------------------------------------------------------------


def _elementwise(nest: Nest, device: Device) -> Iterator[Schedule]:
    wave = subgroup(device)
    per_thread = 8 if dtype(nest.io_dtype).bytes <= 2 else 4
    axes = list(nest.role("parallel"))
    inner, outer = axes[-1], axes[-2:-1]
    if nest.steps != 1 and _are_few(axes, 256 * per_thread * product_of(device).count("units")):
        last = _fit(inner, wave)  # steps wait for each other, so that many waves with little work are done first
        yield Schedule(_tiles(nest, **{inner.name: last, **{a.name: _fit(a, wave // last) for a in outer}}), warps=1)
    for warps, factor in ((256 // wave, 1), (256 // wave, 2), (512 // wave, 1), (128 // wave, 1), (64 // wave, 1)):
        count = warps * wave * per_thread * factor
        last = _fit(inner, count)
        chosen = {inner.name: last, **{a.name: _fit(a, count // last) for a in outer if last < count}}
        yield Schedule(_tiles(nest, **chosen), warps=warps)


def _are_few(axes: Sequence[NestAxis], most: int) -> bool:
    """Whether the elements along ``axes`` are known to be fewer than ``most``."""
    return all(isinstance(a.extent, int) for a in axes) and prod(int(a.extent) for a in axes) < most  # type: ignore[arg-type]


def _transpose(nest: Nest, device: Device) -> Iterator[Schedule]:
    wave = subgroup(device)
    (source,), (target,) = nest.role("source"), nest.role("target")
    for side, threads in ((64, 256), (32, 256), (64, 512), (32, 128)):
        chosen = {source.name: _fit(source, side, 8), target.name: _fit(target, side, 8)}
        yield Schedule(_tiles(nest, **chosen), warps=threads // wave)


# ---- rows -------------------------------------------------------------------------------------------------------------


def _rows(nest: Nest, device: Device) -> Iterator[Schedule]:
    reduced, parallel = nest.role("reduced"), nest.role("parallel")
    walked = reduced[-1]
    columns = next((a for a in parallel if a.contiguous), None)
    if columns is not None and nest.of_windows:
        yield from _windows(nest, device, columns)
        return
    if columns is None and (line := nest.along_lines) is not None:
        yield from _lines(nest, device, line)
        return
    if columns is not None and not walked.contiguous:
        yield from _columns(nest, device, walked, columns)
        return
    size = _size(walked)
    longest = _MAX_THREADS * max(8, 64 // max(2, nest.live))
    if size is not None and _up(size) <= longest:
        yield from _whole_rows(nest, device, walked, _up(size))
    yield from _walked_rows(nest, device, walked)


def _whole_rows(nest: Nest, device: Device, walked: NestAxis, cols: int) -> Iterator[Schedule]:
    """A row in registers: 16 or 32 values a lane, more lanes for longer rows."""
    wave = subgroup(device)
    outer = nest.role("parallel")
    budget = 96 // max(2, nest.live)
    for per_lane in (16, 8, 32):
        lanes = cols // min(per_lane, budget)
        if lanes > _MAX_THREADS:
            continue
        warps = min(_MAX_THREADS, _up(max(lanes, 256))) // wave
        rows = max(1, min(64, warps * wave * min(per_lane, budget) // cols))
        chosen = {walked.name: cols}
        if outer and rows > 1:
            chosen[outer[-1].name] = _fit(outer[-1], _down(rows))
        yield Schedule(_tiles(nest, **chosen), warps=warps)
    lanes = cols // budget
    if lanes > 512:
        yield Schedule(_tiles(nest, **{walked.name: cols}), warps=_MAX_THREADS // wave)


def _held(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Rows, or a matrix in the registers of a work-group: as few lanes as have room, since all of them wait for each other; of
    columns that never meet one for a lane."""
    held, columns = nest.role("held"), [a for a in nest.role("parallel") if a.contiguous]
    if len(held) == 1 and not columns:
        yield from _rows(nest.as_family("rows", held="reduced"), device)
        return
    wave, budget = subgroup(device), 64 // max(2, nest.live)
    chosen = {a.name: _fit(a, _MAX_THREADS * budget) for a in held}
    chosen |= {a.name: _fit(a, wave) for a in columns[-1:] if len(held) == 1}
    least = max(wave, _up(-(-prod(chosen.values()) // budget)))
    for threads in (least, 2 * least, 4 * least):
        if threads <= _MAX_THREADS:
            yield Schedule(_tiles(nest, **chosen), warps=threads // wave)


def _down(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _walked_rows(nest: Nest, device: Device, walked: NestAxis) -> Iterator[Schedule]:
    wave = subgroup(device)
    for cols, threads in ((4096, 256), (8192, 512), (2048, 256), (1024, 128)):
        yield Schedule(_tiles(nest, **{walked.name: _fit(walked, cols, 8)}), warps=threads // wave)


def _windows(nest: Nest, device: Device, columns: NestAxis) -> Iterator[Schedule]:
    """Positions of windows beside what is contiguous; every thread walks the taps, for several neighbouring results where
    these share elements."""
    wave, per_thread = subgroup(device), 8 if dtype(nest.io_dtype).bytes <= 2 else 4
    rows = nest.beside(columns)
    for threads, slide in ((256, 4), (256, 8), (128, 4), (256, 1)):
        across = _fit(columns, 128)
        chosen = {columns.name: across, **({rows.name: _fit(rows, max(1, threads * per_thread // across))} if rows else {})}
        count = nest.slide(slide)
        yield Schedule(_tiles(nest, **chosen), warps=threads // wave, options=(("slide", count),) if count > 1 else ())


def _lines(nest: Nest, device: Device, line: NestAxis) -> Iterator[Schedule]:
    """Windows along lines of memory, 16 bytes a lane."""
    wave, per_thread = subgroup(device), 8 if dtype(nest.io_dtype).bytes <= 2 else 4
    for threads in (256, 128, 512):
        yield Schedule(_tiles(nest, **nest.line_tiles(line, threads * per_thread)), warps=threads // wave)


def _columns(nest: Nest, device: Device, walked: NestAxis, columns: NestAxis) -> Iterator[Schedule]:
    """Reductions down columns: neighbouring columns in neighbouring lanes; short ones that are read again stay in registers."""
    wave = subgroup(device)
    size = _size(walked)
    down = max(32, _up(size or 1))
    # By the cost model of gfx942; with a quarter of the lanes idle (96 rows in 128) a second read was cheaper.
    if size is not None and (nest.live > 2 or nest.passes > 2) and 8 * (down - size) <= size:
        for cols, threads in ((64, 256), (64, 512), (64, 1024)):
            wide = _fit(columns, cols, 8)
            if down * wide * max(2, nest.live) <= threads * 96:
                yield Schedule(_tiles(nest, **{walked.name: down, columns.name: wide}), warps=threads // wave)
                break
    for rows, cols, threads in ((32, 128, 256), (64, 64, 256), (16, 256, 256), (32, 64, 128)):
        chosen = {walked.name: _fit(walked, rows), columns.name: _fit(columns, cols, 8)}
        yield Schedule(_tiles(nest, **chosen), warps=threads // wave)


# ---- matrix products --------------------------------------------------------------------------------------------------

# m, n, k (of 16-bit operands), waves, stages
_CDNA = (
    (128, 128, 32, 4, 2), (128, 128, 64, 4, 2), (256, 128, 32, 8, 2), (256, 256, 64, 8, 2), (256, 256, 32, 8, 2),
    (128, 64, 32, 4, 2), (64, 128, 32, 4, 2), (64, 64, 64, 4, 2), (64, 64, 32, 4, 2), (128, 128, 32, 4, 1),
    (32, 64, 64, 2, 2), (64, 32, 64, 2, 2), (32, 32, 64, 1, 2), (16, 64, 64, 1, 2), (16, 32, 64, 1, 2),
    (32, 16, 64, 1, 2), (16, 16, 64, 1, 2),
)  # fmt: skip
_RDNA = (
    (128, 64, 32, 4, 2), (64, 128, 32, 4, 2), (128, 128, 32, 8, 2), (64, 64, 32, 4, 2), (64, 64, 32, 4, 1),
    (32, 64, 32, 2, 2), (64, 32, 32, 2, 2), (32, 32, 32, 1, 2), (16, 64, 32, 1, 2), (16, 32, 32, 1, 2),
    (32, 16, 32, 1, 2), (16, 16, 32, 1, 2),
)  # fmt: skip


def _contraction(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Tiles m x n x k, waves and stages; wide tiles first, those much larger than the problem last."""
    m, n, k = (nest.role(r)[0] for r in "mnk")
    element = dtype(nest.dots).bytes
    table = _CDNA if device.has("mfma") else _RDNA
    if device.count("shared_bytes_per_block") > 65536:
        table = (table[1], table[0], *table[2:])  # with more LDS a deeper slice costs no occupancy
    yield from _turns(nest, device)
    fits: list[tuple[bool, Schedule]] = []
    for tm, tn, tk, warps, stages in table:
        depth = {1: max(64, tk, _deepest(k, nest.dots, device)) if device.has("mfma") else tk, 2: tk}.get(element, 16)
        schedule = Schedule(_tiles(nest, **{m.name: tm, n.name: tn, k.name: depth}), stages, warps)
        if _lds(tm, tn, depth, element) * stages > device.count("shared_bytes_per_block"):
            continue
        if _registers(tm, tn, warps, nest, device) > _register_budget(device):
            continue
        fits.append((_covers(m, tm) and _covers(n, tn), schedule))
    yield from (s for good, s in fits if good)
    yield from (s for good, s in fits if not good)


def _deepest(k: NestAxis, dtype: str, device: Device) -> int:
    """Elements along ``k`` that the deepest matrix instruction takes which is no deeper than the sum."""
    return max((m.k for m in device.matrix_for(dtype) if m.k <= _up(_size(k) or m.k)), default=0)


# Tiles m x n of products whose waves take turns, and how much of the matrix cores' rate each is taken to reach next to the
# best: guesses from how many matrix instructions stand between two barriers.  Plain tiles keep fewer waves busy.
_TURNS = ((256, 256, 1.0), (256, 128, 0.8), (128, 256, 0.8))
_PLAIN = (128, 128, 0.6)

def _turns(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Tiles whose waves take turns, where they would be done before plain ones."""
    m, n, k = (nest.role(r)[0] for r in "mnk")
    if not takes_turns(device, nest.dots) or nest.role("reduced"):
        return
    size, deep = dtype(nest.dots).bytes, slice_of(device, nest.dots)
    whole = all(isinstance(a.extent, int) and a.extent % (16 // size) == 0 for a in (n, k)) and (_size(k) or 0) * size >= 256
    if not whole or (size == 1 and (nest.turned or nest.across) and not device.has("ds_read_tr")):
        return

    def time(tm: int, tn: int, rate: float) -> float:
        tiles = -(-(_size(m) or 4096) // tm) * -(-(_size(n) or 4096) // tn)
        for axis in nest.role("batch"):
            tiles *= _size(axis) or 1
        return -(-tiles // product_of(device).count("units")) * tm * tn / rate

    for tm, tn, rate in sorted(_TURNS, key=lambda tile: time(*tile)):
        if time(tm, tn, rate) < time(*_PLAIN):
            yield Schedule(_tiles(nest, **{m.name: tm, n.name: tn, k.name: deep}), 2, 8)


def pairs(nest: Nest, device: Device) -> bool:
    """Pairs of products of 16 bits, where waves would not take turns at each by itself: they take turns at one product."""
    if nest.dots not in ("f16", "bf16") or nest.role("reduced"):
        return False
    return next(_turns(nest, device), None) is None


def _covers(axis: NestAxis, tile: int) -> bool:
    """Whether a tile wastes at most half of itself on the axis."""
    size = _size(axis)
    return size is None or tile <= max(16, _up(size))


def _lds(rows: int, cols: int, depth: int, element: int) -> int:
    return (rows + cols) * depth * element


def _register_budget(device: Device) -> int:
    return 256 if device.has("mfma") else 170


def _registers(tm: int, tn: int, warps: int, nest: Nest, device: Device) -> int:
    """Accumulator registers a lane holds, and the fragments of one step."""
    wave = subgroup(device)
    across = waves_across(tm, tn, warps)
    fragment = 8 if device.has("wmma_replicated") else 4
    part_m, part_n = tm * across // warps, tn // across
    return part_m * part_n // wave + (part_m + part_n) // 16 * fragment


# ---- attention --------------------------------------------------------------------------------------------------------


def _softmax_attention(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Those that the cost model found best where they fit, then all others."""
    yield from _waves_in_turns(nest, device) if device.has("mfma") else _two_stages(nest, device)
    for s in _attention(nest, device):
        m, n = (nest.role(r)[0].name for r in "mn")
        unmasked = device.has("mfma") and s.tile(m) % s.tile(n) == 0  # on RDNA the second walk costs registers, and so waves
        yield replace(s, options=(*s.options, ("split", 1))) if unmasked else s


def _waves_in_turns(nest: Nest, device: Device) -> Iterator[Schedule]:
    """256 queries by eight waves that take turns; fewer queries would leave half of the waves without rows."""
    m, n, k, d = (nest.role(r)[0] for r in "mnkd")
    deep, wide = _features(nest, k), _features(nest, d)
    narrow = {nest.dots, nest.scores or nest.dots} <= ({"bf16"} if device.has("f16_matrix_flushes") else {"f16", "bf16"})
    if narrow and deep in FEATURES and wide in FEATURES and (_size(m) or 4096) > ROWS // 2:
        tiles = _tiles(nest, **{m.name: ROWS, n.name: KEYS, k.name: deep, d.name: wide})
        yield Schedule(tiles, 2, WAVES, (("split", 1), ("waves", "first")))


def _two_stages(nest: Nest, device: Device) -> Iterator[Schedule]:
    """RDNA, 16 bits: by the cost model 0.9 (RX 7900 XTX, 128 features) to 0.7 (RX 9070 XT) of the time of one stage."""
    m, n, k, d = (nest.role(r)[0] for r in "mnkd")
    deep, wide = _features(nest, k), _features(nest, d)
    features = max(deep, wide)
    warps = 8 if features == 128 else 4 if features == 64 and not device.has("wmma_replicated") else 0
    if warps and deep and wide and nest.dots in ("f16", "bf16") and _covers(m, 16 * warps):
        tiles = _tiles(nest, **{m.name: 16 * warps, n.name: 32, k.name: features, d.name: wide})
        yield Schedule(tiles, 2, warps)


def _features(nest: Nest, axis: NestAxis) -> int:
    """The tile that covers features which are read in whole vectors; 0 where they are not."""
    size = _size(axis)
    return _multiple(size, 16) if size and size % 8 == 0 else 0


def _attention(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Query rows in multiples of 16 per wave, so that a wave holds whole rows; keys walked 16 to 64 at a time."""
    m, n, k, d = (nest.role(r)[0] for r in "mnkd")
    element = dtype(nest.dots).bytes
    step = 32 if device.has("mfma") and element == 2 else 16
    depth = matrix_depth(nest.scores or nest.dots, device)
    whole = all((_size(x) or 0) % 8 == 0 for x in (k, d))  # else elements are read one by one, each to a register
    deep, wide = (_multiple(_size(x) or 256, depth if x is k else 16) for x in (k, d))
    found: list[tuple[bool, Schedule]] = []
    narrow = device.has("mfma") and element == 2
    waves = ((32, 4), (16, 4)) if narrow else ((16, 4), (32, 4))
    # With 32 keys two waves fit on a SIMD of CDNA, and one multiplies while the other one's softmax is computed.
    steps = (32, 64, 16) if narrow else (64, 32, 16)
    for rows_per_wave, warps in (*waves, (16, 2), (16, 1), (16, 8), (32, 8)):
        for keys in steps:
            if keys % step:
                continue
            for stages in (2, 1) if whole else (1,):
                rows = rows_per_wave * warps
                if _attention_fits(rows, keys, deep, wide, warps, stages, element, nest, device):
                    chosen = {m.name: rows, n.name: keys, k.name: deep, d.name: wide}
                    found.append((_covers(m, rows), Schedule(_tiles(nest, **chosen), stages, warps)))
    yield from (s for good, s in found if good)
    yield from (s for good, s in found if not good)


def _chain(nest: Nest, device: Device) -> Iterator[Schedule]:
    yield from _walks_over_strips(nest, device)
    yield from like_attention(nest, lambda x: _attention(x, device))


_KEPT_BY_TWO, _KEPT_BY_ONE = 128, 192
"""Registers of left operands and of sums that a wave keeps through a walk, where it shares its SIMD and where it is alone."""


def _walks_over_strips(nest: Nest, device: Device) -> Iterator[Schedule]:
    """32 rows for each of eight waves that take turns, or of four that have their SIMDs to themselves."""
    m, n = (nest.role(r)[0] for r in "mn")
    features = {a.name: _features(nest, a) for role in ("k", "kd", "d") for a in nest.role(role)}
    narrow = {"bf16"} if device.has("f16_matrix_flushes") else {"f16", "bf16"}
    fits = {nest.dots, nest.scores or nest.dots} <= narrow and set(features.values()) <= {*FEATURES}
    if not device.has("mfma") or not fits:
        return

    def wide(*roles: str) -> int:
        return sum(features[a.name] for role in roles for a in nest.role(role))

    kept = wide("k", "kd") // 4 + wide("kd", "d") // 2  # 32 rows of 16 bits, and of 32, on 64 lanes
    keys = 64 if max(features.values(), default=0) == 64 else 32
    waves = 8 if kept <= _KEPT_BY_TWO * 32 // keys else 4
    slots = 3 if device.has("lds_dma_16") and waves == 8 else 2
    lds = slots * keys * 2 * (wide("k", "kd", "kd", "d"))
    if kept <= _KEPT_BY_ONE and (_size(m) or 4096) > 16 * waves and lds <= device.count("shared_bytes_per_block"):
        # Two walks of which each masks its last tile too are more than the registers of a wave alone hold.
        apart = waves == 8 or keys == 32 or (_size(n) or 1) % keys == 0
        tiles = _tiles(nest, **{m.name: 32 * waves, n.name: keys, **features})
        yield Schedule(tiles, 2, waves, (("split", 1),) if apart else ())


def _multiple(n: int, of: int) -> int:
    """A power of two of ``of`` that covers ``n``: memory is then read in whole vectors by all lanes."""
    return max(of, _up(n))


_HELD_BYTES = 64
"""Of an operand that a thread holds on its way to LDS: the compiler leaves larger arrays in memory."""


def _attention_fits(
    rows: int, keys: int, deep: int, wide: int, warps: int, stages: int, element: int, nest: Nest, device: Device
) -> bool:
    cores = on_matrix_cores(device, nest.dots)
    wave = subgroup(device)
    scored = dtype(nest.scores or nest.dots).bytes  # of queries and keys, where values may have another dtype
    alike = cores == on_matrix_cores(device, nest.scores or nest.dots)
    held = cores and alike and deep <= LEFT_IN_REGISTERS
    step = keys * (deep * scored + wide * element)
    lds = stages * step
    lds += 0 if held else rows * deep * scored
    lds += 0 if cores and alike else rows * keys * element
    part = rows // warps
    copies = 2 if device.has("wmma_replicated") else 1
    registers = part * (wide + 2 * keys) // wave  # accumulator, scores and probabilities
    registers += part * deep * scored // 4 * copies // wave if held else 0
    registers += stages // 2 * step // 4 // (warps * wave)
    registers += (part // 16 + 2) * 4 * copies  # fragments of one step
    budget = _register_budget(device) if warps < 8 else _register_budget(device) * 3 // 4
    if stages > 1 and keys * max(deep * scored, wide * element) > _HELD_BYTES * warps * wave:
        return False
    if cores and not device.has("mfma") and warps < 4 and keys * copies * deep > 16 * 128:
        return False
    return lds <= device.count("shared_bytes_per_block") and registers <= budget


def _segments(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each lane goes down a column of its own; a line is walked by a wave, since most segments are short."""
    (walked,), columns = nest.role("walked"), [a for a in nest.role("parallel") if a.contiguous]
    wave = subgroup(device)
    if columns:
        for cols, threads in ((128, 128), (64, 64), (256, 256)):
            yield Schedule(_tiles(nest, **{columns[-1].name: _fit(columns[-1], cols)}), warps=max(1, threads // wave))
        return
    for along, waves in ((wave, 1), (4 * wave, 1), (8 * wave, 4), (32 * wave, 8)):
        yield Schedule(_tiles(nest, **{walked.name: along}), warps=waves)


def _scan(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Lines that are contiguous as rows; others side by side, each lane going down its own."""
    (line,), parallel = nest.role("scanned"), nest.role("parallel")
    if line.contiguous or not parallel:
        yield from _rows(nest.as_family("rows", scanned="reduced"), device)
        return
    wave = subgroup(device)
    for cols, threads in ((128, 128), (64, 64), (256, 256)):
        yield Schedule(_tiles(nest, **{parallel[-1].name: _fit(parallel[-1], cols)}), warps=max(1, threads // wave))


def _grouped(nest: Nest, device: Device) -> Iterator[Schedule]:
    yield from _contraction(nest.as_family("contraction", group="reduced"), device)


SORTED = 2048
"""Elements of a row that are sorted in LDS, which takes up to 16 bytes of each."""


def _sort(nest: Nest, device: Device) -> Iterator[Schedule]:
    """A row for a work-group, four elements to a lane."""
    (line,) = nest.role("sorted")
    cols = _fit(line, SORTED, 2)
    chosen = {line.name: cols, **{a.name: _fit(a, SORTED, 2) for a in nest.role("first")}}
    for each in (4, 8, 2):
        yield Schedule(_tiles(nest, **chosen), warps=max(1, min(_MAX_THREADS, cols // each) // subgroup(device)))


_FAMILIES = {"elementwise": _elementwise, "transpose": _transpose, "rows": _rows, "held": _held, "segments": _segments,
             "scan": _scan, "associative": _scan, "sort": _sort, "contraction": _contraction, "grouped": _grouped,
             "attention": _softmax_attention, "chain": _chain}  # fmt: skip
