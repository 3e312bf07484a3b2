"""The chain family: product -> elementwise -> product (or reduction), whose middle no array holds.

A block keeps some rows of the middle and walks the columns: each step makes a tile of every inner product, does the
elementwise work on it, and adds it to every result.  The backward of an attention is two of these: dq walks the keys, dk and dv
together the queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portakern.dtypes import DTYPES
from portakern.errors import LoweringError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.lower.attention_walk import inside, limits, usable
from portakern.lower.bounds import Bound, alike, bounds_of_zeros, tests_of
from portakern.lower.classes import AxisClass, Classes
from portakern.lower.contraction import dot
from portakern.lower.cuts import last_anchors
from portakern.lower.domain import Domain, Run, real
from portakern.lower.kernel import Frame, Lowered, NoSchedule, Request, covered, grid, one_by_one
from portakern.lower.online import through_casts
from portakern.lower.recomputed import features_of, products_of_chain, reduced_axes, tile_of_middle
from portakern.lower.rows import Folding, levels_of, nested
from portakern.lower.tiles import wide


def lower_chain(request: Request) -> Lowered:
    inner, outer = products_of_chain(request.program)
    domain = _domain(request, inner, outer)
    whole = _whole(domain)
    dots, scores = (tt.tensor_type(ops[0].operands[0]).dtype for ops in (outer, inner))
    schedule = request.choose(request.nest("chain", domain, live=len(inner) + 2, dots=dots, scores=scores))
    one_by_one(schedule, [*domain.role("batch"), *domain.role("reduced")])
    for run in whole:
        if not covered(run, schedule):
            raise LoweringError(f"products of products with {run.extent} elements along {run.name} need a tile that covers "
                                f"them, the schedule gives {schedule.tile(run.name)}")
    axes = [*grid([*domain.role("batch"), *domain.role("m")], schedule),
            *(t.Axis(r.name, "loop", r.extent, schedule.tile(r.name)) for r in (*domain.role("reduced"), *domain.role("n"))),
            *(t.Axis(r.name, "whole", r.extent, schedule.tile(r.name)) for r in whole)]
    frame = Frame(request, domain, axes, schedule, "chain")
    _hoist(frame, inner)
    folds = [op for op in outer if isinstance(op, tt.Fold)]
    for level in levels_of(folds):
        _walk(frame, inner, level)
    if len(folds) < len(outer):
        _walk(frame, inner, [op for op in outer if isinstance(op, tt.Contract)])
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return Lowered((frame.finish(),))


def _domain(request: Request, inner: Sequence[tt.Contract], outer: Sequence[tt.Contract | tt.Fold]) -> Domain:
    """Roles: m and n are the axes of the middle that are kept and walked, k what inner products sum, d features of results."""
    classes = request.classes
    middle, walked = real(classes.of(inner[0])), reduced_axes(outer[0], classes)
    if any(set(real(classes.of(c))) != set(middle) for c in inner) or any(reduced_axes(o, classes) != walked for o in outer):
        raise NoSchedule("products of products that do not run along the same axes")
    tile = tile_of_middle(inner, outer, classes)
    if tile is None:
        raise NoSchedule("products of products that are no products of matrices along any two axes")
    m, n = tile
    summed = dict.fromkeys(classes.of_operand(c, 0)[c.lhs_axes[0]] for c in inner)
    features = dict.fromkeys(c for o in outer if isinstance(o, tt.Contract) for i in (0, 1)
                             for c in features_of(o, i, classes) if c not in middle)  # fmt: skip
    if not summed.keys().isdisjoint([*features, *middle]):
        raise NoSchedule("products of products whose axes are one another's")
    same = _read_before(classes, inner, outer)
    domain = Domain([*(Run((c,), "batch") for c in middle if c not in walked and c is not m), Run((m,), "m"),
                   *(Run((c,), "reduced") for c in middle if c in walked and c is not n), Run((n,), "n"),
                   *(Run((c,), "kd" if c in same.values() else "k") for c in summed),
                     *(Run((c,), "d") for c in features if c not in same)])
    domain.place |= {c: domain.place[first] for c, first in same.items()}
    return domain


def _whole(domain: Domain) -> list[Run]:
    """The axes that a tile covers."""
    return [*domain.role("k"), *domain.role("kd"), *domain.role("d")]


def _read_before(classes: Classes, inner: Sequence[tt.Contract], outer: Sequence[tt.Contract | tt.Fold]
                 ) -> dict[AxisClass, AxisClass]:  # fmt: skip
    """Features along which a result reads an operand that an inner product sums along: both use one tile of it then."""
    summed = {(through_casts(x), side[0]): classes.of_operand(op, i)[side[0]] for op in inner
              for i, (x, side) in enumerate(((op.lhs, op.lhs_axes), (op.rhs, op.rhs_axes)))}  # fmt: skip
    found: dict[AxisClass, AxisClass] = {}
    for op in outer:
        for i, x in enumerate(op.operands if isinstance(op, tt.Contract) else ()):
            free = (op.lhs_free, op.rhs_free)[i]  # type: ignore[union-attr]
            found |= {classes.of_operand(op, i)[d]: summed[through_casts(x), d] for d in free
                      if (through_casts(x), d) in summed}  # fmt: skip
    return found


def _hoist(frame: Frame, inner: Sequence[tt.Contract]) -> None:
    """Write the operands of inner products that do not change along the walk now, so that it finds them known."""
    walked = {r.name for role in ("reduced", "n") for r in frame.domain.role(role)}
    for op in inner:
        for number, x in enumerate(op.operands):
            where = frame.domain.coords(frame.request.classes.of_operand(op, number))
            if walked.isdisjoint(a for c in where if isinstance(c, t.Index) for a in c.axes):
                frame.w.value(x, where)


def _walk(frame: Frame, inner: Sequence[tt.Contract], level: Sequence[tt.Contract | tt.Fold]) -> None:
    """One walk for products, or for reductions, of the middle; what they give becomes known."""
    folding = Folding(frame, [op for op in level if isinstance(op, tt.Fold)])
    products = [op for op in level if isinstance(op, tt.Contract)]
    init = [*folding.init(), *((f"acc{i or ''}", _zeros(frame, op)) for i, op in enumerate(products))]
    split = len(folding.order)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        for op in inner:
            frame.w.known[op] = _inner(frame, op)
        made = folding.step(carried[:split])
        sums = tuple(_added(frame, op, acc) for op, acc in zip(products, carried[split:], strict=True))
        for op in inner:
            del frame.w.known[op]
        return (*made, *sums)

    def join(left: tuple[Op, ...], right: tuple[Op, ...]) -> tuple[Op, ...]:
        sums = (frame.b.binary("add", x, y) for x, y in zip(left[split:], right[split:], strict=True))
        return (*folding.join(left[:split], right[:split]), *sums)

    n = frame.domain.role("n")[0].name
    names, walks = [name for name, _ in init], _walks(frame, _bounds(frame, level))

    def along(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        for lo, hi, known in walks:
            frame.w.known.update(known)
            carried = frame.b.loop(n, list(zip(names, carried, strict=True)), in_a_scope, lo, hi, join)
            for test in known:
                del frame.w.known[test]
        return carried

    def in_a_scope(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        frame.w.push()
        made = step(carried)
        frame.w.pop()
        return made

    totals = nested(frame, frame.domain.role("reduced"), init, along, join)
    frame.w.known.update(folding.known(totals[:split]))
    frame.w.known.update((op, frame.b.cast(acc, wide(op.dtype))) for op, acc in zip(products, totals[split:], strict=True))


def _zeros(frame: Frame, op: tt.Contract) -> Op:
    m = frame.domain.role("m")[0].name
    return frame.b.full(0.0, _sum_dtype(op), frame.b.dims(m, _axis_of_features(frame, op)))


def _sum_dtype(op: tt.Contract) -> str:
    return op.dtype if DTYPES[op.dtype].bits >= 32 else "f32"


def _axis_of_features(frame: Frame, op: tt.Contract) -> str:
    """The axis of the features of ``op``, the one axis that a tile covers."""
    whole = {r.name for r in _whole(frame.domain)}
    where = frame.domain.coords(frame.request.classes.of(op))
    return next(a for c in where if isinstance(c, t.Index) for a in c.axes if a in whole)


def _inner(frame: Frame, op: tt.Contract) -> Op:
    """A tile of the inner product ``op``."""
    m, n = (frame.domain.role(r)[0].name for r in "mn")
    summed = frame.request.classes.of_operand(op, 0)[op.lhs_axes[0]]
    k = next(r.name for r in _whole(frame.domain) if summed in r.classes)
    zero = frame.b.full(0.0, _sum_dtype(op), frame.b.dims(m, n))
    return frame.b.cast(dot(frame, op, _sides(frame, op, m), zero, (m, n, k)), wide(op.dtype))


def _added(frame: Frame, op: tt.Contract, acc: Op) -> Op:
    """``acc`` plus what one step adds to the result ``op``."""
    m, n = (frame.domain.role(r)[0].name for r in "mn")
    return dot(frame, op, _sides(frame, op, m), acc, (m, _axis_of_features(frame, op), n))


def _sides(frame: Frame, op: tt.Contract, m: str) -> list[tuple[Op, tuple]]:
    """The operands of ``op`` with their coordinates, the one that runs along ``m`` first."""
    sides = [(x, frame.domain.coords(frame.request.classes.of_operand(op, i))) for i, x in enumerate(op.operands)]
    first = {a for c in sides[0][1] if isinstance(c, t.Index) for a in c.axes}
    return sides if m in first else sides[::-1]


# ---- bounds ----------------------------------------------------------------------------------------------------------------


def _walks(frame: Frame, bounds: list[Bound]) -> list[tuple[Op | None, Op | None, Mapping[Op, Op]]]:
    """From where to where the middle is walked, and what is known there of comparisons: tiles that no row of the block is
    masked in are walked apart where the schedule asks for it."""
    lo, hi = limits(frame, bounds)
    found = inside(frame, bounds) if frame.schedule.option("split", 0) else None
    if found is None:
        return [(lo, hi, {})]
    middle, request = found[0], frame.request
    same = [tests_of(x, _class(frame, "n"), request.program, request.classes) for x in bounds]
    tests = {op: frame.b.const(holds, "bool") for tests in same for op, holds in tests.items()}
    if bounds[0].upper:
        return [(lo, middle, tests), (middle, hi, {})]
    return [(lo, middle, {}), (middle, hi, tests)]


def _bounds(frame: Frame, level: Sequence[tt.Contract | tt.Fold]) -> list[Bound]:
    """Bounds outside which every product of ``level`` adds nothing: those of all of them."""
    if any(isinstance(op, tt.Fold) for op in level):
        return []
    computed = last_anchors(frame.request.program).keys()
    walked = _class(frame, "n")
    found = [[b for x in op.operands if x in computed for b in bounds_of_zeros(x, walked, frame.request.classes)]
             for op in level]  # fmt: skip
    shared = [b for b in found[0] if all(any(alike(b, other) for other in others) for others in found[1:])]
    alone = [b for i, b in enumerate(shared) if not any(alike(b, other) for other in shared[:i])]
    return [b for b in alone if usable(frame, b)]


def _class(frame: Frame, role: str) -> AxisClass:
    return frame.domain.role(role)[0].classes[0]
