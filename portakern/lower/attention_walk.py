"""The walk over keys of attention, and what follows from what it carries.

It carries the running maximum, the running sums and the running product; whenever the maximum grows, what was carried is scaled
down.  Whatever makes the scores (a contraction, a bias, a mask, a cap) happens on the tile.

With ``lag=8`` in its schedule the maximum that is carried stays until one comes that is 8 powers of two larger.  Weights are up
to 256 then, divided by their sum they are the same, and nearly no step has anything to scale.  Results are divided by
multiplying them with one quotient for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.builder import Builder
from portakern.ir.core import Op
from portakern.ir.size import Size
from portakern.lower.bounds import Bound, find_bounds
from portakern.lower.classes import AxisClass
from portakern.lower.contraction import dot, operand
from portakern.lower.cuts import Flow
from portakern.lower.domain import real
from portakern.lower.kernel import Frame
from portakern.lower.online import Attention, through_casts, through_moves
from portakern.lower.tiles import wide

MOST_LAG = 8
"""Weights of 16 bits go up to 256 then, and sums of them times values as much farther than without."""


GUARDED = 3
"""The value of the option ``split`` with which one walk takes all tiles, and asks of each whether any row sees it in part."""


@dataclass(frozen=True)
class Carried:
    """What a walk over keys carries: each row's maximum, its sums of exponentials, and its exponentials times the values."""

    top: Op
    totals: tuple[Op, ...]
    acc: Op

    def __iter__(self) -> Iterator[Op]:
        return iter((self.top, *self.totals, self.acc))


def walk(frame: Frame, found: Attention, scores: tt.Contract, part: tuple[Op, Op] | None = None) -> Carried:
    """A walk over all keys that rows of the block see, or those in a ``part`` of them."""
    b, w, classes = frame.b, frame.w, frame.request.classes
    soft, out = found.weights.softmax, found.out
    m, n, d = (frame.domain.role(r)[0].name for r in "mnd")
    rows, cells, result = b.dims(m), b.dims(m, n), b.dims(m, d)
    kind = wide(tt.tensor_type(soft.e).dtype)
    score_at = frame.domain.coords(classes.of_operand(soft.m, 0))
    side = found.weights_side
    value_op = (out.rhs, out.lhs)[side]
    value_at = frame.domain.coords(classes.of_operand(out, 1 - side))
    dtype = out.dtype if DTYPES[out.dtype].bits >= 32 else "f32"

    _hoist(frame, scores, n)  # the operand that does not change along the walk is loaded once, before it

    def scores_tile() -> Op:
        frame.w.known[scores] = _scores(frame, scores, (m, n))
        s = b.cast(w.value(soft.s, score_at), kind)
        s = b.fit(s, cells)
        if b.axis[n].ragged:
            s = b.add(t.Mask(s, n, float("-inf")))
        return s

    lag = _lag(frame, found)
    guarded: dict[Op, Op] = {}  # comparisons made only from some tile on, and where that is

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        top, *sums, acc = carried
        w.push()
        for test, middle in guarded.items():
            w.known[test] = _from_some_tile_on(frame, test, middle)
        s = scores_tile()
        new = b.binary("max", top, b.add(t.Reduce("max", s, n)))
        if lag:  # of -inf twice the difference is NaN, which is not more
            new = b.select(b.compare("gt", b.binary("sub", new, top), b.const(lag, kind)), new, top)
        shift = _guarded(b, new)
        p = b.unary(soft.e.fn, b.binary("sub", s, shift))  # type: ignore[attr-defined]
        scale = b.unary(soft.e.fn, b.binary("sub", top, shift))  # type: ignore[attr-defined]
        totals = [_added(b, x, scale, p, n) for x in sums]
        weights = b.cast(p, tt.tensor_type(out.lhs).dtype)
        value = operand(frame, value_op, value_at, (d, n), n)
        pair = (weights, value) if side == 0 else (value, weights)
        scaled = b.binary("mul", acc, b.fit(b.cast(scale, dtype), result))
        acc = b.add(t.Dot(*pair, scaled, n, out.precision, loc=out.loc))
        w.pop()
        for made in (scores, *guarded):
            del w.known[made]
        return (new, *totals, acc)

    init = [("top", b.full(float("-inf"), kind, rows)),
            *((f"total{i or ''}", b.full(0.0, _dtype(x), rows)) for i, x in enumerate(found.sums)),
            ("acc", b.full(0.0, dtype, result))]
    bounds = [x for x in find_bounds(soft.s, _class(frame, "n"), classes) if usable(frame, x)]
    lo, hi = limits(frame, bounds)
    if part is not None:
        lo = part[0] if lo is None else b.binary("max", lo, part[0])
        hi = part[1] if hi is None else b.binary("min", hi, part[1])
    split = frame.schedule.option("split", 0)
    whole = inside(frame, [x for x in bounds if x.upper]) if split and part is None else None
    walks: list[tuple[Op | None, Op | None, dict[Op, Op]]] = [(lo, hi, {})]
    if whole is not None and split == GUARDED:
        guarded = {test: whole[0] for test, holds in whole[1].items() if holds.value}  # type: ignore[attr-defined]
    elif whole is not None:
        middle, tests = whole
        walks = [(lo, middle, tests), (middle if lo is None else b.binary("max", lo, middle), hi, {})]
    for begin, end, known in walks if split != 2 else reversed(walks):
        w.known.update(known)
        carried = b.loop(n, init, step, lo=begin, hi=end)
        for test in known:
            del w.known[test]
        init = [(name, value) for (name, _), value in zip(init, carried, strict=True)]
    top, *totals, acc = (value for _, value in init)
    return Carried(top, tuple(totals), acc)


