"""Planted faults: correct programs with one known bug each, to measure how many the check catches.

Faults are made in the tile IR, so that one list serves every language.  A :class:`Fault` finds the operations where a
bug of its kind can be, and makes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from portakern.errors import PortakernError
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, yielded
from portakern.ir.functions import UNARY
from portakern.ir.program import Program, moved, verify_program
from portakern.ir.tile import Axis, Kernel, tile_type

Emit = Callable[[Op], Op]
Change = Callable[[Any, Emit], Op]
"""Makes what stands in the place of an operation; operations that it needs besides go through ``Emit``."""


@dataclass(frozen=True)
class Mutant:
    """A program with one bug: its kind, where it is, and the program."""

    kind: str
    where: str
    program: Program


# ---- editing kernels -------------------------------------------------------------------------------------------------


def edit(kernel: Kernel, target: Op, change: Change) -> Kernel:
    """``kernel`` with ``target`` replaced by what ``change`` makes of it, once its operands are rewritten."""
    env: dict[Op, Op] = {}
    known: set[Op] = set(kernel.body.args)

    def block(old: Block) -> Block:
        ops: list[Op] = []
        known.update(old.args)

        def emit(op: Op) -> Op:
            known.add(op)
            ops.append(op)
            return op

        for op in old.ops:
            new = op.remap(lambda o: env.get(o, o), block)
            result = change(new, emit) if op is target else new
            env[op] = result if result in known else emit(result)
        return Block(old.args, tuple(ops))

    return replace(kernel, body=block(kernel.body))


def with_axis(kernel: Kernel, name: str, **changes: Any) -> Kernel:
    """``kernel`` with one of its axes changed."""
    return replace(kernel, axes=tuple(replace(a, **changes) if a.name == name else a for a in kernel.axes))


# ---- the kinds of faults ---------------------------------------------------------------------------------------------

Make = Callable[[], Kernel]
Sites = Callable[[Kernel], Iterator[tuple[str, Make]]]
"""Where faults of a kind can be in a kernel, and how to make each."""
FAULTS: dict[str, Sites] = {}


def fault(kind: str) -> Callable[[Sites], Sites]:
    def register(sites: Sites) -> Sites:
        FAULTS[kind] = sites
        return sites

    return register


def _ops(kernel: Kernel, *classes: type[Op]) -> Iterator[Any]:
    return (op for op in kernel.body.walk() if isinstance(op, classes))


def _at(op: Op) -> str:
    return f"{op.mnemonic()} of {op.loc}" if op.loc else op.mnemonic()


@fault("dropped mask")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Mask):
        if kernel.axis[op.axis].ragged:
            yield f"{_at(op)} over {op.axis}", partial(edit, kernel, op, lambda new, emit: new.x)


@fault("wrong pad")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Load):
        if op.pad is not None and kernel.may_overrun(op):
            value = 0.0 if op.pad in (inf, -inf) else 1.0
            yield _at(op), partial(edit, kernel, op, lambda new, emit, v=value: replace(new, pad=v))


@fault("missing last tile")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for a in kernel.axes:
        if isinstance(a.extent, int) and isinstance(a.steps, int) and a.steps > 1:
            yield f"{a.kind} axis {a.name}", partial(with_axis, kernel, a.name, extent=(a.steps - 1) * a.tile)


@fault("missing last element")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for a in kernel.axes:
        if isinstance(a.extent, int) and a.extent > 1 and a.tile > 1:
            yield f"{a.kind} axis {a.name}", partial(with_axis, kernel, a.name, extent=a.extent - 1)


def _carried(kernel: Kernel) -> Iterator[tuple[t.For, int, Op]]:
    """Loop, position and next value of each carried f32 tile."""
    for loop in _ops(kernel, t.For):
        for i, value in enumerate(yielded(loop.body)):
            if tile_type(value).dtype == "f32":
                yield loop, i, value


@fault("half-precision accumulator")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for loop, i, value in _carried(kernel):
        steps = kernel.axis[loop.axis].steps
        running = isinstance(value, Result) and isinstance(value.source, t.Scan)
        if not isinstance(value, t.Dot) and not running and not (isinstance(value, t.Binary) and value.fn == "add"):
            continue
        if isinstance(steps, int) and steps < 2:
            continue  # rounding a sum once is no accumulator

        def narrow(new: Op, emit: Emit) -> Op:
            return emit(t.Cast(emit(t.Cast(emit(new), "bf16")), "f32"))

        yield f"carried value {i} of the loop over {loop.axis}", partial(edit, kernel, value, narrow)


@fault("low-precision product")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Dot):
        if tile_type(op.lhs).dtype == "f32":

            def narrow(new: t.Dot, emit: Emit) -> Op:
                left, right = (emit(t.Cast(emit(t.Cast(x, "bf16")), "f32")) for x in (new.lhs, new.rhs))
                return replace(new, lhs=left, rhs=right)

            yield _at(op), partial(edit, kernel, op, narrow)


@fault("wrong reduction")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Reduce):
        if op.fn in ("sum", "max"):
            other = {"sum": "max", "max": "sum"}[op.fn]
            yield f"{_at(op)}: {op.fn} is {other}", partial(edit, kernel, op, lambda new, emit, o=other: replace(new, fn=o))


@fault("wrong running value")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    def forgotten(new: t.Scan, emit: Emit) -> Op:
        of = tile_type(new.carry)
        nothing = emit(t.Const(t.identity(new.fn, of.dtype), of.dtype))
        return replace(new, carry=emit(t.Broadcast(nothing, of.dims)) if of.dims else nothing)

    for op in _ops(kernel, t.Scan):
        yield f"{_at(op)}: the element itself", partial(
            edit, kernel, op, lambda new, emit: replace(new, exclusive=not new.exclusive))  # fmt: skip
        yield f"{_at(op)}: the other way", partial(edit, kernel, op, lambda new, emit: replace(new, reverse=not new.reverse))
        if not t.starts_anew(op):
            yield f"{_at(op)}: what came before", partial(edit, kernel, op, forgotten)
    for op in _ops(kernel, Result):
        if isinstance(op.source, t.ScanBy) and op.index < len(op.source.xs):
            yield f"{_at(op.source)}: the element alone", partial(
                edit, kernel, op, lambda new, emit: new.source.xs[new.index])  # fmt: skip


@fault("wrong order")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    def others_lead(new: t.SortBy, emit: Emit) -> Op:
        return replace(new, xs=(emit(t.Unary("not", new.xs[0])), *new.xs[1:]))

    for op in _ops(kernel, t.SortBy):
        yield f"{_at(op)}: the other way", partial(edit, kernel, op, others_lead)
    for op in _ops(kernel, Result):
        if isinstance(op.source, t.SortBy) and op.index and not op.source.into:
            yield f"{_at(op.source)}: as it was", partial(edit, kernel, op, lambda new, emit: new.source.xs[new.index])


@fault("swapped operands")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Binary):
        if op.fn in ("sub", "div"):
            yield _at(op), partial(edit, kernel, op, lambda new, emit: replace(new, lhs=new.rhs, rhs=new.lhs))


@fault("off-by-one load")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Load):
        for i, index in enumerate(op.indices):
            if index.terms:
                yield f"{_at(op)}, dim {i}", partial(edit, kernel, op, partial(_moved, i, _one_further))


@fault("load from the wrong place")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Load):
        for i, index in enumerate(op.indices):
            if reverse := _reversal(kernel, index):
                yield f"{_at(op)}, dim {i} backwards", partial(edit, kernel, op, partial(_moved, i, reverse))


@fault("store to the wrong place")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Store):
        for i, index in enumerate(op.indices):
            if index.terms:
                yield f"dim {i} of {op.buffer.name} one further", partial(edit, kernel, op, partial(_moved, i, _one_further))
            if reverse := _reversal(kernel, index):
                yield f"dim {i} of {op.buffer.name} backwards", partial(edit, kernel, op, partial(_moved, i, reverse))


def _moved(i: int, how: Callable[[t.Index], t.Index], access: Any, emit: Emit) -> Op:
    return replace(access, indices=tuple(how(x) if n == i else x for n, x in enumerate(access.indices)))


def _one_further(index: t.Index) -> t.Index:
    return replace(index, offset=index.offset + 1)


def _reversal(kernel: Kernel, index: t.Index) -> Callable[[t.Index], t.Index] | None:
    """From the last element to the first: wrong, and never outside."""
    axis = kernel.axis[index.plain] if index.plain else None
    if axis is None or not isinstance(axis.extent, int) or axis.extent < 2:
        return None
    backwards = t.Index.of(axis.name, -1, axis.extent - 1)
    return lambda _: backwards


@fault("dropped rescaling")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for loop in _ops(kernel, t.For):
        carried = set(loop.body.args)
        for op in loop.body.ops:
            if isinstance(op, t.Binary) and op.fn == "mul" and op.lhs in carried:
                yield f"{_at(op)} in the loop over {loop.axis}", partial(edit, kernel, op, lambda new, emit: new.lhs)


@fault("wrong comparison")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    other = {"ge": "gt", "gt": "ge", "le": "lt", "lt": "le"}
    for op in _ops(kernel, t.Compare):
        if op.fn in other:
            yield f"{_at(op)}: {op.fn}", partial(edit, kernel, op, lambda new, emit: replace(new, fn=other[new.fn]))


@fault("wrong loop bound")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.For):
        if op.hi is not None:
            axis = kernel.axis[op.axis]

            def early(new: t.For, emit: Emit, axis: Axis = axis) -> Op:
                assert new.hi is not None
                dtype = tile_type(new.hi).dtype
                return replace(new, hi=emit(t.Binary("sub", new.hi, emit(t.Const(axis.tile, dtype)))))

            yield f"the loop over {op.axis} ends a tile early", partial(edit, kernel, op, early)


@fault("stale initial value")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.For):
        for i, value in enumerate(op.init):
            of = tile_type(value)
            if of.dtype == "f32":

                def stale(new: t.For, emit: Emit, i: int = i, of: t.TileType = of) -> Op:
                    one = emit(t.Const(1.0, of.dtype))
                    filled = emit(t.Broadcast(one, of.dims)) if of.dims else one
                    return replace(new, init=tuple(filled if n == i else v for n, v in enumerate(new.init)))

                yield f"carried value {i} of the loop over {op.axis}", partial(edit, kernel, op, stale)


@fault("dropped cast")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Cast):
        inner = op.x
        if isinstance(inner, t.Cast) and inner.dtype in ("bf16", "f16") and tile_type(inner.x).dtype == op.dtype:
            yield _at(inner), partial(edit, kernel, op, lambda new, emit: new.x.x)


@fault("dropped epilogue")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for store in _ops(kernel, t.Store):
        op = store.value
        while isinstance(op, t.Cast | t.Permute):
            op = op.x
        if isinstance(op, t.Unary) and op.type == op.x.type:
            yield _at(op), partial(edit, kernel, op, lambda new, emit: new.x)
        elif isinstance(op, t.Binary) and op.type == op.lhs.type:
            yield f"{_at(op)}: {op.fn}", partial(edit, kernel, op, lambda new, emit: new.lhs)


@fault("unshifted exponent")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Unary):
        if op.fn in ("exp", "exp2") and isinstance(op.x, t.Binary) and op.x.fn == "sub":
            yield _at(op), partial(edit, kernel, op.x, lambda new, emit: new.lhs)


@fault("wrong constant")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Const):
        if op.dtype in ("f32", "f64") and op.value not in (0.0, inf, -inf):
            yield f"{op.value} off by 1%", partial(edit, kernel, op, lambda new, emit: replace(new, value=new.value * 1.01))


@fault("wrong divisor")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Extent):
        users = [o for o in kernel.body.walk() if op in o.operands]
        if isinstance(op.size, int) and op.size > 1 and any(isinstance(u, t.Cast) for u in users):
            yield f"{_at(op)}: {op.size} less one", partial(edit, kernel, op, lambda new, emit: replace(new, size=new.size - 1))


@fault("wrong function")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Unary):
        if UNARY[op.fn].mistaken:
            yield f"{_at(op)}: {op.fn}", partial(edit, kernel, op, lambda new, emit: replace(new, fn=UNARY[new.fn].mistaken))


@fault("adds to the output")
def _(kernel: Kernel) -> Iterator[tuple[str, Make]]:
    for op in _ops(kernel, t.Store):
        if op.mode == "set" and tile_type(op.value).dtype == "f32":
            yield f"store to {op.buffer.name}", partial(edit, kernel, op, lambda new, emit: replace(new, mode="add"))


# ---- whole programs --------------------------------------------------------------------------------------------------


def _missing_kernel(program: Program) -> Iterator[tuple[str, Program]]:
    if len(program.kernels) > 1:
        for i, kernel in enumerate(program.kernels):
            repeats = moved(program.repeats, lambda n, i=i: n - (n > i), lambda n, i=i: n + 1 - (n >= i))
            kept = tuple(r for r in repeats if r.first < r.last)
            yield kernel.name, replace(program, kernels=(*program.kernels[:i], *program.kernels[i + 1 :]), repeats=kept)


def _one_turn_less(program: Program) -> Iterator[tuple[str, Program]]:
    for i, r in enumerate(program.repeats):
        if isinstance(r.count, int) and r.count > 1:
            yield f"over {r.step}", _with_repeat(program, i, count=r.count - 1)


def _kept_places(program: Program) -> Iterator[tuple[str, Program]]:
    for i, r in enumerate(program.repeats):
        for swap in r.swaps:
            yield f"{swap[0]} over {r.step}", _with_repeat(program, i, swaps=tuple(s for s in r.swaps if s != swap))


def _with_repeat(program: Program, number: int, **changes: Any) -> Program:
    made = replace(program.repeats[number], **changes)
    return replace(program, repeats=(*program.repeats[:number], made, *program.repeats[number + 1 :]))


def _missing_fill(program: Program) -> Iterator[tuple[str, Program]]:
    for i, array in enumerate(program.arrays):
        if array.init is not None:
            changed = replace(array, init=None)
            yield array.name, replace(program, arrays=(*program.arrays[:i], changed, *program.arrays[i + 1 :]))


PROGRAM_FAULTS: dict[str, Callable[[Program], Iterator[tuple[str, Program]]]] = {
    "missing kernel": _missing_kernel,
    "one turn less": _one_turn_less,
    "carry not handed on": _kept_places,
    "missing fill": _missing_fill,
}

KINDS = (*FAULTS, *PROGRAM_FAULTS)


def inject(program: Program, kinds: Container[str] = KINDS) -> Iterator[Mutant]:
    """Every mutant of ``program`` of the ``kinds`` named, in a fixed order.  Ones the IR itself refuses are left out."""
    for kind, sites in FAULTS.items():
        if kind in kinds:
            for number, kernel in enumerate(program.kernels):
                for where, make in sites(kernel):
                    if mutated := _made(program, number, make):
                        yield Mutant(kind, f"{kernel.name}: {where}", mutated)
    for kind, whole in PROGRAM_FAULTS.items():
        if kind in kinds:
            for where, mutated in whole(program):
                yield Mutant(kind, where, mutated)


def _made(program: Program, number: int, make: Make) -> Program | None:
    try:
        kernel = make()
        mutated = replace(program, kernels=(*program.kernels[:number], kernel, *program.kernels[number + 1 :]))
        verify_program(mutated)
    except PortakernError:
        return None
    return mutated
