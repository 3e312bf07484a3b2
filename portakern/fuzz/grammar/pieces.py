"""Arrays made of parts of others: joined, padded, rolled, repeated, cut, written into."""

from __future__ import annotations

from collections.abc import Callable

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production
from portakern.fuzz.grammar.views import any_array, bounded
from portakern.ir.size import Size

MADE = ("{}", "{} * 2.0", "1.0 - {}", "pk.tanh({})", "-{}")
"""What a part is before it is joined to others."""


def _with(s: FuzzScope, x: Var, axis: int, size: Size | None) -> Var:
    """An array like ``x`` but along ``axis``, where it has ``size`` or any."""

    def fits(v: Var) -> bool:
        same = v.dtype == x.dtype or (v.is_number and x.is_number)
        return same and v.rank == x.rank and all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True))
                                                 if i != axis or size is not None)  # fmt: skip

    def fresh() -> Var:
        along = size if size is not None else pick(s.draw, (None, 1, 3)) or s.dim(x.shape)
        dtype = "" if x.is_number and chance(s.draw, 60) else x.dtype
        return s.input([along if i == axis else d for i, d in enumerate(x.shape)], dtype)

    return s.operand(fits, fresh)


def _made(s: FuzzScope, x: Var) -> tuple[str, Range]:
    if not x.is_number or chance(s.draw, 60):
        return str(x), x.range
    return pick(s.draw, MADE).format(x), x.range + x.range | x.range | UNIT - x.range | -x.range


def _parts(s: FuzzScope, x: Var, axis: int, same: bool) -> tuple[str, Range]:
    """Two or three arrays to be joined, the same one perhaps more than once."""
    others = [_with(s, x, axis, x.shape[axis] if same else None) for _ in range(pick(s.draw, (1, 2)))]
    texts, held = zip(*(_made(s, v) for v in (x, *others)), strict=True)
    total = held[0]
    for r in held[1:]:
        total = total | r
    return f"[{', '.join(texts)}]", total


@production(6.0)
def concat(s: FuzzScope) -> Var:
    x = any_array(s, (2, 3, 1, 4))
    axis = s.axis(x)
    parts, held = _parts(s, x, axis, same=False)
    return s.let(f"pk.concat({parts}, {axis})", held)


@production(2.0)
def stack(s: FuzzScope) -> Var:
    x = any_array(s, (2, 1, 3))
    parts, held = _parts(s, x, x.rank - 1, same=True)
    return s.let(f"pk.stack({parts}, {pick(s.draw, range(x.rank + 1))})", held)


@production(1.5)
def interleave(s: FuzzScope) -> Var:
    x = any_array(s, (2, 1, 3))
    parts, held = _parts(s, x, x.rank - 1, same=True)
    return s.let(f"pk.interleave({parts}, {s.axis(x)})", held)


# ---- around ---------------------------------------------------------------------------------------------------------------


@production(4.0)
def padded(s: FuzzScope) -> Var:
    x = any_array(s, (2, 1, 3, 4))
    widths = [(pick(s.draw, (1, 0, 2, 3)), pick(s.draw, (0, 1, 2, 5))) if chance(s.draw, 60) else (0, 0) for _ in x.shape]
    if not any(any(w) for w in widths):
        widths[-1] = (1, 1)
    fills = {"bool": ("True", "False"), "int": ("0", "7")}.get("bool" if x.dtype == "bool" else "int" if x.is_int else "",
                                                               ("0", "1.5", "-2.0"))  # fmt: skip
    fill = pick(s.draw, fills)
    more = "" if fill == "0" else f", {fill}"
    y = s.let(f"pk.pad({x}, {widths}{more})", x.range | Range(-2.0, 1.5) if x.is_number else x.range | Range(0.0, 7.0))
    if not x.is_number or chance(s.draw, 60):
        return y
    forms = (("pk.maximum({}, 0.5)", y.range | UNIT), ("-{}", -y.range), ("pk.abs({})", y.range.magnitude()))
    form, image = pick(s.draw, forms)
    return s.let(form.format(y), image)


def _roomy(s: FuzzScope, ranks: tuple[int, ...] = (2, 1, 3)) -> tuple[Var, int]:
    """An array and a dim of it whose least size can be asked for."""
    x = any_array(s, ranks)
    found = [i for i in reversed(range(x.rank)) if bounded(x, i)]
    if found:
        return x, pick(s.draw, found)
    return s.input((s.fresh_dim(),)), 0


@production(3.0)
def continued(s: FuzzScope) -> Var:
    """Padded with elements of its own."""
    x, axis = _roomy(s)
    mode, more = pick(s.draw, (("reflect", 1), ("replicate", None), ("circular", 0)))
    width = pick(s.draw, (1, 2, 0, 3)), pick(s.draw, (1, 0, 3, 2))
    widths = [width if i == axis else (0, 0) for i in range(x.rank)]
    least = 1 if more is None else max(width) + more
    return s.let(f'pk.pad({x}, {widths}, mode="{mode}")', x.range, needs=[Need(x.shape[axis], least)])