def settle(frame: Frame, found: Attention, carried: Carried, keys: Size) -> None:
    """The values of the stage's reductions, of a walk over all ``keys``."""
    b, w, soft = frame.b, frame.w, found.weights.softmax
    top, *totals, acc = carried
    if not _only_normalised(frame, found):
        nothing = _nan_where_masked(b, top, keys)
        totals = [b.binary("add", x, b.cast(nothing, t.tile_type(x).dtype)) for x in totals]
        acc = b.binary("add", acc, b.fit(b.cast(nothing, t.tile_type(acc).dtype), t.tile_type(acc).dims))
    w.known[soft.m] = b.cast(top, _dtype(soft.m))
    w.known.update(zip(found.sums, totals, strict=True))
    w.known[found.out] = _normalised(frame, found, acc, keys)


def both(b: Builder, found: Attention, left: Carried, right: Carried) -> Carried:
    """What a walk over the keys of both carries."""
    fn = found.weights.softmax.e.fn  # type: ignore[attr-defined]
    top = b.binary("max", left.top, right.top)
    shift = _guarded(b, top)
    scales = [b.unary(fn, b.binary("sub", side.top, shift)) for side in (left, right)]

    def summed(pair: Sequence[Op]) -> Op:
        return b.binary("add", *(b.binary("mul", x, b.fit(b.cast(s, t.tile_type(x).dtype), t.tile_type(x).dims))
                                 for x, s in zip(pair, scales, strict=True)))  # fmt: skip

    return Carried(top, tuple(map(summed, zip(left.totals, right.totals, strict=True))), summed((left.acc, right.acc)))


def all_of(b: Builder, found: Attention, parts: Carried, along: str) -> Carried:
    """What a walk over the keys of all ``parts`` carries, which lie ``along`` an axis of the tiles."""
    top = b.add(t.Reduce("max", parts.top, along))
    fn = found.weights.softmax.e.fn  # type: ignore[attr-defined]
    scale = b.unary(fn, b.binary("sub", parts.top, b.fit(_guarded(b, top), t.tile_type(parts.top).dims)))

    def summed(x: Op) -> Op:
        factor = b.fit(b.cast(scale, t.tile_type(x).dtype), t.tile_type(x).dims)
        return b.add(t.Reduce("sum", b.binary("mul", x, factor), along))

    return Carried(top, tuple(map(summed, parts.totals)), summed(parts.acc))


def _lag(frame: Frame, found: Attention) -> float:
    """By how much a row's maximum may grow before it is taken for the new one, in units of the scores; 0: at once.

    More only where the maximum is nothing but what weights that are divided by their own sum are shifted by.
    """
    powers, soft = frame.schedule.option("lag", 0), found.weights.softmax
    if not isinstance(powers, int) or not 0 <= powers <= MOST_LAG:
        raise ScheduleError(f"lag={powers}: maxima lag by 0 to {MOST_LAG} powers of two", schedule=str(frame.schedule))
    if not powers or not _only_normalised(frame, found):
        return 0.0
    users, shifted = Flow(frame.request.program).users, through_casts(soft.e.operands[0])
    frontier: list[Op] = [soft.m]
    while frontier:
        op = frontier.pop()
        others = [u for u in users.get(op, []) if u is not shifted]
        if op in frame.request.program.results or not all(isinstance(u, tt.Convert | tt.Expand | tt.Reshape) for u in others):
            return 0.0
        frontier += others
    return powers * (1.0 if soft.e.fn == "exp2" else math.log(2.0))  # type: ignore[attr-defined]


