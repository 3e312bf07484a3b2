"""How much VMEM a kernel is allowed: more than the compiler's default where its blocks and values may need it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from portakern.device import Device
from portakern.dtypes import dtype as known
from portakern.ir.tile import Dot, TileType

from .blocks import LANES, SUBLANES, BlockAccess
from .kernel_plan import PallasKernelPlan, ScratchBuffer
from .taps import TapLoop

_STEP = 16
"""Limits are multiples of this many MiB."""

_MOST = 0.85
"""Of a core's VMEM; the rest is left to XLA and to the compiler's own buffers."""


def limit_mb(plan: PallasKernelPlan, scratch: Sequence[ScratchBuffer], device: Device) -> int:
    """The limit in MiB; 0 where half of the compiler's default is enough."""
    needed, default = needed_bytes(plan, scratch), device.value("vmem_default_bytes")
    if needed <= default / 2:
        return 0
    wanted = math.ceil(2 * needed / 2**20 / _STEP) * _STEP
    most = int(device.value("vmem_bytes") * _MOST / 2**20)
    return 0 if most << 20 <= default else min(wanted, most)


def needed_bytes(plan: PallasKernelPlan, scratch: Sequence[ScratchBuffer]) -> int:
    """Two buffers of every block, scratch, and the two largest values in between, all padded to native tiles."""
    blocks = sum(2 * _block(plan, a) for a in (*plan.passed, *plan.made))
    kept = sum(_padded(tuple(_extent(plan, a) for a in s.place), known(s.dtype).bytes) for s in scratch)
    values = sorted((_value(plan, op.type) for op in plan.kernel.body.walk() if isinstance(op.type, TileType)), reverse=True)
    largest = 3 if any(isinstance(op, Dot) for op in plan.kernel.body.walk()) else 1
    return blocks + kept + _windows(plan) + sum(values[:largest])


def _windows(plan: PallasKernelPlan) -> int:
    """What taps take of blocks, side by side: each is whole native tiles by itself before it is shifted into its lanes."""
    extents = (plan.spans[op.axis].axis.extent for op in plan.kernel.body.walk() if isinstance(op, TapLoop))
    taps, found = math.prod(n for n in extents if isinstance(n, int)), 0
    for access in plan.reads:
        dims = [d for d in access.window if d.span is not None]
        if len(dims) > 1 and any(d.taps or d.beside > 1 for d in dims):
            lanes = _extent(plan, access.place[1]) // dims[-2].beside
            rows = _padded((1, 1, _extent(plan, access.place[0]), lanes), known(access.dtype).bytes)
            found += taps * dims[-2].beside * rows
    return found


def _extent(plan: PallasKernelPlan, axis: str | None) -> int:
    if axis is None:
        return 1
    return plan.spans[axis].size if axis in plan.spans else LANES


def _block(plan: PallasKernelPlan, access: BlockAccess) -> int:
    if access.window:
        return _padded((1, 1, *(d.elements or 1 for d in access.window)), known(access.dtype).bytes)
    if access.flat:
        return _padded((1, _extent(plan, access.place[1])), known(access.dtype).bytes)
    rows, columns = (_extent(plan, a) for a in access.place)
    return _padded((rows, access.cut.line if access.cut is not None else columns), known(access.dtype).bytes)


def _value(plan: PallasKernelPlan, kind: TileType) -> int:
    return _padded((1, 1, *(plan.spans[a].size for a in kind.axes)), max(known(kind.dtype).bytes, 1))


def _padded(shape: tuple[int, ...], size: int) -> int:
    *_, rows, columns = shape
    packed = SUBLANES * max(1, 4 // size)
    return -(-rows // packed) * packed * -(-columns // LANES) * LANES * size
