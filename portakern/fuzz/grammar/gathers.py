"""What goes by integers that are data: elements picked, and elements put in place."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import INTEGERS, FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production
from portakern.fuzz.grammar.views import any_array, bounded


@production(1.0)
def taken_along(s: FuzzScope) -> Var:
    """One element of every line, named by integers."""
    def fits(v: Var) -> bool:
        return (v.is_number or v.dtype in ("i32", "i64")) and v.rank in (1, 2, 3)

    x = s.operand(fits, lambda: s.input(s.shape((2, 1, 3))))
    axis = s.axis(x)
    shape = tuple(1 if i == axis else d for i, d in enumerate(x.shape))
    index = s.input(shape, pick(s.draw, ("i32", "i64")), "index", below=x.shape[axis])
    return s.let(f"pk.take_along({x}, {index}, axis={axis})", x.range | Range(0.0, 0.0))


def _fill(s: FuzzScope, x: Var) -> str:
    return pick(s.draw, ("", ", fill=2")) if x.dtype != "bool" else ""


@production(2.0)
def taken(s: FuzzScope) -> Var:
    """Elements along a dim, named by integers of which some are outside, or by positions counted anew."""
    x = any_array(s, (2, 1, 3))
    axis, fill = s.axis(x), _fill(s, x)
    n = f"{x}.shape[{axis}]"
    if chance(s.draw, 25):
        index = pick(s.draw, (f"pk.arange(2 * {n}) // 2", f"pk.arange({n}) * 2", f"{n} - pk.arange({n})",
                              f"pk.arange({n}, pk.i64)"))  # fmt: skip
        return s.let(f"pk.take({x}, {index}, axis={axis}{fill})", x.range | Range(0.0, 2.0))
    index = s.input(s.shape((1, 2), (70, 30)), pick(s.draw, ("i32", "i64")), "index")
    cut = ", ".join([*(":" for _ in range(axis)), str(index)])
    text = f"{x}[{cut}]" if not fill and chance(s.draw, 30) else f"pk.take({x}, {index}, axis={axis}{fill})"
    return s.let(text, x.range | Range(0.0, 2.0))


@production(3.0)
def taken_from_a_part(s: FuzzScope) -> Var:
    """Of a slice, whose neighbours in the array are outside of it, what integers name, of which some are outside."""
    x = any_array(s, (2, 1, 3))
    axis = s.axis(x)
    part, least = pick(s.draw, (("1:", 1), ("2:", 2), ("1:-1", 2), ("3::2", 3), (":-2", 2)))
    cut = s.let(f"{x}[{', '.join([*(':' for _ in range(axis)), part])}]", x.range, needs=[Need(x.shape[axis], least)])
    index = s.input(s.shape((1, 2), (80, 20)), pick(s.draw, ("i32", "i64")), "index")
    return s.let(f"pk.take({cut}, {index}, axis={axis}{_fill(s, x)})", x.range | Range(0.0, 2.0))


@production(1.0)
def taken_along_several(s: FuzzScope) -> Var:
    """Several elements of every line, named by integers of which some are outside."""
    x = any_array(s, (2, 1, 3))
    axis = s.axis(x)
    shape = tuple(s.dim(x.shape) if i == axis else d for i, d in enumerate(x.shape))
    index = s.input(shape, pick(s.draw, ("i32", "i64")), "index")
    return s.let(f"pk.take_along({x}, {index}, axis={axis}{_fill(s, x)})", x.range | Range(0.0, 2.0))


@production(1.0)
def rows_of_a_table(s: FuzzScope) -> Var:
    """Rows by their numbers, normalised or multiplied (an embedding)."""
    table = s.number((2,), within=Range(-100.0, 100.0))
    index = s.input(s.shape((1, 2), (60, 40)), pick(s.draw, ("i32", "i64")), "index", below=table.shape[0])
    y = s.let(f"pk.take({table}, {index})", table.range)
    if chance(s.draw, 50):
        return s.let(f"{y} * pk.rsqrt(pk.mean({y} * {y}, axis=-1, keepdims=True) + 1e-2)", Range(-30.0, 30.0))
    w = s.input((table.shape[1], s.dim(y.shape)), hint="w")
    return s.let(f"{y} @ {w}", (y.range * w.range).summed())


# ---- put in place -------------------------------------------------------------------------------------------------------


MANY = 33
"""Of fewer updates, or of fewer elements, each is compared with each: more of both are sorted."""

MODES = ("add", "max", "min", "set", "mul")


def _scattered(s: FuzzScope, x: Var, index: str, updates: Var, axis: int, needs: list[Need]) -> Var:
    mode = pick(s.draw, MODES, (35, 20, 20, 20, 5))
    held = x.range + updates.range.summed() if mode == "add" else x.range | updates.range
    if mode == "mul":
        factors = f"pk.sign({updates})"  # so that no product of many leaves the dtype
        return s.let(f'pk.scatter({x}, {index}, {factors}, {axis}, "mul")', x.range | -x.range, needs=needs)
    return s.let(f'pk.scatter({x}, {index}, {updates}, {axis}, "{mode}")', held, needs=needs)


@production(5.0)
def scatter(s: FuzzScope) -> Var:
    """Updates set, added, multiplied, or the largest or smallest taken, where integers say, of which some are outside or
    equal; every line has its own."""
    x = s.operand(lambda v: v.rank in (1, 2, 3) and (v.is_number or v.dtype in INTEGERS), lambda: s.input(s.shape((2, 1, 3))))
    axis = s.axis(x)
    many = bounded(x, axis) and chance(s.draw, 50)
    count = s.fresh_dim() if many else s.dim(x.shape)
    shape = tuple(count if i == axis else d for i, d in enumerate(x.shape))
    inside = chance(s.draw, 60)
    index = s.input(shape, pick(s.draw, ("i32", "i64")), "index", below=x.shape[axis] if inside else 0)
    updates = s.like(shape, x.dtype, "updates")
    return _scattered(s, x, str(index), updates, axis, [Need(x.shape[axis], MANY), Need(count, MANY)] if many else [])


@production(7.0)
def rows_put(s: FuzzScope) -> Var:
    """Whole rows, or elements of one line, put where integers say, by the order of these."""
    many = chance(s.draw, 65)
    rest = s.shape((1,)) if chance(s.draw, 60) else ()
    size, count = (s.fresh_dim(), s.fresh_dim()) if many else (s.dim(rest), s.dim(rest))
    x = s.input((size, *rest))
    index = s.input((count,), pick(s.draw, ("i32", "i64")), "index", below=size if chance(s.draw, 70) else 0)
    updates = s.like((count, *rest), x.dtype, "updates")
    spread = f"pk.broadcast_to({index}[{', '.join([':', *['None'] * len(rest)])}], {updates}.shape)"
    return _scattered(s, x, spread, updates, 0, [Need(size, MANY), Need(count, MANY)] if many else [])


@production(1.0)
def rows_sent(s: FuzzScope) -> Var:
    """Rows put where the largest of products says, or in the order of that, as a router sends them to experts and back."""
    x = s.number((2,), within=Range(-100.0, 100.0))
    w = s.input((x.shape[1], s.dim(x.shape)), hint="w")
    place = s.let(f"pk.argmax(pk.matmul({x}, {w}, dtype=pk.f32), axis=-1)", Range(0.0, 1000.0), "place",
                  needs=[Need(w.shape[1], 1)])  # fmt: skip
    if chance(s.draw, 60):
        place = s.let(f"pk.argsort({place}, axis=0)", Range(0.0, 1000.0), "order")
    return s.let(f"pk.index_put(pk.zeros({x}.shape, {x}.dtype), ({place},), {x} * 1.5)", x.range * Range(-1.5, 1.5))


@production(1.0)
def counted(s: FuzzScope) -> Var:
    """How often each number is given: a histogram."""
    n = s.number((1,))
    index = s.input((s.dim(n.shape),), pick(s.draw, ("i32", "i64")), "index", below=n.shape[0])
    return s.let(f"pk.scatter(pk.zeros([{n}.shape[0]]), {index}, pk.ones([{index}.shape[0]]), 0)", Range(0.0, 1e3))
