"""What moves elements and does not change them: transposes, reshapes, flips, slices, picks; and arrays made of nothing."""

from __future__ import annotations

from functools import partial

from portakern.fuzz.grammar.draws import chance, order, pick
from portakern.fuzz.grammar.elementwise import placed
from portakern.fuzz.grammar.ranges import UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import add, production
from portakern.ir.size import Sym, names_of


def any_array(s: FuzzScope, ranks: tuple[int, ...] = (2, 1, 3, 4)) -> Var:
    """An array of any dtype."""
    return s.operand(lambda v: v.rank in ranks, lambda: s.input(s.shape(ranks)))


# ---- order --------------------------------------------------------------------------------------------------------------


@production(2.0)
def transposed(s: FuzzScope) -> Var:
    x = any_array(s, (2, 3))
    return s.let(f"{x}.T", x.range)


@production(1.5)
def permuted(s: FuzzScope) -> Var:
    x = any_array(s, (3, 2, 4))
    return s.let(f"pk.transpose({x}, {order(s.draw, tuple(range(x.rank))[::-1])})", x.range)


@production(0.6)
def swapaxes(s: FuzzScope) -> Var:
    x = any_array(s, (3, 4, 2))
    return s.let(f"pk.swapaxes({x}, {s.axis(x)}, {s.axis(x)})", x.range)


@production(8.0)
def moved_twice(s: FuzzScope) -> Var:
    """Moves one after the other, of which none undoes another: dims that go round, flips, slices with a start or a step."""
    x = any_array(s, (3, 4, 2, 1))
    for _ in range(pick(s.draw, (2, 3))):
        x = pick(s.draw, (_gone_round, _flip, _slice), (55 if x.rank > 1 else 0, 20, 25))(s, x)
    return x


@production(5.0)
def turned_and_swapped(s: FuzzScope) -> Var:
    """All dims go round by one place, then two of them change places: in the other order it would be another array."""
    x = any_array(s, (3, 4))
    turned = s.let(f"pk.transpose({x}, {(*range(1, x.rank), 0)})", x.range)
    if chance(s.draw, 30):
        turned = pick(s.draw, (_flip, _slice))(s, turned)
    dims = [*range(x.rank)]
    first = pick(s.draw, range(x.rank - 1))
    other = pick(s.draw, range(first + 1, x.rank))
    dims[first], dims[other] = other, first
    return s.let(f"pk.transpose({turned}, {tuple(dims)})", x.range)


def _gone_round(s: FuzzScope, x: Var) -> Var:
    turn = 1 + pick(s.draw, range(x.rank - 1))
    dims = tuple(range(x.rank))
    around = (*dims[turn:], *dims[:turn])
    if chance(s.draw, 60):  # turns alone could be made in either order
        around = order(s.draw, around)
    return s.let(f"pk.transpose({x}, {around})", x.range)


def _flip(s: FuzzScope, x: Var) -> Var:
    return s.let(f"pk.flip({x}, axis={s.axis(x)})", x.range)


def _slice(s: FuzzScope, x: Var) -> Var:
    found = [i for i in reversed(range(x.rank)) if bounded(x, i)]
    if not found:
        return _flip(s, x)
    axis = pick(s.draw, found)
    part, least = pick(s.draw, (("1:", 1), ("::2", 1), ("2::3", 3), (":-1", 1), ("3:", 3), ("1:-1:2", 2)))
    return s.let(_cut(x, axis, part), x.range, needs=[Need(x.shape[axis], least)])


@production(1.5)
def flipped(s: FuzzScope) -> Var:
    x = any_array(s)
    axis = s.axis(x)
    cut = ", ".join(["::-1" if i == axis else ":" for i in range(axis + 1)])
    return s.let(pick(s.draw, (f"pk.flip({x}, axis={axis})", f"{x}[{cut}]", f"pk.flip({x})")), x.range)


# ---- shape --------------------------------------------------------------------------------------------------------------


def shape_texts(x: Var) -> list[str]:
    return [f"{x}.shape[{i}]" for i in range(x.rank)]


@production(1.5)
def joined(s: FuzzScope) -> Var:
    """Neighbouring dims made one."""
    x = any_array(s, (2, 3, 4))
    first = pick(s.draw, range(x.rank - 1))
    dims = shape_texts(x)
    return s.let(f"{x}.reshape({', '.join([*dims[:first], '-1', *dims[first + 2 :]])})", x.range)


