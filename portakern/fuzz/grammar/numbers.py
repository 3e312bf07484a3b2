"""Dtypes: casts between them, integers, and the bits of floats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.elementwise import companion
from portakern.fuzz.grammar.ranges import UNIT, Range, limits
from portakern.fuzz.grammar.scope import INTEGERS, FuzzScope, Var
from portakern.fuzz.grammar.table import add, production

WIDE = ("i32", "i64")

# ---- casts --------------------------------------------------------------------------------------------------------------


def _cast(dtype: str, s: FuzzScope) -> Var:
    """From any dtype but this."""
    room = limits(dtype)
    x = s.operand(lambda v: v.dtype != dtype and v.rank > 0 and v.range.within(room), lambda: s.input(s.shape()))
    return s.let(f"pk.cast({x}, pk.{dtype})", x.range)


for _dtype, _weight in (("f32", 2.0), ("bf16", 1.0), ("f16", 0.5), ("f64", 0.1)):
    add(f"to_{_dtype}", _weight, partial(_cast, _dtype))


@production(1.0)
def to_own(s: FuzzScope) -> Var:
    """Rounded to the dtype of another array."""
    x, y = s.number(), s.number()
    return s.let(f"pk.cast({x}, {y}.dtype)", x.range)


def _from_f8(dtype: str, s: FuzzScope) -> Var:
    x = s.input(s.shape(), dtype)
    return s.let(f"pk.cast({x}, pk.{pick(s.draw, ('f32', 'bf16', 'f16'))})", x.range)


def _to_f8(dtype: str, s: FuzzScope) -> Var:
    x = s.number()
    return s.let(f"pk.cast(pk.clip({x}, -400.0, 400.0), pk.{dtype})", Range(-200.0, 200.0))


for _dtype in ("f8e4m3", "f8e5m2"):
    add(f"from_{_dtype}", 0.12, partial(_from_f8, _dtype))
    add(f"to_{_dtype}", 0.12, partial(_to_f8, _dtype))


@production(1.0)
def float_to_int(s: FuzzScope) -> Var:
    """Where it fits: what does not is undefined."""
    x = s.number()
    dtype = pick(s.draw, ("i32", "i8", "i64", "i16", "u8"))
    low = 0 if dtype == "u8" else -90
    inner = pick(s.draw, ("{}", "pk.round({})", "{} * 10.0"))
    return s.let(f"pk.cast(pk.clip({inner.format(x)}, {low}.0, 90.0), pk.{dtype})", Range(low, 90.0))


@production(1.0)
def int_to_float(s: FuzzScope) -> Var:
    x = s.integer()
    return s.let(f"pk.cast({x}, pk.{pick(s.draw, ('f32', 'bf16', 'f16'))}) * 0.1", x.range * Range(0.1, 0.1))


@production(1.0)
def truth_to_number(s: FuzzScope) -> Var:
    x = s.truth()
    return s.let(f"pk.cast({x}, pk.{pick(s.draw, ('f32', 'i32', 'i8', 'bf16'))})", UNIT)


@production(0.5)
def number_to_truth(s: FuzzScope) -> Var:
    x = s.operand(lambda v: v.is_number or v.is_int, lambda: s.input(s.shape(), pick(s.draw, WIDE)))
    return s.let(f"pk.cast({x}, pk.boolean)", UNIT)


@production(0.7)
def int_to_int(s: FuzzScope) -> Var:
    x = s.integer()
    dtype = pick(s.draw, [d for d in INTEGERS if x.range.within(limits(d))])
    return s.let(f"pk.cast({x}, pk.{dtype})", x.range)


@production(0.7)
def bits(s: FuzzScope) -> Var:
    """The bits of a float that was rounded to its dtype, without the lowest or the sign."""
    x = s.operand(lambda v: v.dtype == "f32" and v.kind == "input", lambda: s.input(s.shape(), "f32"))
    i = s.let(f"pk.bitcast({x}, pk.i32)", limits("i32"), "i")
    mask = pick(s.draw, ("0x7FFFFFFF", "-8388608", "-65536"))
    return s.let(f"pk.bitcast({i} & {mask}, pk.f32)", x.range | Range(0.0, x.range.reach))


@production(0.4)
def bits_of_narrow(s: FuzzScope) -> Var:
    """The bits of a 16-bit float, or one made of bits."""
    dtype = pick(s.draw, ("bf16", "f16"))
    x = s.input(s.shape(), dtype)
    if chance(s.draw, 60):
        return s.let(f"pk.cast(pk.bitcast({x}, pk.i16), pk.i32) >> 7", Range(-256.0, 256.0))
    return s.let(f"pk.bitcast(pk.bitcast({x}, pk.i16) & 0x7FFF, pk.{dtype}) * 0.5", x.range | Range(0.0, x.range.reach))


# ---- integers -----------------------------------------------------------------------------------------------------------


def _int_pair(s: FuzzScope) -> tuple[Var, Var, str]:
    """Two arrays of one integer dtype, the second as text that broadcasts to the first."""
    x = s.integer(dtypes=WIDE)
    y, text = companion(s, x, lambda v: v.dtype == x.dtype, x.dtype)
    return x, y, text


def _arithmetic(form: str, image: Callable[[Range, Range], Range], s: FuzzScope) -> Var:
    x, y, text = _int_pair(s)
    return s.let(form.format(x, text), image(x.range, y.range))


for _name, _form, _image in (
    ("int_add", "{} + {}", Range.__add__),
    ("int_mul", "{} * {}", Range.__mul__),
    ("int_sub", "{} - {}", Range.__sub__),
    ("int_maximum", "pk.maximum({}, {})", Range.__or__),
):
    add(_name, 0.5, partial(_arithmetic, _form, _image))


@production(0.6)
def int_with_number(s: FuzzScope) -> Var:
    x = s.integer()
    forms = (
        ("{} + 3", x.range + Range(3.0, 3.0)),
        ("{} * 2", x.range * Range(2.0, 2.0)),
        ("-{}", -x.range),
        ("pk.abs({})", x.range.magnitude()),
        ("pk.clip({}, 1, 5)", Range(1.0, 5.0)),
        ("pk.sign({})", Range(-1.0, 1.0)),
    )
    form, image = pick(s.draw, forms)
    return s.let(form.format(x), image)


@production(0.6)
def int_quotient(s: FuzzScope) -> Var:
    """Rounded down, or what is left; by a number or by what is at least 1."""
    x = s.integer(dtypes=WIDE)
    sign = pick(s.draw, ("//", "%"))
    if divisor := pick(s.draw, (3, 7, -4, 0)):
        return s.let(f"{x} {sign} {divisor}", x.range | Range(-8.0, 8.0))
    _, text = companion(s, x, lambda v: v.dtype == x.dtype, x.dtype)
    return s.let(f"{x} {sign} (pk.abs({text}) + 1)", x.range | -x.range | Range(0.0, 1e3))


@production(0.4)
def int_division(s: FuzzScope) -> Var:
    """In f32."""
    x, _, text = _int_pair(s)
    return s.let(f"{x} / (pk.abs({text}) + 1)", x.range | -x.range)


@production(0.6)
def int_bits(s: FuzzScope) -> Var:
    x = s.integer(dtypes=WIDE)
    if pick(s.draw, (True, False)):
        shifted = x.range * Range(8.0, 8.0)
        forms = (("{} >> 2", x.range), ("{} << 3", shifted), ("{} & 15", Range(0.0, 15.0)), ("~{}", -x.range - UNIT))
        form, image = pick(s.draw, forms)
        return s.let(form.format(x), image)
    y, text = companion(s, x, lambda v: v.dtype == x.dtype, x.dtype)
    reach = 2.0 * max(x.range.reach, y.range.reach) + 1
    return s.let(f"{x} {pick(s.draw, ('&', '|', '^'))} {text}", Range(-reach, reach))


@production(0.8)
def int_reduce(s: FuzzScope) -> Var:
    x = s.integer(dtypes=WIDE)
    fn = pick(s.draw, ("sum", "max", "min"))
    empty = limits(x.dtype) if fn != "sum" else x.range.summed()
    return s.let(f"pk.{fn}({x}, axis={s.axis(x)})", x.range.summed() if x.dtype == "i64" else empty)


@production(0.5)
def int_mean(s: FuzzScope) -> Var:
    x = s.integer()
    return s.let(f"pk.mean({x}, axis={s.axis(x)})", x.range)


@production(0.5)
def int_where(s: FuzzScope) -> Var:
    x = s.integer()
    _, condition = companion(s, x, lambda v: v.dtype == "bool", "bool")
    return s.let(f"pk.where({condition}, {x}, 1)", x.range | UNIT)


@production(0.6)
def int_times_float(s: FuzzScope) -> Var:
    """Two kinds meet: the float's dtype is that of both."""
    x = s.number()
    y, text = companion(s, x, lambda v: v.dtype in INTEGERS, "i32")
    return s.let(f"{x} * {text}", x.range * y.range)
