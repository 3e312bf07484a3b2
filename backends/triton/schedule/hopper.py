"""Products of 16-bit and 8-bit operands on Hopper: blocks and parts by how long the device would take for each.

The times are those of :mod:`portakern.emit.product_time`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from portakern.device import Device
from portakern.dtypes import dtype
from portakern.emit.packing import LINE_BYTES
from portakern.emit.product_time import Pace, Product, numbers_of_parts
from portakern.ir.schedule import Nest, Schedule, Value

from ..prepare.descriptors import LOADS
from ..prepare.dots import WIDTH, shortest


@dataclass(frozen=True)
class Block:
    """``rate`` of the matrix unit's that it reaches where operands are there, ``latency`` us of a step (fitted, as above);
    ``short``: only for products of so many rows, others were not measured with it."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    rate: float
    latency: float = 0.3
    short: bool = False

    @property
    def at_once(self) -> int:
        """Blocks of a unit, by its shared memory, warps and registers (228 KB, 64 and 64 K, CUDA's guide for 9.0)."""
        shared = (self.m + self.n) * self.k * 2 * self.stages + 2048
        return max(1, min((228 << 10) // shared, 64 // self.warps, (1 << 16) // (self.m * self.n + self.warps * 32 * 40)))


PACE = Pace(3.2e-7, 103, 10500, 100, 80, 3.0, 2.4, 0.36, 4600, 5500)
"""Fitted, with the rates and latencies of the blocks below, to what 100 products by up to 22 schedules each took on an H100
SXM; off by 10.5% in the mean of 900 times (``benchmarks/choosing.py --report``)."""

BLOCKS = (
    Block(128, 256, 64, 8, 3, 1.02), Block(256, 128, 64, 8, 4, 0.95), Block(128, 128, 64, 8, 4, 1.06, short=True),
    Block(128, 128, 64, 4, 3, 0.74), Block(64, 256, 64, 8, 3, 0.82, short=True), Block(64, 128, 128, 4, 3, 0.8, 0.6),
    Block(64, 128, 64, 8, 4, 0.8, short=True), Block(64, 64, 64, 4, 3, 0.8, 0.35),
)  # fmt: skip
ELEMENTWISE = tuple(b for b in BLOCKS if b.n <= 128 and b.m <= 128)
"""For operands whose rows lie off 16 bytes, and are loaded element by element."""

FEW_ROWS = 16

Options = Mapping[str, Value]


def paced(nest: Nest, device: Device) -> bool:
    """Whether these times are known of a product: of 16 bits (those of 8 take half of them), of known extents, summed along
    one axis."""
    static = all(isinstance(a.extent, int) and a.extent > 0 for a in nest.axes)
    return device.has("wgmma") and dtype(nest.dots).bits in (8, 16) and static and not nest.role("reduced")


def fastest(nest: Nest, device: Device, blocks: Sequence[Block], options: Options) -> list[Schedule]:
    """Each block at its best number of parts, the fastest first, then whole."""
    product = _product(nest, device)
    blocks = [b for b in blocks if not b.short or _pow2(product.m) <= b.m]

    deeper = 2 // product.bytes  # as many bytes a step

    def best(b: Block) -> tuple[float, int]:
        tile = (b.m, b.n, b.k * deeper)
        numbers = numbers_of_parts(product, tile)
        return min((product.microseconds(PACE, tile, b.rate, p, b.at_once, b.latency), p) for p in numbers)

    ranked = sorted(((best(b), b) for b in blocks), key=lambda x: x[0])
    found = [_schedule(nest, device, b, product, options, parts) for (_, parts), b in ranked]
    return list(dict.fromkeys([*found, *(_schedule(nest, device, b, product, options) for _, b in ranked)]))


def _schedule(nest: Nest, device: Device, b: Block, product: Product, options: Options, parts: int = 1) -> Schedule:
    more: dict[str, Value] = dict(options)
    units, blocks = device.count("units", 0), product.tiles(b.m, b.n)  # known of products, not of instruction sets
    if "pack" not in options and options.get("descriptors") == 1 and blocks <= units and product.n * product.bytes % LINE_BYTES:
        more["descriptors"] = LOADS  # rows off lines: threads write them sooner (1000^3 on an H200: 1%)
    elif options.get("descriptors") and b.n > b.m and 0 < units < blocks and parts == 1:
        more["programs"] = units  # stores one block while it loads the next: 0 to 9% (H100); others lose by it
    if parts > 1:
        more["split_k"] = parts
    group = 8 if b.m <= b.n else 4 if "pack" in options else 2
    made = _made(nest, device, (b.m, b.n, b.k * 2 // product.bytes), b.stages, b.warps, group_m=group, **more)
    elements = prod(made.tile(nest.role(r)[0].name) for r in "mn")
    return replace(made, warps=max(1, min(b.warps, elements // 1024)))


def few_rows(nest: Nest, device: Device, options: Options) -> Iterator[Schedule]:
    """Up to 16 rows: one operand is read once, and many copies on the way keep the memory busy.  On an H100: 16 x 28672 x 8192
    177 us by 64 columns, 158 by 128; 1 x 4096 x 4096 19.5 whole, 16.9 in two parts; 1 x 8192 x 8192 with both transposed 102
    and, in parts of wide blocks, 55."""
    product = _product(nest, device)
    deep = 128 // product.bytes
    narrow = _made(nest, device, (WIDTH, 64, deep), 8, 4, descriptors=0)
    if nest.turned:
        wide = _made(nest, device, (WIDTH, 256, deep), 3, 4, group_m=8, **options)
        yield _in_parts(wide, product.units // product.tiles(WIDTH, 256), product)
    elif product.tiles(WIDTH, 64) > product.units and product.n >= 128:
        yield _made(nest, device, (WIDTH, 128, 2 * deep), 3, 2, group_m=8, **options)
    else:
        yield _in_parts(narrow, 2 if 2 * product.tiles(WIDTH, 64) <= product.units else 1, product)
    yield narrow


def _product(nest: Nest, device: Device) -> Product:
    exact = dtype(nest.dots).is_float and nest.precision != "fp8_fast"  # 8-bit floats are multiplied in f16
    found = Product.of(nest, device, 2 if exact else dtype(nest.dots).bytes)
    assert found is not None
    return found


def _in_parts(s: Schedule, parts: int, product: Product) -> Schedule:
    parts = min(parts, product.k // 256)
    return replace(s, options=tuple(sorted({**dict(s.options), "split_k": parts}.items()))) if parts > 1 else s


def _made(nest: Nest, device: Device, block: tuple[int, int, int], stages: int, warps: int, **options: Value) -> Schedule:
    sizes = {}
    for role, size in zip("mnk", block, strict=True):
        (axis,) = nest.role(role)
        least = shortest(device, nest.dots) if role == "k" else WIDTH
        sizes[axis.name] = max(least, min(size, _pow2(axis.extent)))
    tiles = tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes)
    return Schedule(tiles, stages, warps, tuple(sorted(options.items())))


def _pow2(extent: object) -> int:
    return 1 << max(extent - 1, 0).bit_length() if isinstance(extent, int) else 1 << 20
