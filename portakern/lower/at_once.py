"""What all steps of a loop do at once: what they compute of the elements of sequences alone is one operation before the loop.

The product of all inputs with a weight is one large product and not one small one a step.  A sum along an axis of which a block
has all anyway stays where it is: what it sums is read once, by the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern.ir.rewrite import Rules, live
from portakern.ir.tensor import tensor_type
from portakern.lower.held import sums_within
from portakern.lower.steps import inlined, waiting
from portakern.lower.uses import needed

rules = Rules()

HEAVY = (t.Contract, t.Convolve, t.Fold, t.ArgFold, t.Cumulate, t.AssociativeScan, t.Sort)
"""What is worth an array of its own: elementwise work is cheaper to do where it is used."""


@rules.on(t.Recur)
def sequences_at_once(op: t.Recur) -> Op | None:
    late, within = waiting(op), sums_within(op)
    heavy: set[Op] = set()
    for inner in op.step.ops:
        if inner in late or inner in within:
            continue
        if isinstance(inner, HEAVY) or any(o in heavy for o in inner.operands):
            heavy.add(inner)
    read = {o for inner in op.step.ops if inner in late or isinstance(inner, Yield) for o in inner.operands}
    found = [_seen(o) for o in dict.fromkeys(o for inner in op.step.ops for o in inner.operands) if o in read & heavy]
    writer = AllSteps(op)
    made = {o: value for o in dict.fromkeys(found) if (value := writer.of_all(o)) is not None}
    return _on_sequences(op, made) if made else None


@rules.on(Result)
def shown_at_once(op: Result) -> Op | None:
    """What a step shows of the elements of sequences alone needs no loop."""
    if not isinstance(loop := op.source, t.Recur) or op.index < len(loop.init):
        return None
    value = yielded(loop.step)[op.index]
    if value in waiting(loop) or not sums_within(loop).isdisjoint(needed([value])):
        return None
    return AllSteps(loop).of_all(value)


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


class AllSteps:
    """Writes values of a step for all steps: arrays with a first dim more, for what depends on sequences."""

    def __init__(self, op: t.Recur, shown: Mapping[Op, Op] | None = None) -> None:
        """``shown`` has what else is there of every step."""
        self.length = op.length
        _, elements, captured = op.given
        self.all: dict[Op, Op] = {**dict(zip(elements, op.xs, strict=True)), **(shown or {})}  # of every step
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


def _map(w: AllSteps, op: t.Map) -> Op:
    shape = (w.length, *tensor_type(op).shape)

    def arg(a: Op) -> Op:
        if a not in w.all:
            return w.same[a] if not tensor_type(a).shape else w.every(a)
        return w.all[a] if tensor_type(w.all[a]).shape == shape else t.Expand(w.all[a], shape, (0,))

    return replace(op, args=tuple(map(arg, op.args)))


def _expand(w: AllSteps, op: t.Expand) -> Op:
    return replace(op, x=w.all[op.x], shape=(w.length, *op.shape), dims=(0, *_later(op.dims)))


def _slice(w: AllSteps, op: t.Slice) -> Op:
    return replace(op, x=w.all[op.x], starts=(0, *op.starts), stops=(w.length, *op.stops), steps=(1, *op.steps))


def _along(w: AllSteps, op: t.Flip | t.Fold) -> Op:
    return replace(op, x=w.all[op.x], axes=_later(op.axes))


def _along_one(w: AllSteps, op: t.ArgFold | t.Cumulate) -> Op:
    return replace(op, x=w.all[op.x], axis=op.axis + 1)


def _associative(w: AllSteps, op: t.AssociativeScan) -> Op:
    return replace(op, xs=tuple(map(w.every, op.xs)), axis=op.axis + 1)


def _concat(w: AllSteps, op: t.Concat) -> Op:
    return replace(op, parts=tuple(map(w.every, op.parts)), axis=op.axis + 1)


def _contract(w: AllSteps, op: t.Contract) -> Op:
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


def _gather(w: AllSteps, op: t.Gather) -> Op | None:
    if op.zipped:
        return replace(op, x=w.every(op.x), indices=w.every(op.indices), axis=op.axis + 1)
    if op.indices not in w.all:
        return replace(op, x=w.all[op.x], indices=w.same[op.indices], axis=op.axis + 1)
    if op.x in w.all:
        return None
    made = replace(op, x=w.same[op.x], indices=w.all[op.indices])
    rank = tensor_type(made).rank
    return t.Transpose(made, (op.axis, *(i for i in range(rank) if i != op.axis))) if op.axis else made


def _same_dims(w: AllSteps, op: t.Convert | t.BitConvert) -> Op:
    return replace(op, x=w.all[op.x])


def _reshape(w: AllSteps, op: t.Reshape) -> Op:
    return replace(op, x=w.all[op.x], shape=(w.length, *op.shape))


def _transpose(w: AllSteps, op: t.Transpose) -> Op:
    return replace(op, x=w.all[op.x], order=(0, *_later(op.order)))


AT_ONCE: dict[type[Op], Callable[[AllSteps, object], Op | None]] = {
    t.Map: _map, t.Convert: _same_dims, t.BitConvert: _same_dims, t.Expand: _expand, t.Reshape: _reshape,
    t.Transpose: _transpose, t.Slice: _slice, t.Flip: _along, t.Fold: _along, t.ArgFold: _along_one, t.Cumulate: _along_one,
    t.AssociativeScan: _associative, t.Concat: _concat, t.Contract: _contract, t.Gather: _gather,
}  # type: ignore[dict-item]  # fmt: skip
"""What an operation of one step is for all steps at once."""