@production(1.5)
def split(s: FuzzScope) -> Var:
    """A dim made two, of which one is a number: a multiple by its declaration, or where the size happens to be one."""
    x = any_array(s, (1, 2, 3))
    found = [i for i in range(x.rank) if _factor(x, i) > 1]
    if not found:
        rest = s.shape((2, 1))
        x = s.input((*rest[:-1], s.fresh_dim() * pick(s.draw, (2, 4, 3, 8))))
        found = [x.rank - 1]
    axis = pick(s.draw, found)
    dims = shape_texts(x)
    parts = pick(s.draw, ([str(_factor(x, axis)), "-1"], ["-1", str(_factor(x, axis))]))
    return s.let(f"{x}.reshape({', '.join([*dims[:axis], *parts, *dims[axis + 1 :]])})", x.range)


def _factor(x: Var, axis: int) -> int:
    size = x.shape[axis]
    if isinstance(size, Sym):
        return size.divisibility
    return next((n for n in (2, 3, 4, 5, 7) if size > n and size % n == 0), 1)


@production(0.5)
def split_by_quotient(s: FuzzScope) -> Var:
    """A dim made two, where only its size says that it can be."""
    x = any_array(s, (1, 2, 3))
    found = [i for i in range(x.rank) if isinstance(x.shape[i], Sym) and str(x.shape[i]).isidentifier()]
    if not found:
        x = s.input((s.fresh_dim(),))
        found = [0]
    axis, n = pick(s.draw, found), pick(s.draw, (2, 4, 8))
    dims = shape_texts(x)
    parts = [str(n), f"{dims[axis]} // {n}"]
    multiple = Need(x.shape[axis], 0, n)
    return s.let(f"{x}.reshape({', '.join([*dims[:axis], *parts, *dims[axis + 1 :]])})", x.range, needs=[multiple])


@production(0.5)
def flattened(s: FuzzScope) -> Var:
    x = any_array(s)
    return s.let(f"{x}.reshape(-1)", x.range)


@production(0.5)
def regrouped(s: FuzzScope) -> Var:
    """The same elements in dims that do not line up."""
    x = any_array(s, (2,))
    return s.let(f"{x}.reshape({x}.shape[1], {x}.shape[0])", x.range)


@production(0.5)
def unit_dim_in(s: FuzzScope) -> Var:
    x = any_array(s, (1, 2, 3))
    return s.let(f"pk.expand_dims({x}, {pick(s.draw, range(x.rank + 1))})", x.range)


@production(0.5)
def unit_dim_out(s: FuzzScope) -> Var:
    x = s.operand(lambda v: 1 in v.shape, lambda: s.input((*s.shape((1, 2)), 1)))
    return s.let(f"pk.squeeze({x}, {x.shape.index(1)})", x.range)


@production(0.7)
def repeated(s: FuzzScope) -> Var:
    x = any_array(s, (1, 2))
    count = pick(s.draw, ("3", f"{x}.shape[0]"))
    return s.let(f"pk.broadcast_to({x}, ({count}, {', '.join(shape_texts(x))}))", x.range)


# ---- parts --------------------------------------------------------------------------------------------------------------


def bounded(x: Var, axis: int) -> bool:
    """Whether a least size of this dim can be asked for."""
    size = x.shape[axis]
    return isinstance(size, Sym) and len(names_of(size)) == 1


def _cuttable(s: FuzzScope) -> tuple[Var, int]:
    x = any_array(s)
    found = [i for i in reversed(range(x.rank)) if bounded(x, i)]
    if found:
        return x, pick(s.draw, found)
    x = s.input((s.fresh_dim(),))
    return x, 0


def _cut(x: Var, axis: int, part: str) -> str:
    return f"{x}[{', '.join([*(':' for _ in range(axis)), part])}]"


@production(1.5)
def sliced(s: FuzzScope) -> Var:
    x, axis = _cuttable(s)
    part, least = pick(s.draw, (("1:", 1), (":-1", 1), (":3", 3), ("2:-1", 3), ("-2:", 2), ("1:4", 4)))
    return s.let(_cut(x, axis, part), x.range, needs=[Need(x.shape[axis], least)])


@production(2.0)
def strided(s: FuzzScope) -> Var:
    x, axis = _cuttable(s)
    part, least = pick(s.draw, (("::2", 0), ("1::2", 1), ("::3", 0), ("1::3", 1), ("::4", 0), ("1:-1:2", 2)))
    return s.let(_cut(x, axis, part), x.range, needs=[Need(x.shape[axis], least)])