@production(2.0)
def roll(s: FuzzScope) -> Var:
    x, axis = _roomy(s)
    shift = pick(s.draw, (1, -1, 2, -3, 5))
    found = f"pk.roll({x}, {shift}, {axis})"
    needs = [Need(x.shape[axis], abs(shift))]
    if x.is_number and chance(s.draw, 40):
        return s.let(f"{x} - {found}", x.range - x.range, needs=needs)
    return s.let(found, x.range, needs=needs)


# ---- again and again ------------------------------------------------------------------------------------------------------


@production(1.0)
def repeat(s: FuzzScope) -> Var:
    x = any_array(s)
    return s.let(f"pk.repeat({x}, {pick(s.draw, (2, 3))}, {s.axis(x)})", x.range)


@production(1.0)
def tile(s: FuzzScope) -> Var:
    x = any_array(s, (2, 1, 3))
    counts = [pick(s.draw, (1, 2, 3)) for _ in x.shape]
    return s.let(f"pk.tile({x}, {counts})", x.range)


@production(1.0)
def heads_repeated(s: FuzzScope) -> Var:
    """Heads of keys that several heads of queries share, as grouped attention repeats them; then a product with them."""
    d, t, h = s.dim(), s.dim(), s.fresh_dim()
    k = s.input((h, t, d), hint="k")
    group = pick(s.draw, (2, 3, 4))
    more = s.let(f"pk.repeat({k}, {group}, 0)", k.range)
    q = s.input((h * group, s.dim(k.shape), d), hint="q")
    return s.let(f"{q} @ pk.swapaxes({more}, 1, 2)", (q.range * k.range).summed())


# ---- parts and their places -----------------------------------------------------------------------------------------------


@production(2.0)
def parted(s: FuzzScope) -> Var:
    """Cut into parts that go on by themselves, and perhaps are joined in another order."""
    x, axis = _roomy(s)
    n = pick(s.draw, (2, 1, 3))
    cut = f"pk.split({x}, [{n}, {x}.shape[{axis}] - {n}], {axis})"
    needs = [Need(x.shape[axis], n)]
    a = s.let(f"{cut}[0]", x.range, needs=needs)
    b = s.let(f"{cut}[1]", x.range, needs=needs)
    kind = pick(s.draw, ("joined", "apart", "both"))
    if kind == "apart":
        return b
    (left, r), (right, t) = _made(s, b), _made(s, a)
    return s.let(f"pk.concat([{left}, {right}{f', {left}' if kind == 'both' else ''}], {axis})", r | t)


@production(2.5)
def updated(s: FuzzScope) -> Var:
    """Some elements overwritten by another array."""
    x = any_array(s, (2, 1, 3))
    starts: list[int] = []
    sizes: list[Size] = []
    needs: list[Need] = []
    for i, size in enumerate(x.shape):
        whole = not bounded(x, i) or (x.rank > 1 and chance(s.draw, 30))
        start, count = (0, size) if whole else (pick(s.draw, (1, 0, 4)), pick(s.draw, (2, 1, 3)))
        if not whole:
            needs.append(Need(size, start + int(str(count))))
        starts.append(start)
        sizes.append(count)
    part = s.input(sizes, x.dtype, "part")
    return s.let(f"pk.update({x}, {part}, {tuple(starts)})", x.range | part.range, needs=needs)


@production(1.0)
def diagonal(s: FuzzScope) -> Var:
    """A matrix with an array on a diagonal, or the diagonal of a matrix whose size is known."""
    k = pick(s.draw, ("", ", 1", ", -2"))
    if chance(s.draw, 50):
        x = s.number((1,))
        return s.let(f"pk.diag({x}{k})", x.range | UNIT)
    lead: Callable[[], tuple[Size, ...]] = lambda: (s.dim(),) if chance(s.draw, 30) else ()  # noqa: E731
    x = s.input((*lead(), pick(s.draw, (4, 3, 7, 33)), pick(s.draw, (4, 5, 2, 17))))
    return s.let(f"pk.diag({x}{k})", x.range)


@production(1.0)
def one_hot_rows(s: FuzzScope) -> Var:
    """One-hot rows, stored or times a matrix."""
    label = s.integer((1, 2), ("i32", "i64"))
    w = s.number((2,), within=Range(-100.0, 100.0))
    rows = f"pk.one_hot({label}, {w}.shape[0], {w}.dtype)"
    return s.let(rows, UNIT) if chance(s.draw, 40) else s.let(f"{rows} @ {w}", w.range | UNIT)