def _guarded(b: Builder, top: Op) -> Op:
    """``top``, or 0 where it is -inf: a row of -inf so far must not make -inf - -inf, which is NaN."""
    dead = b.compare("eq", top, b.const(float("-inf"), t.tile_type(top).dtype))
    return b.select(dead, b.const(0.0, t.tile_type(top).dtype), top)


def _only_normalised(frame: Frame, found: Attention) -> bool:
    """Whether the weights are divided by their own sum, and nobody else asks for it: then 0 / 0 is what a row of -inf gives."""
    program, divisor = frame.request.program, found.weights.divisor
    if divisor is None or found.sums != (through_moves(divisor),):
        return False
    users, weights = Flow(program).users, through_casts((found.out.lhs, found.out.rhs)[found.weights_side])
    frontier: list[Op] = [*found.sums]
    while frontier:
        op = frontier.pop()
        others = [u for u in users.get(op, []) if u is not weights]
        if op in program.results or not all(isinstance(u, tt.Convert | tt.Expand | tt.Reshape) for u in others):
            return False
        frontier += others
    return True


def _nan_where_masked(b: Builder, top: Op, keys: Size) -> Op:
    """NaN for a row of -inf alone, whose exponentials of -inf - -inf were taken for 0; else 0."""
    nothing = b.binary("sub", top, top)
    none = b.const(0.0, t.tile_type(top).dtype)
    if isinstance(keys, int):
        return nothing if keys else none
    return b.select(b.compare("eq", b.scalar_size(keys), b.const(0, "i32")), none, nothing)


def _dtype(op: Op) -> str:
    return wide(tt.tensor_type(op).dtype)


def _added(b: Builder, total: Op, scale: Op, p: Op, walked: str) -> Op:
    """A running sum of exponentials, scaled down to a new maximum, plus the exponentials of one more tile."""
    dtype = t.tile_type(total).dtype
    return b.binary("add", b.binary("mul", total, b.cast(scale, dtype)), b.add(t.Reduce("sum", b.cast(p, dtype), walked)))


def _from_some_tile_on(frame: Frame, test: Op, middle: Op) -> Op:
    """The comparison ``test``, said to hold of tiles before ``middle``, of which every row of the block sees all."""
    b, n = frame.b, frame.domain.role("n")[0].name
    real = frame.w.value(test, frame.domain.coords(frame.request.classes.of(test)))
    whole = b.compare("lt", b.add(t.Start(n)), middle)
    return b.binary("or", b.fit(whole, t.tile_type(real).dims), real)


def _class(frame: Frame, role: str) -> AxisClass:
    return frame.domain.role(role)[0].classes[0]


def _hoist(frame: Frame, scores: tt.Contract, walked: str) -> None:
    """Write the scores' operand that does not run along ``walked`` now, so that the walk finds it known."""
    for number, op in ((0, scores.lhs), (1, scores.rhs)):
        where = frame.domain.coords(frame.request.classes.of_operand(scores, number))
        used = {a for c in where if isinstance(c, t.Index) for a in c.axes}
        if walked not in used:
            frame.w.value(op, where)


def _scores(frame: Frame, scores: tt.Contract, rows_and_walked: tuple[str, str]) -> Op:
    m, n = rows_and_walked
    k = frame.domain.role("k")[0].name
    classes = frame.request.classes
    lhs, rhs = (frame.domain.coords(classes.of_operand(scores, i)) for i in (0, 1))
    lhs_axes = {a for c in lhs if isinstance(c, t.Index) for a in c.axes}
    first, second = (m, n) if n not in lhs_axes else (n, m)
    dtype = scores.dtype if DTYPES[scores.dtype].bits >= 32 else "f32"
    zero = frame.b.full(0.0 if DTYPES[dtype].is_float else 0, dtype, frame.b.dims(m, n))
    sides = ((scores.lhs, lhs), (scores.rhs, rhs))
    return frame.b.cast(dot(frame, scores, sides, zero, (first, second, k)), wide(scores.dtype))


def _normalised(frame: Frame, found: Attention, acc: Op, keys: Size) -> Op:
    """The product of normalised weights: what divides or scales a row's weights does so to the row's result."""
    b, weights = frame.b, found.weights
    row = weights.divisor or weights.factor
    if row is None:
        return b.cast(acc, wide(found.out.dtype))
    classes = frame.request.classes
    where = frame.domain.coords(classes.of(row) if tt.tensor_type(row).shape else ())
    value = b.cast(frame.w.value(row, where), t.tile_type(acc).dtype)
    if not isinstance(keys, int):  # the product over no keys is 0, though the weights' sum is 0 as well
        value = b.select(b.compare("eq", b.scalar_size(keys), b.const(0, "i32")), b.const(1.0, t.tile_type(acc).dtype), value)
    fn = "div" if weights.divisor is not None else "mul"
    if fn == "div" and _by_quotient(frame, found):  # of a sum of 0 it is infinite, and 0 times that is NaN, as 0 / 0 is
        value, fn = b.binary("div", b.const(1.0, t.tile_type(value).dtype), value), "mul"
    value = b.fit(value, t.tile_type(acc).dims)
    return b.cast(b.binary(fn, acc, value), wide(found.out.dtype))


