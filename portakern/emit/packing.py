"""Operands copied first to where their rows begin on cache lines.

Some operands are dear to read as they lie: rows that begin off the multiples that a copy engine takes, or off cache lines, so
that every piece of a row touches one line more.  A product reads its operands many times; one pass that writes such an
operand to a temporary with longer rows is then worth it.  Which loads those are is for a backend to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.ir import tile as t
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program, Repeat, moved
from portakern.ir.schedule import Schedule

LINE_BYTES = 128
_ELEMENTS = 4096


def packed(
    program: Program, wanting: Callable[[t.Kernel], Sequence[t.Load]], warps: int = 8, whole_rows: bool = False
) -> Program:
    """``program`` with the loads that ``wanting`` names of a kernel from packed copies; itself where there are none.

    A load must be the only reader of its buffer in the kernel, and the buffer an array without gaps of static shape.  With
    ``whole_rows`` copies are written to the end of the longer rows, so that no store needs a mask; else what lies between the
    rows stays as it is.  Nobody reads it.
    """
    arrays, kernels = list(program.arrays), _Grown(program)
    for number, kernel in enumerate(program.kernels):
        for load in wanting(kernel):
            assert isinstance(load.buffer, Arg)
            name = f"{load.buffer.name}_packed"
            if name in {a.name for a in arrays}:
                continue
            there, flat = _room(load)
            arrays.append(Array(name, flat, "temporary"))
            arg = Arg(name, there)
            to = Arg(name, flat) if whole_rows else arg
            kernels.before(number, load.buffer.name, _pack(f"{kernel.name}_pack_{load.buffer.name}", load.buffer, to, warps))
            kernel = _reading(kernel, load, arg)
        kernels.own[number] = kernel
    return replace(kernels.program(), arrays=tuple(arrays)) if len(arrays) > len(program.arrays) else program


class _Grown:
    """The kernels of a program with others between them."""

    def __init__(self, program: Program) -> None:
        self.old, self.own = program, list(program.kernels)
        self.inside: dict[int, list[t.Kernel]] = {}  # right before a kernel, in the loops that it is in
        self.outside: dict[int, list[t.Kernel]] = {}  # before the loops that begin with it

    def before(self, number: int, array: str, pack: t.Kernel) -> None:
        """``pack`` runs before kernel ``number``, but only once for all turns of loops in which nothing changes ``array``."""
        around = [r for r in self.old.repeats if r.first <= number < r.last and not self._changes(r, array)]
        where = min((r.first for r in around), default=number)
        (self.outside if around else self.inside).setdefault(where, []).append(pack)

    def _changes(self, repeat: Repeat, array: str) -> bool:
        written = {a.name for k in self.old.kernels[repeat.first : repeat.last] for a in k.written}  # type: ignore[attr-defined]
        return array in written or any(array in pair for pair in repeat.swaps)

    def program(self) -> Program:
        kernels: list[t.Kernel] = []
        first, last = [], []
        for number, kernel in enumerate(self.own):
            kernels += self.outside.get(number, ())
            first.append(len(kernels))
            kernels += (*self.inside.get(number, ()), kernel)
            last.append(len(kernels))
        return replace(self.old, kernels=tuple(kernels), repeats=moved(self.old.repeats, first.__getitem__, last.__getitem__))


def packable(load: t.Load, kernel: t.Kernel) -> bool:
    """Whether :func:`packed` can give ``load`` a copy of its operand."""
    have = t.buffer_type(load.buffer)
    alone = [op for op in kernel.body.walk() if load.buffer in op.operands] == [load]
    static = all(isinstance(n, int) and n > 0 for n in have.shape)
    return alone and static and isinstance(load.buffer, Arg) and have.strides is None and len(have.shape) >= 2


def _room(load: t.Load) -> tuple[t.BufferType, t.BufferType]:
    """The operand with rows of whole cache lines, as the product sees it and as memory is taken for it."""
    have = t.buffer_type(load.buffer)
    line = LINE_BYTES // DTYPES[have.dtype].bytes
    *outer, last = have.shape
    long = -(-int(last) // line) * line  # type: ignore[arg-type]
    flat = t.BufferType((*outer, long), have.dtype)
    return replace(flat, shape=have.shape, strides=flat.element_strides), flat


def _pack(name: str, source: Arg, to: Arg, warps: int) -> t.Kernel:
    """Copies ``source`` to ``to``, whose rows may be longer."""
    *outer, rows, cols = t.buffer_type(to).shape
    wide = min(512, 1 << (int(cols) - 1).bit_length())  # type: ignore[arg-type]
    tiles = (*(1 for _ in outer), _ELEMENTS // wide, wide)
    names = (*(f"b{i}" for i in range(len(outer))), "r", "c")
    axes = tuple(t.Axis(n, "grid", size, tile) for n, size, tile in zip(names, (*outer, rows, cols), tiles, strict=True))
    b = Builder(axes)
    b.store(b.load(source, names), to, names)
    schedule = Schedule(tuple(zip(names, tiles, strict=True)), 1, warps)
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
