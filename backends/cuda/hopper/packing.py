"""Operands that the copy engine cannot reach, copied first to where it can.

The engine wants rows that begin at multiples of 16 bytes.  Where a large product's operand has others (an odd number of
columns, say), one pass over it writes it to a temporary with longer rows; the product, which reads it many times, is then a
pipeline.
"""

from __future__ import annotations

from dataclasses import replace

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.ir import tile as t
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program
from portakern.ir.schedule import Schedule
from portakern.ir.size import Size

from .planning import MISALIGNED, loads_of, obstacle_to_map

LEAST = 1 << 31
"""Multiply-adds from which a product is packed: below, it is over as fast by threads that copy element by element."""

SHORTEST = 256
_LINE_BYTES = 128
_ELEMENTS = 4096


def packed(program: Program, target: Target) -> Program:
    """``program`` with operands packed for those of its kernels that gain by it; itself where there are none."""
    arrays, kernels = list(program.arrays), []
    for kernel in program.kernels:
        for load in _wanting(kernel, target):
            assert isinstance(load.buffer, Arg)
            name = f"{load.buffer.name}_packed"
            if name in {a.name for a in arrays}:
                continue
            there, flat = _room(load)
            arrays.append(Array(name, flat, "temporary"))
            arg = Arg(name, there)
            kernels.append(_pack(f"{kernel.name}_pack_{load.buffer.name}", load.buffer, arg))
            kernel = _reading(kernel, load, arg)
        kernels.append(kernel)
    return replace(program, arrays=tuple(arrays), kernels=tuple(kernels)) if len(kernels) > len(program.kernels) else program


def worth_packing(m: Size, n: Size, k: Size) -> bool:
    return all(isinstance(x, int) for x in (m, n, k)) and min(m, n, k) >= SHORTEST and m * n * k >= LEAST  # type: ignore[operator]


def _wanting(kernel: t.Kernel, target: Target) -> list[t.Load]:
    """The loads of operands that must be packed, and can be."""
    dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
    if len(dots) != 1 or not target.device.has("tma") or kernel.schedule is None:
        return []
    if kernel.schedule.option("copies", "auto") == "threads" or kernel.schedule.option("mma", "auto") == "sync":
        return []
    loads = loads_of(dots[0])
    extents = [kernel.axis[a].extent for a in (*(x for x, _ in dims_of(dots[0])), dots[0].axis)]
    if loads is None or not worth_packing(*extents) or DTYPES[t.buffer_type(loads[0].buffer).dtype].bytes != 2:
        return []
    found = []
    for load in loads:
        obstacle = obstacle_to_map(load, [axis for axis, _ in dims_of(load)], kernel)
        if obstacle and MISALIGNED not in obstacle:
            return []
        if obstacle:
            readers = [op for op in kernel.body.walk() if load.buffer in op.operands]
            if readers != [load] or t.buffer_type(load.buffer).strides is not None:
                return []
            found.append(load)
    return found


def _room(load: t.Load) -> tuple[t.BufferType, t.BufferType]:
    """The operand with rows of whole cache lines, as the product sees it and as memory is taken for it."""
    have = t.buffer_type(load.buffer)
    line = _LINE_BYTES // DTYPES[have.dtype].bytes
    *outer, last = have.shape
    long = -(-int(last) // line) * line  # type: ignore[arg-type]
    flat = t.BufferType((*outer, long), have.dtype)
    return replace(flat, shape=have.shape, strides=flat.element_strides), flat


def _pack(name: str, source: Arg, to: Arg) -> t.Kernel:
    """Copies ``source`` to ``to``; what lies between the rows stays as it is, since nobody reads it."""
    *outer, rows, cols = t.buffer_type(source).shape
    wide = min(512, 1 << (int(cols) - 1).bit_length())  # type: ignore[arg-type]
    tiles = (*(1 for _ in outer), _ELEMENTS // wide, wide)
    names = (*(f"b{i}" for i in range(len(outer))), "r", "c")
    axes = tuple(t.Axis(n, "grid", size, tile) for n, size, tile in zip(names, (*outer, rows, cols), tiles, strict=True))
    b = Builder(axes)
    b.store(b.load(source, names), to, names)
    schedule = Schedule(tuple(zip(names, tiles, strict=True)), 1, 8)
    return t.Kernel(name, Block((source, to), b.ops), "elementwise", axes, schedule)


def _reading(kernel: t.Kernel, load: t.Load, arg: Arg) -> t.Kernel:
    """``kernel`` with ``load`` from ``arg``, which takes the place of its buffer among the kernel's arguments."""
    made: dict[Op, Op] = {load: replace(load, buffer=arg)}

    def new(op: Op) -> Op:
        if op not in made:
            made[op] = op.remap(new, block)
        return made[op]

    def block(b: Block) -> Block:
        ops = tuple(map(new, b.ops))
        return b if all(x is y for x, y in zip(ops, b.ops, strict=True)) else replace(b, ops=ops)

    args = tuple(arg if a is load.buffer else a for a in kernel.body.args)
    return replace(kernel, body=replace(block(kernel.body), args=args))
