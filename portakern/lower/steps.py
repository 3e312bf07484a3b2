"""Loops over steps (:class:`~portakern.ir.tensor.Recur`) before they are lowered: what one kernel walks, what moves into them.

Loops of no step and of one are no loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern.ir.functions import COSTLY
from portakern.ir.rewrite import Rules, live
from portakern.ir.tensor import tensor_type
from portakern.lower.classes import axis_classes, unshared
from portakern.lower.domain import of_result
from portakern.lower.uses import needed

rules = Rules()

# ---- loops that are none -------------------------------------------------------------------------------------------------


@rules.on(Result)
def no_step(op: Result) -> Op | None:
    if not isinstance(loop := op.source, t.Recur) or loop.length != 0:
        return None
    if op.index < len(loop.init):
        return loop.init[op.index]
    of = op.type
    assert isinstance(of, t.TensorType)
    return t.Expand(t.Literal(0, of.dtype), of.shape, ())


@rules.on(Result)
def one_step(op: Result) -> Op | None:
    if not isinstance(loop := op.source, t.Recur) or loop.length != 1:
        return None
    firsts = (t.Reshape(x, tensor_type(x).shape[1:]) for x in loop.xs)
    value = inlined(yielded(loop.step)[op.index], dict(zip(loop.step.args, (*loop.init, *firsts, *loop.captured), strict=True)))
    return value if op.index < len(loop.init) else t.Reshape(value, (1, *tensor_type(value).shape))


def inlined(op: Op, new: dict[Op, Op]) -> Op:
    """``op`` where ``new`` has other values for what it is computed from."""
    if op not in new:
        new[op] = op.remap(lambda o: inlined(o, new))
    return new[op]


@rules.on(t.Recur)
def given_once(op: t.Recur) -> Op | None:
    """A step takes every array once: what were several values when it was traced may be one by now."""
    carries, elements, captured = op.given
    first: dict[tuple[bool, Op], Op] = {}
    new: dict[Op, Op] = {c: c for c in carries}
    for sequence, args, given in ((True, elements, op.xs), (False, captured, op.captured)):
        new |= {arg: first.setdefault((sequence, x), arg) for arg, x in zip(args, given, strict=True)}
    args = tuple(dict.fromkeys(new.values()))
    if len(args) == len(new):
        return None
    xs, same = (tuple(x for which, x in first if which == sequence) for sequence in (True, False))
    return replace(op, xs=xs, captured=same, step=Block(args, tuple(inlined(o, new) for o in op.step.ops)))


# ---- which loops one kernel walks ------------------------------------------------------------------------------------------

LANES = (t.Map, t.Convert, t.BitConvert)
"""What keeps lanes apart."""

VIEWS = (t.Literal, t.DimSize, t.Iota, t.Expand, t.Transpose, t.Slice)
"""What else may be done with what does not depend on a carry: an index map of a load."""


def is_walked(op: t.Recur) -> bool:
    """Whether no lane of a step's carries meets another one, so that each is carried where it is computed."""
    shapes = {tensor_type(c).shape for c in op.given[0]}
    late = waiting(op)
    for inner in op.step.ops:
        kinds = LANES if inner in late else (*LANES, *VIEWS)
        if not isinstance(inner, (*kinds, Yield)) and not (inner not in late and _reshapes_an_array(inner)):
            return False
    if len(shapes) != 1 or any(tensor_type(w).shape not in shapes for w in late if not isinstance(w, Yield)):
        return False
    results = (*op.gives[0], *op.gives[1])
    made = on_arguments(t.TensorProgram("step", op.step, ()), {a: a for a in op.step.args}, results, ("",) * len(results), True)
    classes = axis_classes(made, {})
    return len({of_result(made, classes, n) for n in range(len(results))}) == 1


def _reshapes_an_array(op: Op) -> bool:
    return isinstance(op, t.Reshape) and isinstance(op.x, Arg)


