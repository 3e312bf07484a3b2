"""Loops whose lanes meet where a block can hold them: what a step reduces lies along axes of which each block has all.

A state-space model sums its state against the weights of a step, the delta rule reads what its state has for a key before it
writes there, a normalised recurrence divides by the length of its state.  Their carries stay in registers from step to step as
those of lanes do that never meet; only the axes that are reduced are not cut up.
"""

from __future__ import annotations

from dataclasses import replace

from portakern.ir import tensor as tt
from portakern.ir.core import Arg, Op, Yield
from portakern.ir.rewrite import Rules
from portakern.ir.schedule import Nest
from portakern.ir.size import Size
from portakern.lower.classes import AxisClass, Classes, axis_classes, meeting_themselves
from portakern.lower.domain import Domain, merge, of_result, real
from portakern.lower.kernel import NoSchedule, Request, covered
from portakern.lower.steps import LANES, VIEWS, on_arguments, waiting
from portakern.lower.thin import sum_of_products
from portakern.lower.uses import needed

rules = Rules()

FROM_CARRIES = (*LANES, tt.Fold, tt.Expand, tt.Transpose, Yield)
"""What a step does with what depends on its carries."""


# ---- products of vectors -------------------------------------------------------------------------------------------------


@rules.on(tt.Recur)
def without_thin_products(op: tt.Recur) -> Op | None:
    """A state times a vector is a sum of products, where all that is left are lanes that a block can hold."""
    late = waiting(op)
    products = [o for o in op.step.ops if isinstance(o, tt.Contract) and o in late]
    if not products or not all(map(_of_a_vector, products)):
        return None
    new: dict[Op, Op] = {a: a for a in op.step.args}
    for o in op.step.ops:
        moved = o.remap(new.__getitem__)
        summed = sum_of_products(moved) if isinstance(moved, tt.Contract) and o in products else None
        new[o] = summed or moved
    ops = [o for o in needed([new[op.step.ops[-1]]]) if o not in op.step.args]
    made = replace(op, step=replace(op.step, ops=tuple(ops)))
    return made if step_of(made) is not None else None


def _of_a_vector(op: tt.Contract) -> bool:
    sides = (op.lhs, op.lhs_free), (op.rhs, op.rhs_free)
    return any(all(tt.tensor_type(x).shape[d] == 1 for d in free) for x, free in sides)


# ---- which loops -----------------------------------------------------------------------------------------------------------


def step_of(op: tt.Recur) -> tt.TensorProgram | None:
    """The program of a step of which blocks can hold what meets; ``None`` where they cannot."""
    late = waiting(op)
    for inner in op.step.ops:
        allowed = FROM_CARRIES if inner in late else (*LANES, *VIEWS, Yield)
        if not isinstance(inner, allowed) and not _is_reshape(inner, late):
            return None
    if not any(isinstance(inner, tt.Fold) for inner in late):
        return None
    results, args = (*op.gives[0], *op.gives[1]), {a: a for a in op.step.args}
    made = on_arguments(tt.TensorProgram("step", op.step, ()), args, results, ("",) * len(results), walked=True)
    classes = axis_classes(made, {})
    return made if held_axes(made, classes, len(op.init)) else None


def _is_reshape(op: Op, late: set[Op]) -> bool:
    """Of an array, or one that only has other dims of one element."""
    if not isinstance(op, tt.Reshape):
        return False
    before, after = ([s for s in shape if s != 1] for shape in (tt.tensor_type(op.x).shape, op.shape))
    return before == after or (op not in late and isinstance(op.x, Arg))


def held_axes(step: tt.TensorProgram, classes: Classes, carries: int) -> list[AxisClass]:
    """The axes that are reduced in a step of which the first results are its carries, in order of memory; none where lanes meet
    in another way than along them."""
    folds = [op for op in step.body.ops if isinstance(op, tt.Fold)]
    results = [of_result(step, classes, n) for n in range(len(step.results))]
    over = [set(real(classes.of_operand(f, 0)[a] for a in f.axes)) for f in folds]
    held = over[0] if over else set()
    parallel = {c for dims in results for c in real(dims)} - held
    if not held or not parallel or any(o != held for o in over) or meeting_themselves(step, classes):
        return []
    if not all(isinstance(c.extent, int) for c in held) or any(not parallel <= set(dims) for dims in results):
        return []
    place: dict[Op, list[AxisClass]] = {a: real(dims) for a, dims in zip(step.args[:carries], results, strict=False)}
    for op in step.body.ops:
        for number, operand in enumerate(op.operands):
            if operand in place and not isinstance(op, Yield) and real(classes.of_operand(op, number)) != place[operand]:
                return []
        if isinstance(op, tt.Map | tt.Fold) and not set(real(classes.of(op))) <= held | parallel:
            return []
    return [c for c in dict.fromkeys(c for f in folds for c in classes.of_operand(f, 0)) if c in held]


# ---- the axes of their kernel ----------------------------------------------------------------------------------------------


def held_nest(request: Request, carries: int) -> tuple[Domain, Nest]:
    """The axes of a kernel that walks such a loop, cut up as rows are that a block has whole."""
    program, classes = request.program, request.classes
    held = held_axes(program, classes, carries)
    order = real(c for n in range(len(program.results)) for c in of_result(program, classes, n))
    seen, apart = request.accesses(), request.unmergeable()
    parallel = merge([c for c in order if c not in held], "parallel", seen, apart)
    domain = Domain([*parallel, *merge(held, "reduced", seen, apart)], held[-1])
    full = [dims for dims in seen if len(real(dims)) == len(order)]
    nest = request.nest("rows", domain, 2 + len(full))
    return domain, replace(nest, again=True)


def is_held(request: Request, carries: int, length: Size) -> bool:
    """Whether the backend has tiles in which a block holds what meets in a loop of so many steps."""
    domain, nest = held_nest(request, carries)
    try:
        schedule = request.choose(replace(nest, steps=length))
    except NoSchedule:
        return False
    return len(domain.role("reduced")) == 1 and all(covered(r, schedule) for r in domain.role("reduced"))