@production(1.0)
def neighbours(s: FuzzScope) -> Var:
    """Differences of elements that follow each other."""
    x, axis = _cuttable(s)
    if not x.is_number:
        x, axis = s.input((s.fresh_dim(),)), 0
    return s.let(f"{_cut(x, axis, '1:')} - {_cut(x, axis, ':-1')}", x.range - x.range, needs=[Need(x.shape[axis], 1)])


@production(1.0)
def even_and_odd(s: FuzzScope) -> Var:
    """Both halves of pairs, side by side (as in rotary embeddings)."""
    rest = s.shape((2, 1))
    x = s.operand(lambda v: v.is_number and _factor(v, v.rank - 1) == 2 if v.rank else False,
                  lambda: s.input((*rest[:-1], s.fresh_dim() * 2)))  # fmt: skip
    a = s.let(f"{x}[..., ::2]", x.range)
    b = s.let(f"{x}[..., 1::2]", x.range)
    form = pick(s.draw, ("{} + {}", "{} * {}", "{} - {}"))
    return s.let(form.format(a, b), (a.range * b.range) | (a.range + b.range) | (a.range - b.range))


@production(1.0)
def halves(s: FuzzScope) -> Var:
    """The first half against the second (as in gated units)."""
    d = s.fresh_dim()
    x = s.input((*s.shape((1, 2)), d * 2))
    n = f"{x}.shape[-1] // 2"
    a = s.let(f"{x}[..., : {n}]", x.range)
    b = s.let(f"{x}[..., {n} :]", x.range)
    return s.let(f"pk.sigmoid({a}) * {b}", x.range)


@production(1.0)
def element(s: FuzzScope) -> Var:
    x, axis = _cuttable(s)
    index, least = pick(s.draw, ((0, 1), (-1, 1), (2, 3)))
    return s.let(_cut(x, axis, str(index)), x.range, needs=[Need(x.shape[axis], least)])


def _triangle(fn: str, s: FuzzScope) -> Var:
    x = s.operand(lambda v: v.rank in (2, 3) and v.dtype != "bool", lambda: s.input(s.shape((2, 3))))
    k = pick(s.draw, ("", ", 1", ", -1"))
    return s.let(f"pk.{fn}({x}{k})", x.range | Range(0.0, 0.0))


for _fn in ("tril", "triu"):
    add(_fn, 0.7, partial(_triangle, _fn))


# ---- sources ------------------------------------------------------------------------------------------------------------


@production(2.5)
def arange(s: FuzzScope) -> Var:
    """Positions, perhaps counted from the end or from a few further on, as weights of what lies there."""
    x = s.number()
    axis = s.axis(x)
    n = f"{x}.shape[{axis}]"
    counted = pick(s.draw, (f"pk.arange({n}, pk.f32)", f"pk.arange({n}, pk.f32)[::-1]", f"pk.arange({n} + 3, pk.f32)[3:]",
                            f"pk.arange(2 * {n}, pk.f32)[1::2]"), (50, 20, 15, 15))  # fmt: skip
    i = placed(counted, [j == axis for j in range(x.rank)])
    return s.let(f"{x} * ({i} * 0.01 + 1.0)", x.range * Range(1.0, 10.0))


@production(0.6)
def iota(s: FuzzScope) -> Var:
    x = s.number((2, 3))
    shape = ", ".join(shape_texts(x))
    return s.let(f"{x} * (pk.iota([{shape}], {s.axis(x)}) % 5)", x.range * Range(0.0, 4.0))


@production(0.5)
def full(s: FuzzScope) -> Var:
    x = s.number()
    shape = ", ".join(shape_texts(x))
    form = pick(s.draw, ("pk.zeros([{}])", "pk.ones([{}])", "pk.full([{}], 0.25)"))
    return s.let(f"pk.maximum({x}, {form.format(shape)})", x.range | UNIT)


@production(0.6)
def one_hot(s: FuzzScope) -> Var:
    """Which position along a new dim an integer names."""
    label = s.integer((1, 2), ("i32", "i64"))
    d = s.number((1,))
    index = f"{label}[{', '.join([*(':' for _ in range(label.rank)), 'None'])}]"
    return s.let(f"pk.where({index} == pk.arange({d}.shape[0], {label}.dtype), {d}, 0.0)", d.range | UNIT)