def on_arguments(whole: t.TensorProgram, args: Mapping[Op, Op], results: Sequence[Op], outputs: tuple[str, ...],
                 walked: bool) -> t.TensorProgram:  # fmt: skip
    """The program of ``results`` of a step, with ``args`` in the place of the step's own.  In one that is ``walked`` arguments
    that are results are values, whose axes are those of the others."""
    new = dict(args)
    made = tuple(inlined(r, new) for r in results)
    made = tuple(t.Convert(r, tensor_type(r).dtype) if walked and isinstance(r, Arg) else r for r in made)
    ops = [op for op in needed(made) if not isinstance(op, Arg)]
    body = Block(tuple(dict.fromkeys(args.values())), live([*ops, Yield(made)]))
    program = t.TensorProgram(whole.name, body, outputs, whole.scalars)
    return unshared(program, {}) if walked else program


def waiting(op: t.Recur) -> set[Op]:
    """The values of a step that depend on its carries."""
    late: set[Op] = set(op.given[0])
    for inner in op.step.ops:
        if any(o in late for o in inner.operands):
            late.add(inner)
    return late


# ---- what is better done inside --------------------------------------------------------------------------------------------


@rules.on(t.Recur)
def inside_the_step(op: t.Recur) -> Op | None:
    """A step reads a view of an array where that lies.  In a loop that one kernel walks elementwise work is done where it is
    used, before the first step where it is the same in all of them."""
    _, elements, captured = op.given
    walked = is_walked(op)
    for arg, given in zip(captured, op.captured, strict=True):
        if _is_view(given) or _is_made_of_nothing(given) or (walked and isinstance(given, (*LANES, *VIEWS)) and given.operands):
            return moved_inside(op, arg, given, sequence=False)
    for arg, given in zip(elements, op.xs, strict=True):
        if isinstance(given, LANES) and (walked or _is_made_of_nothing(given)):
            return moved_inside(op, arg, given, sequence=True)
    return None


def _is_view(op: Op) -> bool:
    if not isinstance(op, t.Transpose | t.Expand | t.Reshape):
        return False
    while isinstance(op, t.Transpose | t.Expand | t.Reshape):
        op = op.x
    return isinstance(op, Arg) and bool(tensor_type(op).shape)


def _is_made_of_nothing(op: Op) -> bool:
    """Whether ``op`` is made of coordinates and literals by what costs next to nothing."""
    if isinstance(op, t.Iota | t.Literal):
        return True
    cheap = isinstance(op, t.Convert | t.Expand | t.Reshape) or (isinstance(op, t.Map) and op.fn not in COSTLY)
    return cheap and all(map(_is_made_of_nothing, op.operands))


@rules.on(t.Recur)
def same_in_every_step(op: t.Recur) -> Op | None:
    """A sequence of equal elements is none."""
    carries, elements, captured = op.given
    same = {a: x for a, x in zip(elements, op.xs, strict=True) if isinstance(x, t.Expand) and 0 not in x.dims}
    if not same:
        return None
    once = tuple(t.Expand(x.x, x.shape[1:], tuple(d - 1 for d in x.dims)) if x.shape[1:] else x.x for x in same.values())
    args = (*carries, *(a for a in elements if a not in same), *captured, *same)
    xs = tuple(x for a, x in zip(elements, op.xs, strict=True) if a not in same)
    return replace(op, xs=xs, captured=(*op.captured, *once), step=Block(args, op.step.ops))


def moved_inside(op: t.Recur, arg: Op, given: Op, sequence: bool) -> t.Recur:
    """``op`` whose step computes ``arg`` from the operands of ``given``, all of them sequences if it is one (save scalars)."""
    carries, elements, captured = op.given
    xs, same = dict(zip(op.xs, elements, strict=True)), dict(zip(op.captured, captured, strict=True))
    del (xs if sequence else same)[given]
    new: dict[Op, Op] = {}
    for n, o in enumerate(given.operands):
        of, lines = tensor_type(o), sequence and bool(tensor_type(o).shape)
        inside = Arg(f"{arg.name}{n or ''}", t.TensorType(of.shape[1:], of.dtype) if lines else of)  # type: ignore[attr-defined]
        new[o] = (xs if lines else same).setdefault(o, inside)
    args = (*carries, *xs.values(), *same.values())
    value = given.remap(new.__getitem__) if given.operands else replace(given)
    made: dict[Op, Op] = {**{a: a for a in args}, arg: value}
    ops = (value, *(inlined(o, made) for o in op.step.ops))
    return replace(op, xs=tuple(xs), captured=tuple(same), step=Block(args, ops))
