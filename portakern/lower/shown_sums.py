"""What a step shows of sums, so that a block may have a part of the axis that they are taken along.

A part of an axis gives a part of a sum, and kernels behind the loop join those (:mod:`portakern.lower.late_sums`); nothing can
be shown of a part that needs the whole sum.  The gradient of a state that is read and written by the same key gives the key two
sums over the rows of the state: they become one.  What is computed of sums in another way, as the gradient of a key that the
step itself made unit, is computed behind the loop, of all steps at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.ir import tensor as tt
from portakern.ir.core import Op, Result, Yield, yielded
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.lower.at_once import AllSteps
from portakern.lower.classes import axis_classes
from portakern.lower.held import step_of
from portakern.lower.held_axes import is_little, late_axes
from portakern.lower.steps import waiting
from portakern.lower.uses import needed

rules = Rules()

@rules.on(tt.Recur)
def shown_as_sums(op: tt.Recur) -> Op | None:
    """Where a block may have parts of axes by that which it may not have without."""
    sums, have = _Sums(waiting(op)), _late(_without(op, _behind(op)))
    return next((more for axis in _summed_axes(op, sums.late) if (more := _along(axis, op, sums, have)) is not None), None)


def _along(axis: Mapping[Op, bool], op: tt.Recur, sums: _Sums, have: int) -> tt.Recur | None:
    """``op`` with the sums along an axis shown that what it shows is computed of, if a block may have parts of more axes than
    it may ``have``; ``axis`` is whether a sum is one along it."""
    carries, shown = _results(op)
    here = [sums.along(axis, x) or x for x in shown]
    if here != list(shown) and _late(better := _giving(op, (*carries, *here))) > have:
        return better
    apart = {x: ones for x in here if (ones := sums.inside(axis, x))}
    fresh = dict.fromkeys(one for ones in apart.values() for one in ones.values() if one not in here)
    better = _giving(op, (*carries, *(_in_terms_of(x, apart[x]) if x in apart else x for x in here), *fresh))
    return better if fresh and _late(_without(better, _behind(better))) > have else None


@rules.on(Result)
def computed_behind(op: Result) -> Op | None:
    """What a step computes of sums that it shows, if a block may have parts of axes by that."""
    if not isinstance(loop := op.source, tt.Recur) or op.index < len(loop.init):
        return None
    value, behind = yielded(loop.step)[op.index], _behind(loop)
    if value not in behind or _late(_without(loop, behind)) <= _late(loop):
        return None
    sums = {x: Result(loop, n) for x, n in _shown_sums(loop).items()}
    return AllSteps(loop, sums).of_all(value)


def _behind(op: tt.Recur) -> set[Op]:
    """What ``op`` shows that is computed of sums that it shows, and of nothing else that waits for the step before."""
    late, sums = waiting(op), _shown_sums(op)
    return {x for x in _results(op)[1] if x in late and x not in sums and _is_of(x, late, sums)}


def _shown_sums(op: tt.Recur) -> Mapping[Op, int]:
    """The sums that ``op`` shows, and as which of its results."""
    late = waiting(op)
    return {x: n for n, x in enumerate(yielded(op.step)) if n >= len(op.init) and _is_sum(x, late)}


def _without(op: tt.Recur, behind: set[Op]) -> tt.Recur:
    carries, shown = _results(op)
    return _giving(op, (*carries, *(x for x in shown if x not in behind)))


def _summed_axes(op: tt.Recur, late: set[Op]) -> list[Mapping[Op, bool]]:
    """For each axis that sums are taken along, whether a sum is."""
    classes = axis_classes(tt.TensorProgram("step", op.step, ("",) * len(yielded(op.step))), {})
    sums = (f for f in op.step.ops if isinstance(f, tt.Fold) and _is_sum(f, late))
    along = {f: {classes.of_operand(f, 0)[a] for a in f.axes} for f in sums}
    return [{f: c in axes for f, axes in along.items()} for c in dict.fromkeys(c for axes in along.values() for c in axes)]


def _results(op: tt.Recur) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """What a step hands on, and what it shows."""
    made = yielded(op.step)
    return made[: len(op.init)], made[len(op.init) :]


def _giving(op: tt.Recur, results: Iterable[Op]) -> tt.Recur:
    """``op`` with other results of a step."""
    made = tuple(results)
    ops = (*(o for o in needed(made) if o not in op.step.args), Yield(made))
    return replace(op, step=replace(op.step, ops=ops))


def _late(op: tt.Recur) -> int:
    """How many axes of its carries a block may have parts of, so that it has less."""
    if (step := step_of(op)) is None:
        return 0
    classes = axis_classes(step, {})
    return 0 if is_little(step, classes, len(op.init)) else len(late_axes(step, classes, len(op.init)))


def _is_sum(x: Op, late: set[Op]) -> bool:
    return isinstance(x, tt.Fold) and x.fn == "sum" and x in late


def _is_of(x: Op, late: set[Op], ends: Mapping[Op, object], seen: dict[Op, bool] | None = None) -> bool:
    """Whether ``x`` needs nothing of what is ``late`` but ``ends``."""
    seen = {} if seen is None else seen
    if x not in seen:
        seen[x] = x not in late or x in ends or (bool(x.operands) and all(_is_of(o, late, ends, seen) for o in x.operands))
    return seen[x]


def _in_terms_of(x: Op, ones: Mapping[Op, Op]) -> Op:
    new = dict(ones)
    for o in needed([x]):
        if o not in new:
            new[o] = o.remap(lambda y: new.get(y, y))
    return new[x]


class _Sums:
    """Finds what is a sum, among values of which those in ``late`` wait for the step before."""

    def __init__(self, late: set[Op]) -> None:
        self.late = late
        self.found: dict[Op, tuple[tt.Fold, ...]] = {}

    def along(self, axis: Mapping[Op, bool], x: Op) -> Op | None:
        """``x`` as one sum along ``axis``, if it is one or made of several."""
        if isinstance(x, tt.Convert):
            return replace(x, x=one) if (one := self.along(axis, x.x)) is not None else None
        folds = self.folds(x)
        if not folds or not all(axis[f] for f in folds) or not DTYPES[tt.tensor_type(x).dtype].is_float:
            return None
        if isinstance(x, tt.Fold):
            return x
        kept, first = tt.tensor_type(folds[0]).rank, folds[0]
        shape = tt.tensor_type(_in_line(first)).shape
        if any(tt.tensor_type(_in_line(f)).shape != shape or len(f.axes) != len(first.axes) for f in folds):
            return None
        if len(first.axes) > 1 and any(f.axes != first.axes for f in folds):
            return None  # which axis is which is not said by their sizes
        summed = _summed(x, shape)
        return tt.Fold("sum", summed, tuple(range(kept, len(shape))), loc=first.loc) if summed is not None else None

    def inside(self, axis: Mapping[Op, bool], x: Op) -> Mapping[Op, Op]:
        """The sums along ``axis``, each as one, that ``x`` is computed of and of nothing else that is late; nothing where it
        is not, or is such a sum."""
        ones: dict[Op, Op] = {}
        return ones if x in self.late and self._ends(axis, x, ones, set()) and x not in ones else {}

    def _ends(self, axis: Mapping[Op, bool], x: Op, ones: dict[Op, Op], seen: set[Op]) -> bool:
        if x not in self.late or x in seen:
            return True
        seen.add(x)
        if not isinstance(x, tt.Convert) and (one := self.along(axis, x)) is not None:
            ones[x] = one
            return True
        return bool(x.operands) and all(self._ends(axis, o, ones, seen) for o in x.operands)

    def folds(self, x: Op) -> tuple[tt.Fold, ...]:
        """The sums that ``x`` is made of by elementwise work."""
        if x not in self.found:
            inner = dict.fromkeys(f for o in x.operands for f in self.folds(o)) if isinstance(x, tt.Map) else ()
            self.found[x] = (x,) if isinstance(x, tt.Fold) and _is_sum(x, self.late) else tuple(inner)
        return self.found[x]


def _summed(x: Op, shape: tuple[Size, ...]) -> Op | None:
    """What the sum over the last axes of an array of ``shape`` must be of, so that it is ``x``, if that is one."""
    if isinstance(x, tt.Fold):
        return _in_line(x)
    if not isinstance(x, tt.Map):
        return None
    if x.fn == "mul":
        parts = [o if _lessens(o) else _summed(o, shape) for o in x.args]
        alone = sum(map(_lessens, x.args)) == 1
    else:
        parts = [_summed(o, shape) for o in x.args]
        alone = x.fn in ("add", "sub", "neg")
    return replace(x, args=tuple(parts)) if alone and all(p is not None for p in parts) else None  # type: ignore[arg-type]


def _lessens(x: Op) -> bool:
    """Whether a sum may be multiplied by ``x`` element by element: what is infinite, or makes elements so that are not in the
    sum, would not give what it gives of the sum."""
    return isinstance(x, tt.Literal) and abs(x.value) <= 1


def _in_line(fold: tt.Fold) -> Op:
    """What is summed, with the axes of the sum last."""
    rank = tt.tensor_type(fold.x).rank
    order = (*(d for d in range(rank) if d not in fold.axes), *fold.axes)
    return fold.x if order == tuple(range(rank)) else tt.Transpose(fold.x, order)
