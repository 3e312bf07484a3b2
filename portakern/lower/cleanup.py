"""Tile kernels tidied: casts that undo each other, masks that a load's pad can do, constants folded; then CSE."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Container
from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, Yield, yielded
from portakern.ir.invariants import with_invariants_hoisted
from portakern.ir.rewrite import Rules, canonicalise, live
from portakern.ir.size import Size

rules = Rules()


def clean(kernel: t.Kernel) -> t.Kernel:
    kernel = canonicalise(kernel, rules)
    if kernel.family in ("rows", "segments", "scan", "associative", "recurrence", "chain"):
        kernel = with_invariants_hoisted(kernel)
    read = {(op.source, op.index) for op in kernel.body.walk() if isinstance(op, Result)}
    kernel = replace(kernel, body=Block(kernel.body.args, tuple(_without_idle(kernel.body, {}, read))))
    return canonicalise(kernel, rules + _pads(kernel))


def _without_idle(block: Block, env: dict[Op, Op], read: Container[tuple[Op, int]]) -> list[Op]:
    """The operations of ``block`` with loops that carry nothing for its own next value alone.  ``read`` says which results of
    loops are read."""
    out: list[Op] = []
    for old in block.ops:
        if isinstance(old, Result) and isinstance(old.source, t.For) and (old.source, old.index) not in read:
            continue
        op = old.remap(lambda o: env.get(o, o), lambda region: region)
        if isinstance(old, Result) and isinstance(old.source, t.For):
            op = Result(op.source, sum(i in _busy(old.source, read) for i in range(old.index)))  # type: ignore[attr-defined]
        if isinstance(old, t.For):
            assert isinstance(op, t.For)
            busy = _busy(old, read)
            *inner, give = _without_idle(old.body, env, read)
            last = Yield(tuple(give.operands[i] for i in busy))
            body = Block(tuple(old.body.args[i] for i in busy), live([*inner, last]))
            op = replace(op, init=tuple(op.init[i] for i in busy), body=body)
        env[old] = op
        out.append(op)
    return out


def _busy(loop: t.For, read: Container[tuple[Op, int]]) -> list[int]:
    """Which of the values that ``loop`` carries anything else depends on."""
    everything = list(range(len(loop.init)))
    if loop.combine.ops:
        return everything
    results, needed = yielded(loop.body), set[Op]()
    frontier: list[Op] = [o for op in loop.body.walk() if not op.pure and not isinstance(op, Yield) for o in op.operands]
    frontier += [v for op in loop.body.walk() if isinstance(op, t.For) for v in yielded(op.body)]
    frontier += [results[i] for i in everything if (loop, i) in read]
    while frontier:
        op = frontier.pop()
        if op in needed:
            continue
        needed.add(op)
        frontier += op.operands
        if op in loop.body.args:
            frontier.append(results[loop.body.args.index(op)])
    return [i for i in everything if loop.body.args[i] in needed or (loop, i) in read]


def _exact(narrow: str, broad: str) -> bool:
    """Whether every value of ``narrow`` is a value of ``broad``."""
    a, b = DTYPES[narrow], DTYPES[broad]
    if a.is_float and b.is_float:
        return a.rounding >= b.rounding and a.largest <= b.largest
    return (a.kind == b.kind and a.bits <= b.bits) or (a.kind == "uint" and b.kind == "int" and a.bits < b.bits)


@rules.on(t.Cast)
def cast_to_same(op: t.Cast) -> Op | None:
    return op.x if t.tile_type(op.x).dtype == op.dtype else None


@rules.on(t.Cast)
def cast_there_and_back(op: t.Cast) -> Op | None:
    """Through a wider dtype and back to where it started is nothing."""
    if isinstance(op.x, t.Cast) and t.tile_type(op.x.x).dtype == op.dtype and _exact(op.dtype, op.x.dtype):
        return op.x.x
    return None


@rules.on(t.Cast)
def cast_constant(op: t.Cast) -> Op | None:
    value = op.x.value if isinstance(op.x, t.Const) else op.x.size if isinstance(op.x, t.Extent) else None
    kind = DTYPES[op.dtype]
    if not isinstance(value, int | float) or kind.bits < 32:
        return None
    if kind.is_float:
        return t.Const(float(value), op.dtype)
    return t.Const(int(value), op.dtype) if kind.is_int and float(value).is_integer() else None


_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "neg": lambda x: -x, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "reciprocal": lambda x: 1 / x,
}  # fmt: skip


@rules.on(t.Unary)
def function_of_constant(op: t.Unary) -> Op | None:
    """Such as the 1 / sqrt(64) of attention: computed once, here, and rounded to the dtype."""
    dtype = t.tile_type(op).dtype
    if not isinstance(op.x, t.Const) or dtype != "f32" or op.fn not in _FUNCTIONS or not 0 < op.x.value < math.inf:
        return None
    return t.Const(_f32(_FUNCTIONS[op.fn](_f32(op.x.value))), "f32")


@rules.on(t.Binary)
def quotient_of_constants(op: t.Binary) -> Op | None:
    """Such as the 0 / 0 of a mean of nothing, which some languages refuse to compute."""
    a, b = op.lhs, op.rhs
    if op.fn != "div" or not isinstance(a, t.Const) or not isinstance(b, t.Const) or a.dtype != "f32":
        return None
    if b.value == 0:
        return t.Const(math.nan, "f32") if a.value == 0 or math.isnan(a.value) else None
    return t.Const(_f32(a.value / b.value), "f32")


def _f32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


@rules.on(t.Broadcast)
def broadcast_to_same(op: t.Broadcast) -> Op | None:
    return op.x if t.tile_type(op.x).dims == op.dims else None


@rules.on(t.Broadcast)
def broadcast_twice(op: t.Broadcast) -> Op | None:
    return t.Broadcast(op.x.x, op.dims) if isinstance(op.x, t.Broadcast) else None


@rules.on(t.Permute)
def permute_in_place(op: t.Permute) -> Op | None:
    return op.x if t.tile_type(op.x).axes == op.axes else None


@rules.on(t.Permute)
def permute_of_spread(op: t.Permute) -> Op | None:
    """Vectors that meet in a tile do so in the order wanted: nothing is held that would have to be transposed."""
    if isinstance(op.x, t.Broadcast):
        return t.Broadcast(op.x.x, t.tile_type(op).dims) if _ordered(op.x.x, op.axes) else None
    if not _of_spread(op.x, op.axes):
        return None
    return op.x.remap(lambda o: t.Permute(o, op.axes) if t.tile_type(o).dims else o, lambda region: region)


def _ordered(x: Op, axes: tuple[str, ...]) -> bool:
    """Whether the dims of ``x`` stand in the order of ``axes``."""
    have = t.tile_type(x).axes
    return have == tuple(a for a in axes if a in have)


def _of_spread(x: Op, axes: tuple[str, ...]) -> bool:
    """Whether ``x`` is made, element by element, of nothing but broadcasts that can be made in the order of ``axes``."""
    waiting, seen = [x], set[Op]()
    while waiting:
        op = waiting.pop()
        if op in seen or not t.tile_type(op).dims:
            continue
        seen.add(op)
        if isinstance(op, t.Broadcast) and _ordered(op.x, axes):
            continue
        if not isinstance(op, t.Unary | t.Binary | t.Compare | t.Select | t.Cast):
            return False
        waiting += op.operands
    return True


@rules.on(t.Binary)
def integer_constants(op: t.Binary) -> Op | None:
    """Sums and products of integer sizes, as bounds are made of."""
    if op.fn not in ("add", "sub", "mul", "min", "max") or not DTYPES[t.tile_type(op).dtype].is_int:
        return None
    a, b = _size(op.lhs), _size(op.rhs)
    dtype = t.tile_type(op).dtype
    if a is not None and b is not None and op.fn in ("add", "sub", "mul"):
        return t.Extent(_wrapped({"add": a + b, "sub": a - b, "mul": a * b}[op.fn], dtype), dtype)
    if b == 0 and op.fn in ("add", "sub"):
        return op.lhs
    if a == 0 and op.fn == "add":
        return op.rhs
    return None


def _wrapped(size: Size, dtype: str) -> Size:
    """A number as an integer of ``dtype`` keeps it: what is too large goes round."""
    if not isinstance(size, int):
        return size
    kind = DTYPES[dtype]
    low = -(1 << kind.bits - 1) if kind.kind == "int" else 0
    return (size - low) % (1 << kind.bits) + low


def _size(op: Op):
    if isinstance(op, t.Extent):
        return op.size
    return op.value if isinstance(op, t.Const) and isinstance(op.value, int) else None


@rules.on(t.Select)
def decided(op: t.Select) -> Op | None:
    """Such as a mask where a walk is known to be within it."""
    if not isinstance(op.condition, t.Const):
        return None
    chosen = op.yes if op.condition.value else op.no
    return chosen if chosen.type == op.type else t.Broadcast(chosen, t.tile_type(op).dims)


@rules.on(t.Binary)
def decided_logic(op: t.Binary) -> Op | None:
    if op.fn not in ("and", "or") or t.tile_type(op).dtype != "bool":
        return None
    for known, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if isinstance(known, t.Const) and bool(known.value) == (op.fn == "and") and other.type == op.type:
            return other
    return None


@rules.on(t.Unary)
def decided_not(op: t.Unary) -> Op | None:
    return t.Const(not op.x.value, "bool") if op.fn == "not" and isinstance(op.x, t.Const) and op.x.dtype == "bool" else None


@rules.on(t.Mask)
def mask_twice(op: t.Mask) -> Op | None:
    inner = op.x
    if isinstance(inner, t.Mask) and inner.axis == op.axis:
        return t.Mask(inner.x, op.axis, op.value)
    return None


@rules.on(t.Cast)
def narrow_under_a_mask(op: t.Cast) -> Op | None:
    """What was widened to be masked, and is narrow again, is masked as it was."""
    masked = op.x
    if not isinstance(masked, t.Mask) or not isinstance(masked.x, t.Cast):
        return None
    narrow = masked.x.x
    same = t.tile_type(narrow).dtype == op.dtype and _exact(op.dtype, masked.x.dtype)
    kept = masked.value == 0 or (math.isinf(masked.value) and DTYPES[op.dtype].is_float and DTYPES[op.dtype].infinite)
    return t.Mask(narrow, masked.axis, masked.value) if same and kept else None


def _pads(kernel: t.Kernel) -> Rules:
    """Masks straight after a load become the load's pad, when the pad falls exactly where the mask does."""
    uses: dict[Op, list[Op]] = {}
    for op in kernel.body.walk():
        for o in op.operands:
            uses.setdefault(o, []).append(op)
    wants: dict[tuple[object, ...], float] = {}

    def loaded(op: Op) -> t.Load | None:
        while isinstance(op, t.Cast):
            if not _exact(t.tile_type(op.x).dtype, op.dtype):
                return None
            op = op.x
        return op if isinstance(op, t.Load) else None

    def pads(load: t.Load, axis: str) -> bool:
        """Whether leaving the buffer along ``axis`` is leaving the axis."""
        for index, size in zip(load.indices, t.buffer_type(load.buffer).shape, strict=True):
            if axis in index.axes:
                return index.plain == axis and kernel.axis[axis].extent == size
        return False

    def representable(value: float, dtype: str) -> bool:
        return math.isinf(value) or float(value) == 0.0 or DTYPES[dtype].is_int

    for op in kernel.body.walk():
        if isinstance(op, t.Mask):
            load = loaded(op.x)
            if load and load.pad is None and pads(load, op.axis) and representable(op.value, t.tile_type(load).dtype):
                wants.setdefault(_place(load), op.value)
    table = Rules()

    @table.on(t.Load)
    def give_pad(op: t.Load) -> Op | None:
        if op.pad is None and _place(op) in wants:
            return t.Load(op.buffer, op.indices, op.dims, wants[_place(op)], op.gathers, loc=op.loc)
        return None

    @table.on(t.Mask)
    def drop_mask(op: t.Mask) -> Op | None:
        load = loaded(op.x)
        if load and load.pad is not None and pads(load, op.axis) and repr(load.pad) == repr(op.value):
            return op.x
        return None

    return table


def _place(load: t.Load) -> tuple[object, ...]:
    return (getattr(load.buffer, "name", load.buffer), load.indices, load.dims, load.gathers)


