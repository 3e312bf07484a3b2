"""Whether the blocks of a kernel can lie in VMEM at all, said before the compiler tries: that takes it up to minutes.

What is counted is less than what the compiler needs: no padding to native tiles, no values, no buffers of its own.  Imports
jax.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from portakern.device import Device
from portakern.errors import CompileError

from ..trace.kernel_calls import KernelCall, UnknownValue
from ..trace.windows import extent_of, is_windowed
from .diagnose import SMALLER

_MIB = 1 << 20


def refuse_without_room(calls: Sequence[KernelCall], what: str, device: Device) -> None:
    """Raise :class:`CompileError` of kind ``compile-vmem`` for a kernel whose blocks and scratch take more than there is."""
    room = int(device.value("vmem_bytes"))
    for call in calls:
        blocks = [(w, _bytes(w.block_shape, w.array_aval.dtype)) for w in call.mapping.block_mappings if is_windowed(w)]
        scratch = _scratch_bytes(call)
        if scratch + sum(2 * size for _, size in blocks) <= room:
            continue
        needed = scratch + sum(size * _buffers(call, window) for window, size in blocks)
        if needed > room:
            raise CompileError(f"{what}: the blocks of {call.name} need at least {needed / _MIB:.1f}M of VMEM, there are "
                               f"{room / _MIB:.1f}M", SMALLER, call.where, kind="compile-vmem")  # fmt: skip


def _bytes(shape: Sequence[Any], dtype: Any) -> int:
    return math.prod(extent_of(n) for n in shape) * dtype.itemsize


def _scratch_bytes(call: KernelCall) -> int:
    count = call.mapping.num_scratch_operands
    refs = [v.aval for v in call.kernel.invars[len(call.kernel.invars) - count :]]
    return sum(_bytes(r.shape, r.dtype) for r in refs if "vmem" in str(r.memory_space).lower())


def _buffers(call: KernelCall, window: Any) -> int:
    """Two where another block comes while one is computed on; one that stays the same, or says so, lies there once."""
    if window.pipeline_mode is not None or call.mapping.num_index_operands:
        return 1
    try:
        return 2 if _moves(window, call.grid) else 1
    except UnknownValue:
        return 1


def _moves(window: Any, grid: Sequence[int]) -> bool:
    """Whether some axis of several steps has a part in saying which block is meant: the compiler does not look closer."""
    index = window.index_map_jaxpr.jaxpr
    varying = {v for v, steps in zip(index.invars, grid, strict=False) if steps > 1}
    for equation in index.eqns:
        if any(v in varying for v in equation.invars if isinstance(v, Hashable)):
            varying.update(equation.outvars)
    return any(v in varying for v in index.outvars if isinstance(v, Hashable))
