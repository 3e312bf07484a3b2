"""The rows family: reductions over one set of axes, with the elementwise work before, between and after them.

Where a row fits in a tile, it is loaded once and everything happens on that tile.  Where it does not, the axis is
walked: once per level of reductions that wait for each other, and once more when whole rows are stored.  A maximum and
the sum of exponentials shifted by it are one level (online softmax), and so are an extreme and its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.dtypes import DTYPES
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.size import product
from portakern.lower.classes import Classes
from portakern.lower.deviations import LONG, Deviations, match_deviations
from portakern.lower.domain import Domain, Run, Slide, innermost, merge, of_result, real, slide_of
from portakern.lower.kernel import Frame, Request, along, at_most, covered, grid
from portakern.lower.online import Place, Softmax, match_exponential, match_place
from portakern.lower.simplify import identity
from portakern.lower.tiles import Coordinates, wide

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def lower_rows(request: Request, schedule: Schedule) -> t.Kernel:
    folds = [op for op in request.program.body.ops if isinstance(op, tt.Fold)]
    domain, _ = rows_nest(request)
    reduced, parallel = domain.role("reduced"), domain.role("parallel")
    levels = levels_of(folds, _are_long(request, reduced))
    at_most(schedule, reduced, 1, "reduced axes")
    at_most(schedule, parallel, 1 if any(schedule.tile(r.name) > 1 for r in reduced) else 2, "parallel axes")
    axes = [*grid(parallel, schedule), *(along(r, schedule) for r in reduced)]
    frame = Frame(request, domain, axes, schedule, "rows")
    if all(covered(r, schedule) for r in reduced):
        _one_pass(frame, folds)
    else:
        _walks(frame, levels, reduced)
    return frame.finish()


def rows_nest(request: Request) -> tuple[Domain, Nest]:
    """The axes of a stage of rows, and what its schedule is chosen for."""
    program = request.program
    folds = [op for op in program.body.ops if isinstance(op, tt.Fold)]
    domain = _domain(request, folds)
    live = 1 + sum(1 for dims in request.accesses() if len(real(dims)) == len(domain.runs))
    slide, levels = slide_in_rows(request, folds), len(levels_of(folds, _are_long(request, domain.role("reduced"))))
    nest = request.nest("rows", domain, live, passes=levels + 1, slides=slide.positions if slide else None)
    return domain, replace(nest, again=levels > 1 or _are_stored(program, request.classes, folds))


def slide_in_rows(request: Request, folds: Sequence[tt.Fold]) -> Slide | None:
    """What one walk along taps may slide over: where nothing waits for its end but what is stored once for all taps."""
    program, classes = request.program, request.classes
    over = {classes.of_operand(f, 0)[a] for f in folds for a in f.axes}
    alike = all({classes.of_operand(f, 0)[a] for a in f.axes} == over for f in folds)
    stored = _are_stored(program, classes, folds)
    return slide_of(program, classes) if alike and not stored and len(levels_of(folds)) == 1 else None


def _are_stored(program: tt.TensorProgram, classes: Classes, folds: Sequence[tt.Fold]) -> bool:
    """Whether a result runs along what is reduced."""
    over = {classes.of_operand(f, 0)[a] for f in folds for a in f.axes}
    return any(over & set(of_result(program, classes, n)) for n, _ in enumerate(program.results))


def _domain(request: Request, folds: Sequence[tt.Fold]) -> Domain:
    program, classes = request.program, request.classes
    operand = real(c for f in folds for c in classes.of_operand(f, 0))
    over = {classes.of_operand(f, 0)[a] for f in folds for a in f.axes}
    stored = real(c for number in range(len(program.results)) for c in of_result(program, classes, number))
    # Blocks go along the last of these axes first, for windows of planes along channels.  Neighbours in memory first took an
    # H200 5061 us for 4407 in 2D average pooling, 2979 for 2763 in 1D maxima, 1837 for 1873 in 1D means.
    parallel = [c for c in dict.fromkeys([*operand, *stored]) if c not in over]
    reduced = [c for c in operand if c in over]
    seen, apart = request.accesses(), request.unmergeable()
    runs = [*merge(parallel, "parallel", seen, apart | request.lying_apart()), *merge(reduced, "reduced", seen, apart)]
    inner = [*innermost(d for d in seen if len(real(d)) > 1), *innermost(seen)]
    contiguous = inner[0] if inner else None
    return Domain(runs, contiguous)


def _are_long(request: Request, reduced: Sequence[Run]) -> bool:
    """Whether rows are so long that a walk less is worth the sums of its tiles."""
    elements = product(tuple(r.extent for r in reduced))
    io = request.nest("rows", Domain([*reduced]), 1).io_dtype
    return isinstance(elements, int) and elements * DTYPES[io].bytes >= LONG


def levels_of(folds: Sequence[tt.Fold], together: bool = False) -> list[list[tt.Fold]]:
    """Reductions that can be made in the same walk, in order of the walks; ``together``: deviations with their mean."""
    depth: dict[Op, int] = {}

    def of(op: Op) -> int:
        if op not in depth:
            below = max((of(o) for o in op.operands), default=0)
            online = isinstance(op, tt.Fold) and (_online_sum(op) or match_place(op) or (together and match_deviations(op)))
            depth[op] = below + (isinstance(op, tt.Fold) and not online)
        return depth[op]

    levels: dict[int, list[tt.Fold]] = {}
    for fold in folds:
        levels.setdefault(of(fold), []).append(fold)
    return [levels[d] for d in sorted(levels)]


def _online_sum(fold: tt.Fold) -> Softmax | None:
    """The softmax whose exponentials ``fold`` sums along their axis."""
    soft = match_exponential(fold.x) if fold.fn == "sum" and len(fold.axes) == 1 else None
    return soft if soft and soft.axis == fold.axes[0] else None


# ---- one pass ------------------------------------------------------------------------------------------------------------


def _one_pass(frame: Frame, folds: Sequence[tt.Fold]) -> None:
    for fold in folds:
        with_loc = frame.w.value(fold.x, operand_coords(frame, fold))
        frame.w.known[fold] = reduce_tile(frame, fold, with_loc)
    for number in range(len(frame.request.program.outputs)):
        frame.store(number)


def operand_coords(frame: Frame, op: Op, number: int = 0) -> Coordinates:
    return frame.domain.coords(frame.request.classes.of_operand(op, number))


def reduce_tile(frame: Frame, fold: tt.Fold, x: Op) -> Op:
    """``x`` reduced over the tiled reduced axes, with the identity outside the extent."""
    b = frame.b
    mine = frame.request.classes.of_operand(fold, 0)
    over = {mine[a] for a in fold.axes}
    held = [r for r in frame.domain.role("held") if not over.isdisjoint(r.classes)]
    for run in (*frame.domain.role("reduced"), *frame.domain.role("n"), *held):
        axis = b.axis[run.name]
        if axis.tile == 1:
            continue
        if run.name not in t.tile_type(x).axes:  # constant along the axis: it still counts once per element
            x = b.fit(x, (*t.tile_type(x).dims, *b.dims(run.name)))
        if axis.ragged:
            x = b.add(t.Mask(x, run.name, identity(fold.fn, t.tile_type(x).dtype)))
        x = b.add(t.Reduce(fold.fn, x, run.name, loc=fold.loc))
    return x


# ---- several walks -------------------------------------------------------------------------------------------------------


def _walks(frame: Frame, levels: Sequence[Sequence[tt.Fold]], reduced: Sequence[Run]) -> None:
    for level in levels:
        walk(frame, level, reduced)
    numbers = range(len(frame.request.program.outputs))
    over = {c for r in reduced for c in r.classes}
    whole = [n for n in numbers if over & set(frame.classes_of(n))]
    for n in numbers:
        if n not in whole:
            frame.store(n)
    if whole:
        def body(_: tuple[Op, ...]) -> tuple[Op, ...]:
            for n in whole:
                frame.store(n)
            return ()

        nested(frame, reduced, [], body)


Range = tuple[Op | None, Op | None]
"""Where a loop begins and ends; ``None``: at 0, and at its axis's extent."""