def _by_quotient(frame: Frame, found: Attention) -> bool:
    """Whether a row is multiplied by one quotient: where the schedule asks for what is fast on Hopper."""
    return bool(_lag(frame, found)) or (bool(frame.schedule.option("ahead", 0)) and _only_normalised(frame, found))


def usable(frame: Frame, bound: Bound) -> bool:
    """Whether the bound is one of a block: of its rows, or of what is read for it as a single number."""
    single = {c for r in frame.domain.role("batch") for c in r.classes}
    rows = frame.domain.role("m")[0].classes
    return (bound.row is None or bound.row in rows) and (bound.read is None or single.issuperset(real(bound.read.axes)))


FAR = 1 << 30
"""Farther than any coordinate: what is read is moved to within it before anything is added."""


def _read(frame: Frame, bound: Bound) -> Op | None:
    """What a bound reads for this block, as an i32."""
    if bound.read is None:
        return None
    b = frame.b
    x = frame.w.value(bound.read.value, frame.domain.coords(bound.read.axes))
    dtype = t.tile_type(x).dtype
    if dtype == "i32" and bound.row is None and bound.offset in (-1, 0):
        return x
    far = (b.const(-FAR, dtype), b.const(FAR, dtype))
    return b.cast(b.binary("min", b.binary("max", x, far[0]), far[1]), "i32")


def limits(frame: Frame, bounds: list[Bound]) -> tuple[Op | None, Op | None]:
    """Bounds of the walk for this block of rows; where several apply the tighter one."""
    b = frame.b
    rows = frame.domain.role("m")[0]
    lo: Op | None = None
    hi: Op | None = None
    for bound in bounds:
        alone = rows.classes == (bound.row,)  # else a block may have all of them
        base = b.add(t.Start(rows.name)) if alone else None
        # The last row of the block reaches farthest up, its first row farthest down.
        last: Size = 1 if bound.row is None else b.axis[rows.name].tile if alone else bound.row.extent
        reach = bound.offset + last if bound.upper else bound.offset
        limit = b.scalar_size(reach)
        for part in (base, _read(frame, bound)):
            limit = b.binary("add", part, limit) if part is not None else limit
        if bound.upper:
            hi = limit if hi is None else b.binary("min", hi, limit)
        else:
            floor = limit if t.begins_inside(limit) else b.binary("max", limit, b.scalar_size(0))
            lo = floor if lo is None else b.binary("max", lo, floor)
    return lo, hi


def inside(frame: Frame, bounds: list[Bound]) -> tuple[Op, dict[Op, Op]] | None:
    """Where the tiles end (of upper bounds) or begin (of lower ones) that every row of the block sees whole, and the
    comparisons with what they are there.

    ``None`` where there are no bounds, or of both kinds, or where the end of those tiles does not fall between two tiles.
    """
    b = frame.b
    m, n = (b.axis[frame.domain.role(r)[0].name] for r in "mn")
    rows = frame.domain.role("m")[0].classes
    row = rows[0]
    found = [x for x in bounds if x.test is not None]
    if len({x.upper for x in found}) != 1 or any(x.read is not None or not isinstance(x.offset, int) for x in found):
        return None
    if any(x.row is not None for x in found) and (m.tile % n.tile or len(rows) > 1):
        return None
    middle: Op | None = None
    tests: dict[Op, Op] = {}
    for x in found:
        assert isinstance(x.offset, int) and x.test is not None
        tests[x.test] = b.const(x.holds, "bool")
        if x.upper:
            reach = (x.offset + 1) // n.tile * n.tile  # the block's first row sees this far beyond its own number
        else:
            last = x.offset + (m.tile - 1 if x.row is row else 0)
            reach = -(-last // n.tile) * n.tile  # and its last row begins that far beyond the first one's number
        limit = b.scalar_size(reach)
        limit = b.binary("add", b.add(t.Start(m.name)), limit) if x.row is row else limit
        limit = b.binary("max", limit, b.scalar_size(0)) if reach < 0 else limit
        middle = limit if middle is None else b.binary("min" if x.upper else "max", middle, limit)
    assert middle is not None
    return middle, tests
