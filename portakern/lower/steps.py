"""Loops over steps (:class:`~portakern.ir.tensor.Recur`) before they are lowered: what need not wait for the step before it.

What a step computes of the elements of sequences alone is the same work for every step, and leaves the loop: the product of all
inputs with a weight is one large product and not one small one a step.  Loops of no step and of one are no loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

HEAVY = (t.Contract, t.Convolve, t.Fold, t.ArgFold, t.Cumulate, t.AssociativeScan, t.Sort)
"""What is worth an array of its own: elementwise work is cheaper to do where it is used."""


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


# ---- what all steps do at once -------------------------------------------------------------------------------------------


@rules.on(t.Recur)
def sequences_at_once(op: t.Recur) -> Op | None:
    late = waiting(op)
    heavy: set[Op] = set()
    for inner in op.step.ops:
        if inner not in late and (isinstance(inner, HEAVY) or any(o in heavy for o in inner.operands)):
            heavy.add(inner)
    needed = {o for inner in op.step.ops if inner in late or isinstance(inner, Yield) for o in inner.operands}
    found = [_seen(o) for o in dict.fromkeys(o for inner in op.step.ops for o in inner.operands) if o in needed & heavy]
    writer = _AtOnce(op)
    made = {o: value for o in dict.fromkeys(found) if (value := writer.of_all(o)) is not None}
    return _on_sequences(op, made) if made else None


@rules.on(Result)
def shown_at_once(op: Result) -> Op | None:
    """What a step shows of the elements of sequences alone needs no loop."""
    if not isinstance(loop := op.source, t.Recur) or op.index < len(loop.init):
        return None
    value = yielded(loop.step)[op.index]
    return None if value in waiting(loop) else _AtOnce(loop).of_all(value)


def waiting(op: t.Recur) -> set[Op]:
    """The values of a step that depend on its carries."""
    late: set[Op] = set(op.given[0])
    for inner in op.step.ops:
        if any(o in late for o in inner.operands):
            late.add(inner)
    return late


def _seen(op: Op) -> Op:
    """What ``op`` is a view of, which a step takes by itself."""
    while isinstance(op, t.Expand | t.Slice | t.Transpose | t.Flip):
        op = op.x
    return op


def _on_sequences(op: t.Recur, made: Mapping[Op, Op]) -> t.Recur:
    """``op`` with the values in ``made`` read from sequences; what is not read any more is not given."""
    carries, elements, captured = op.given
    fresh = {o: Arg(f"all{n}", o.type) for n, o in enumerate(made)}
    new: dict[Op, Op] = {**{a: a for a in op.step.args}, **fresh}
    ops = live([inlined(o, new) for o in op.step.ops if o not in made])
    used = {o for inner in ops for o in inner.operands}
    kept = [(a, x) for a, x in (*zip(elements, op.xs, strict=True), *((fresh[o], made[o]) for o in made)) if a in used]
    rest = [(a, x) for a, x in zip(captured, op.captured, strict=True) if a in used]
    args = (*carries, *(a for a, _ in kept), *(a for a, _ in rest))
    return replace(op, xs=tuple(x for _, x in kept), captured=tuple(x for _, x in rest), step=Block(args, ops))


class _AtOnce:
    """Writes values of a step for all steps: arrays with a first dim more, for what depends on sequences."""

    def __init__(self, op: t.Recur) -> None:
        self.length = op.length
        _, elements, captured = op.given
        self.all: dict[Op, Op] = dict(zip(elements, op.xs, strict=True))  # of every step
        self.same: dict[Op, Op] = dict(zip(captured, op.captured, strict=True))  # the same in every step

    def of_all(self, op: Op) -> Op | None:
        """``op`` of all steps; ``None`` where that has no form."""
        if not self._known(op):
            return None
        return self.all[op] if op in self.all else self._repeated(op)

    def _known(self, op: Op) -> bool:
        if op in self.all or op in self.same:
            return True
        if isinstance(op, Arg) or not all(self._known(o) for o in op.operands):
            return False
        if not any(o in self.all for o in op.operands):
            self.same[op] = op.remap(self.same.__getitem__)
            return True
        rule = AT_ONCE.get(type(op))
        made = rule(self, op) if rule is not None else None
        if made is not None:
            self.all[op] = made
        return made is not None

    def _repeated(self, op: Op) -> Op:
        """``op``, which is the same in every step, for all of them."""
        shape = tensor_type(op).shape
        return t.Expand(self.same[op], (self.length, *shape), tuple(range(1, len(shape) + 1)))

    def every(self, op: Op) -> Op:
        return self.all[op] if op in self.all else self._repeated(op)



def _later(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


def _map(w: _AtOnce, op: t.Map) -> Op:
    shape = (w.length, *tensor_type(op).shape)

    def arg(a: Op) -> Op:
        if a not in w.all:
            return w.same[a] if not tensor_type(a).shape else w.every(a)
        return w.all[a] if tensor_type(w.all[a]).shape == shape else t.Expand(w.all[a], shape, (0,))

    return replace(op, args=tuple(map(arg, op.args)))


def _expand(w: _AtOnce, op: t.Expand) -> Op:
    return replace(op, x=w.all[op.x], shape=(w.length, *op.shape), dims=(0, *_later(op.dims)))


def _slice(w: _AtOnce, op: t.Slice) -> Op:
    return replace(op, x=w.all[op.x], starts=(0, *op.starts), stops=(w.length, *op.stops), steps=(1, *op.steps))


def _along(w: _AtOnce, op: t.Flip | t.Fold) -> Op:
    return replace(op, x=w.all[op.x], axes=_later(op.axes))


def _along_one(w: _AtOnce, op: t.ArgFold | t.Cumulate) -> Op:
    return replace(op, x=w.all[op.x], axis=op.axis + 1)


def _associative(w: _AtOnce, op: t.AssociativeScan) -> Op:
    return replace(op, xs=tuple(map(w.every, op.xs)), axis=op.axis + 1)


def _concat(w: _AtOnce, op: t.Concat) -> Op:
    return replace(op, parts=tuple(map(w.every, op.parts)), axis=op.axis + 1)


def _contract(w: _AtOnce, op: t.Contract) -> Op:
    """The steps are a batch where both operands have them, else free: rows of the one that has them."""
    left, right = op.lhs in w.all, op.rhs in w.all
    batch, lhs_free = len(op.lhs_batch), len(op.lhs_free)
    lhs = (op.lhs_batch, op.lhs_axes) if not left else (_later(op.lhs_batch), _later(op.lhs_axes))
    rhs = (op.rhs_batch, op.rhs_axes) if not right else (_later(op.rhs_batch), _later(op.rhs_axes))
    both = (0,) if left and right else ()
    made = replace(op, lhs=w.all[op.lhs] if left else w.same[op.lhs], rhs=w.all[op.rhs] if right else w.same[op.rhs],
                   lhs_batch=(*both, *lhs[0]), rhs_batch=(*both, *rhs[0]), lhs_axes=lhs[1], rhs_axes=rhs[1])  # fmt: skip
    place = 0 if both else batch if left else batch + lhs_free  # of the steps among the dims of the result
    rank = tensor_type(made).rank
    return made if place == 0 else t.Transpose(made, (place, *(i for i in range(rank) if i != place)))


def _gather(w: _AtOnce, op: t.Gather) -> Op | None:
    if op.zipped:
        return replace(op, x=w.every(op.x), indices=w.every(op.indices), axis=op.axis + 1)
    if op.indices not in w.all:
        return replace(op, x=w.all[op.x], indices=w.same[op.indices], axis=op.axis + 1)
    if op.x in w.all:
        return None
    made = replace(op, x=w.same[op.x], indices=w.all[op.indices])
    rank = tensor_type(made).rank
    return t.Transpose(made, (op.axis, *(i for i in range(rank) if i != op.axis))) if op.axis else made


def _same_dims(w: _AtOnce, op: t.Convert | t.BitConvert) -> Op:
    return replace(op, x=w.all[op.x])


def _reshape(w: _AtOnce, op: t.Reshape) -> Op:
    return replace(op, x=w.all[op.x], shape=(w.length, *op.shape))


def _transpose(w: _AtOnce, op: t.Transpose) -> Op:
    return replace(op, x=w.all[op.x], order=(0, *_later(op.order)))


AT_ONCE: dict[type[Op], Callable[[_AtOnce, object], Op | None]] = {
    t.Map: _map, t.Convert: _same_dims, t.BitConvert: _same_dims, t.Expand: _expand, t.Reshape: _reshape,
    t.Transpose: _transpose, t.Slice: _slice, t.Flip: _along, t.Fold: _along, t.ArgFold: _along_one, t.Cumulate: _along_one,
    t.AssociativeScan: _associative, t.Concat: _concat, t.Contract: _contract, t.Gather: _gather,
}  # type: ignore[dict-item]  # fmt: skip
"""What an operation of one step is for all steps at once."""