def nested(frame: Frame, runs: Sequence[Run], init: Sequence[tuple[str, Op]], body, combine=None,
           ranges: Mapping[str, Range] | None = None) -> tuple[Op, ...]:  # fmt: skip
    """Loops over the walked runs (``ranges`` of some), outermost first, carrying ``init`` through; ``whole`` runs need none."""
    walked = [r for r in runs if frame.b.axis[r.name].kind == "loop"]
    if not walked:
        return tuple(body(tuple(v for _, v in init)))
    first, rest = walked[0], walked[1:]

    def inner(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        frame.w.push()
        values = [(name, c) for (name, _), c in zip(init, carried, strict=True)]
        out = nested(frame, rest, values, body, combine, ranges) if rest else tuple(body(carried))
        frame.w.pop()
        return out

    lo, hi = (ranges or {}).get(first.name, (None, None))
    return frame.b.loop(first.name, init, inner, lo, hi, combine)


@dataclass(frozen=True)
class Count:
    """How many elements a walk has taken in for the sum ``of``, as a float: of its own columns where a thread walks alone.  In
    f32 it stands still after 2^24 steps."""

    of: tt.Fold


Carried = tt.Fold | Count
"""What a walk carries."""


def fold_of(carried: Carried) -> tt.Fold:
    """The fold that has the axes of ``carried``, its dtype and its way to join."""
    return carried.of if isinstance(carried, Count) else carried


def walk(frame: Frame, folds: Sequence[tt.Fold], reduced: Sequence[Run], ranges: Mapping[str, Range] | None = None
         ) -> dict[Carried, Op]:  # fmt: skip
    """One walk over the reduced axes (``ranges`` of some) for ``folds``; their totals become known.  In the order carried."""
    folding = Folding(frame, folds)
    totals = nested(frame, reduced, folding.init(), folding.step, folding.join, ranges)
    frame.w.known.update(folding.known(totals))
    return dict(zip(folding.order, totals, strict=True))


class Folding:
    """What a walk carries for ``folds``: it begins with their identities, and a step takes in the tiles of one more place.

    Beside each sum around whose mean deviations are summed it carries a :class:`Count`.
    """

    def __init__(self, frame: Frame, folds: Sequence[tt.Fold]) -> None:
        self.frame = frame
        self.online = {f: s for f in folds if (s := _online_sum(f)) and s.m in folds}
        self.places = {f: p for f in folds if (p := match_place(f)) and p.extreme in folds}
        self.deviations = {f: d for f in folds if (d := match_deviations(f)) and d.total in folds}
        self.plain = [f for f in folds if f not in self.online and f not in self.places and f not in self.deviations]
        counts = dict.fromkeys(Count(d.total) for d in self.deviations.values())
        self.order: list[Carried] = [*self.plain, *counts, *self.deviations, *self.online, *self.places]

    def init(self) -> list[tuple[str, Op]]:
        b = self.frame.b
        return [(name_of_total(f, i), b.full(identity(fold_of(f).fn, _dtype(f)), _dtype(f), dims_of_total(self.frame, f)))
                for i, f in enumerate(self.order)]  # fmt: skip

    def known(self, totals: Sequence[Op]) -> dict[Op, Op]:
        """What ``totals``, in the order carried, are of the program."""
        return {f: total for f, total in zip(self.order, totals, strict=True) if isinstance(f, tt.Fold)}

    def step(self, carried: tuple[Op, ...]) -> tuple[Op, ...]:
        frame, b, w = self.frame, self.frame.b, self.frame.w
        state = dict(zip(self.order, carried, strict=True))
        new: dict[Carried, Op] = {}
        tile: dict[Carried, Op] = {}  # what the step's tile alone has
        for f in self.plain:
            tile[f] = reduce_tile(frame, f, w.value(f.x, operand_coords(frame, f)))
            new[f] = b.binary(COMBINE[f.fn], *ordered(b, state[f], tile[f]))
        for f, found in self.deviations.items():
            count = Count(found.total)
            if count not in tile:
                tile[count] = reduce_tile(frame, found.total, b.const(1.0, _dtype(count)))
                new[count] = b.binary("add", *ordered(b, state[count], tile[count]))
            tile[f] = self._inside(f, found, tile)
            new[f] = self._together(f, found, state, tile)
        for f, soft in self.online.items():
            top = new[soft.m]
            s = b.cast(w.value(soft.s, operand_coords(frame, soft.m)), _dtype(soft.m))  # rounded as its maximum is
            p = b.unary(soft.e.fn, b.binary("sub", s, top))  # type: ignore[attr-defined]
            part = reduce_tile(frame, f, b.cast(p, _dtype(f)))
            new[f] = b.binary("add", _shifted(b, soft, state[f], state[soft.m], top), part)
        for f, place in self.places.items():
            w.known[place.extreme] = new[place.extreme]  # so far
            part = reduce_tile(frame, f, w.value(f.x, operand_coords(frame, f)))
            del w.known[place.extreme]
            before = _still(b, place, state[f], state[place.extreme], new[place.extreme])
            new[f] = b.binary("min", *ordered(b, before, part))
        return tuple(new[f] for f in self.order)

    def _inside(self, f: tt.Fold, found: Deviations, tile: Mapping[Carried, Op]) -> Op:
        """The sum of squares of the step's tile around its own mean."""
        b, dtype = self.frame.b, _dtype(f)
        x = b.cast(self.frame.w.value(found.x, operand_coords(self.frame, f)), dtype)
        less = b.binary("sub", *b.together(x, self._mean(f, found, tile)))
        return reduce_tile(self.frame, f, b.binary("mul", less, less))

    def _mean(self, f: tt.Fold, found: Deviations, side: Mapping[Carried, Op]) -> Op:
        """The mean of what ``side`` has, 0 of nothing."""
        b, dtype = self.frame.b, _dtype(f)
        count = b.binary("max", side[Count(found.total)], b.const(1.0, dtype))
        return b.binary("div", *b.together(b.cast(side[found.total], dtype), count))

    def _together(self, f: tt.Fold, found: Deviations, one: Mapping[Carried, Op], two: Mapping[Carried, Op]) -> Op:
        """The sum of squares around the mean of both sides."""
        b, dims = self.frame.b, t.tile_type(one[f]).dims

        def fit(x: Op) -> Op:
            return b.fit(x, dims) if dims else x

        n, m = (fit(side[Count(found.total)]) for side in (one, two))
        apart = b.binary("sub", *(fit(self._mean(f, found, side)) for side in (two, one)))
        both = b.binary("max", b.binary("add", n, m), b.const(1.0, _dtype(f)))
        # Nothing before, and the square of a large mean: 0 * inf would be NaN.
        between = b.binary("mul", b.binary("mul", apart, b.binary("div", b.binary("mul", n, m), both)), apart)
        return b.binary("add", b.binary("add", *ordered(b, one[f], two[f])), between)

    def join(self, left: tuple[Op, ...], right: tuple[Op, ...]) -> tuple[Op, ...]:
        b = self.frame.b
        one, two = dict(zip(self.order, left, strict=True)), dict(zip(self.order, right, strict=True))
        new: dict[Carried, Op] = {f: b.binary(COMBINE[f.fn], one[f], two[f]) for f in self.plain}
        new |= {c: b.binary("add", one[c], two[c]) for c in self.order if isinstance(c, Count)}
        new |= {f: self._together(f, found, one, two) for f, found in self.deviations.items()}
        for f, soft in self.online.items():
            top = new[soft.m]
            parts = [b.select(b.compare("eq", side[soft.m], top), side[f], _shifted(b, soft, side[f], side[soft.m], top))
                     for side in (one, two)]  # fmt: skip
            new[f] = b.binary("add", *parts)
        for f, place in self.places.items():
            top = new[place.extreme]
            new[f] = b.binary("min", *(_still(b, place, side[f], side[place.extreme], top) for side in (one, two)))
        return tuple(new[f] for f in self.order)


    def of_parts(self, parts: Mapping[Carried, Op]) -> tuple[Op, ...]:
        """What all ``parts`` have together that lie along the reduced axis of a tile."""
        b = self.frame.b

        def total(carried: Carried, x: Op) -> Op:
            return reduce_tile(self.frame, fold_of(carried), x)

        def along(carried: Carried) -> Op:
            """What all have together, beside each part."""
            return b.fit(new[carried], t.tile_type(parts[carried]).dims)

        plain = [c for c in self.order if isinstance(c, Count) or c in self.plain]
        new: dict[Carried, Op] = {c: total(c, parts[c]) for c in plain}
        for f, found in self.deviations.items():
            whole = {c: along(c) for c in (found.total, Count(found.total))}
            apart = b.binary("sub", self._mean(f, found, parts), self._mean(f, found, whole))
            between = b.binary("mul", b.binary("mul", apart, parts[Count(found.total)]), apart)
            new[f] = total(f, b.binary("add", parts[f], between))
        for f, soft in self.online.items():
            mine, top = parts[soft.m], along(soft.m)
            shifted = _shifted(b, soft, parts[f], mine, top)
            new[f] = total(f, b.select(b.compare("eq", mine, top), parts[f], shifted))
        for f, place in self.places.items():
            new[f] = total(f, _still(b, place, parts[f], parts[place.extreme], along(place.extreme)))
        return tuple(new[c] for c in self.order)


def _dtype(carried: Carried) -> str:
    return wide(tt.tensor_type(fold_of(carried)).dtype)


def dims_of_total(frame: Frame, carried: Carried) -> t.Dims:
    mine = frame.request.classes.of(fold_of(carried))
    return frame.b.dims(*(r.name for r in frame.domain.runs if any(c in mine for c in r.classes)))


def ordered(b, state: Op, part: Op) -> tuple[Op, Op]:
    return state, b.fit(part, t.tile_type(state).dims) if t.tile_type(state).dims else part


def name_of_total(carried: Carried, number: int) -> str:
    fold = fold_of(carried)
    if isinstance(carried, Count) or match_place(fold):
        return f"{'count' if isinstance(carried, Count) else 'place'}{number or ''}"
    return f"{ {'sum': 'total', 'max': 'top', 'min': 'bottom'}.get(fold.fn, fold.fn) }{number or ''}".replace(" ", "")


def _shifted(b, soft: Softmax, total: Op, top: Op, new: Op) -> Op:
    """``total``, a sum of exponentials less ``top``, as one of exponentials less ``new``.  Of -inf alone it was NaN, as for a
    whole row of them, or 0 of nothing: with anything else they add nothing."""
    kind, dtype = t.tile_type(top).dtype, t.tile_type(total).dtype
    scale = b.cast(b.unary(soft.e.fn, b.binary("sub", top, new)), dtype)  # type: ignore[attr-defined]
    dead = b.compare("eq", top, b.const(float("-inf"), kind))
    return b.select(dead, b.const(0.0, dtype), b.binary("mul", total, scale))


def _still(b, place: Place, where: Op, extreme: Op, new: Op) -> Op:
    """``where`` an extreme was if ``new`` is no other one; NaN stays the extreme once it is there."""
    kind = t.tile_type(extreme).dtype
    same = b.compare("eq", extreme, new)
    if DTYPES[kind].is_float:
        same = b.binary("or", same, b.unary("isnan", extreme))
    return b.select(same, where, b.const(place.far.value, t.tile_type(where).dtype))
