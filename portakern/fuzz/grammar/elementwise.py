"""Functions of single elements, each a production of its own, and the ways in which two arrays meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import ANY, UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import add, production

SIGNED_UNIT = Range(-1.0, 1.0)


@dataclass(frozen=True)
class FuzzFunction:
    """A function as text around ``{}``; what lies outside of ``domain`` is brought into it by ``guard``."""

    name: str
    text: str
    image: Callable[[Range], Range]
    domain: Range = ANY
    guard: str = ""
    guarded: Callable[[Range], Range] = lambda r: r

    def __call__(self, s: FuzzScope) -> Var:
        x = s.operand(_takes, lambda: s.input(s.shape()))
        if x.range.within(self.domain):
            return s.let(self.text.format(x), self.image(x.range))
        return s.let(self.text.format(self.guard.format(x)), self.image(self.guarded(x.range)))


def _takes(x: Var) -> bool:
    return x.is_number or x.dtype == "i32"


def monotone(f: Callable[[float], float]) -> Callable[[Range], Range]:
    return lambda r: r.through(f)


def fixed(range: Range) -> Callable[[Range], Range]:
    return lambda _: range


def _power(n: int) -> Callable[[Range], Range]:
    return lambda r: Range(0.0 if n % 2 == 0 else -(r.reach**n), r.reach**n)


_MAGNITUDE = "pk.abs({})"
_POSITIVE = "pk.abs({}) + 1.0"
_ROOTED = Range(0.0, 1e30)
_ABOVE = Range(1e-3, 1e30)


def _magnitude(r: Range) -> Range:
    return r.magnitude()


def _positive(r: Range) -> Range:
    return r.magnitude() + Range(1.0, 1.0)


def _falling(r: Range) -> Range:
    return Range(-min(r.reach, 60.0), 0.0)


FUNCTIONS = (
    FuzzFunction("neg", "-{}", lambda r: -r),
    FuzzFunction("abs", "pk.abs({})", _magnitude),
    FuzzFunction("relu", "pk.relu({})", monotone(lambda x: max(x, 0.0))),
    FuzzFunction("square", "pk.square({})", _power(2)),
    FuzzFunction("pow_small", "{} ** 3", _power(3)),
    FuzzFunction("pow_four", "{} ** 4", _power(4)),
    FuzzFunction("exp", "pk.exp({})", monotone(math.exp), Range(-60.0, 12.0), "-pk.abs({})", _falling),
    FuzzFunction("exp2", "pk.exp2({})", monotone(math.exp2), Range(-60.0, 14.0), "-pk.abs({})", _falling),
    FuzzFunction("expm1", "pk.expm1({})", monotone(math.expm1), Range(-1e30, 12.0), "-pk.abs({})", _falling),
    FuzzFunction("tanh", "pk.tanh({})", fixed(SIGNED_UNIT)),
    FuzzFunction("sigmoid", "pk.sigmoid({})", fixed(UNIT)),
    FuzzFunction("erf", "pk.erf({})", fixed(SIGNED_UNIT)),
    FuzzFunction("sin", "pk.sin({})", fixed(SIGNED_UNIT), Range(-1e3, 1e3), "pk.tanh({})", fixed(SIGNED_UNIT)),
    FuzzFunction("cos", "pk.cos({})", fixed(SIGNED_UNIT), Range(-1e3, 1e3), "pk.tanh({})", fixed(SIGNED_UNIT)),
    FuzzFunction("sqrt", "pk.sqrt({})", monotone(math.sqrt), _ROOTED, _MAGNITUDE, _magnitude),
    FuzzFunction("rsqrt", "pk.rsqrt({})", monotone(lambda x: x**-0.5), _ABOVE, _POSITIVE, _positive),
    FuzzFunction("reciprocal", "pk.reciprocal({})", Range.inverse, _ABOVE, _POSITIVE, _positive),
    FuzzFunction("log", "pk.log({})", monotone(math.log), _ABOVE, _POSITIVE, _positive),
    FuzzFunction("log2", "pk.log2({})", monotone(math.log2), _ABOVE, _POSITIVE, _positive),
    FuzzFunction("log1p", "pk.log1p({})", monotone(math.log1p), _ROOTED, _MAGNITUDE, _magnitude),
    FuzzFunction("sign", "pk.sign({})", fixed(SIGNED_UNIT)),
    FuzzFunction("floor", "pk.floor({})", monotone(lambda x: x - 1.0)),
    FuzzFunction("ceil", "pk.ceil({})", monotone(lambda x: x + 1.0)),
    FuzzFunction("trunc", "pk.trunc({})", lambda r: r),
    FuzzFunction("round", "pk.round({})", lambda r: r),
    FuzzFunction("silu", "pk.silu({})", lambda r: r | UNIT),
    FuzzFunction("gelu", "pk.gelu({})", lambda r: r | UNIT),
    FuzzFunction("gelu_tanh", 'pk.gelu({}, "tanh")', lambda r: r | UNIT, Range(-1e6, 1e6), "pk.tanh({})", fixed(SIGNED_UNIT)),
    FuzzFunction("softplus", "pk.softplus({})", lambda r: Range(0.0, max(r.hi, 0.0) + 1.0)),
    FuzzFunction("pow_half", "{} ** 0.5", monotone(math.sqrt), _ROOTED, "(" + _POSITIVE + ")", _positive),
    FuzzFunction("pow_odd", "{} ** 1.7", monotone(lambda x: x**1.7), _ABOVE, "(" + _POSITIVE + ")", _positive),
    FuzzFunction("pow_of_two", "2.0 ** {}", monotone(math.exp2), Range(-60.0, 14.0), "-pk.abs({})", _falling),
    FuzzFunction("clip", "pk.clip({}, -1.0, 2.0)", fixed(Range(-1.0, 2.0))),
    FuzzFunction("clip_low", "pk.clip({}, low=0.5)", lambda r: Range(0.5, max(r.hi, 0.5))),
    FuzzFunction("rem_number", "{} % 0.7", fixed(UNIT)),
    FuzzFunction("floordiv_number", "{} // 0.5", lambda r: r * Range(2.0, 2.0) + SIGNED_UNIT),
    FuzzFunction("isnan", "pk.isnan({})", fixed(UNIT)),
)  # fmt: skip

for _f in FUNCTIONS:
    add(_f.name, 0.45, _f)


# ---- with a number, a run-time scalar, a parameter, a size ------------------------------------------------------------

_WITH = (("{} * {}", Range.__mul__), ("{} + {}", Range.__add__), ("{1} - {0}", lambda a, b: b - a), ("{} - {}", Range.__sub__))


def _scaled(s: FuzzScope, x: Var, text: str, range: Range) -> Var:
    form, f = pick(s.draw, _WITH)
    return s.let(form.format(x, text), f(x.range, range))


@production(3.0)
def with_number(s: FuzzScope) -> Var:
    value = pick(s.draw, (2.0, 1.0, 0.5, -1.5, 0.1, 3.0))
    return _scaled(s, s.number(), repr(value), Range(value, value))


@production(0.5)
def divided_number(s: FuzzScope) -> Var:
    x = s.number()
    if x.range.within(_ABOVE):
        return s.let(f"1.0 / {x}", x.range.inverse())
    return s.let(f"{x} / 3.0", x.range * Range(1 / 3, 1 / 3))


@production(2.0)
def with_scalar(s: FuzzScope) -> Var:
    tau = s.scalar()
    if chance(s.draw, 60):
        return _scaled(s, s.number(), str(tau), tau.range)
    made = pick(s.draw, ("pk.pow(0.9, pk.abs({0}))", "pk.exp(-pk.abs({0}))", "pk.tanh({0}) * pk.sigmoid({0})",
                         "pk.where({0} > 0.5, 0.5, pk.sin({0}))"))  # fmt: skip
    return _scaled(s, s.number(), f"({made.format(tau)})", SIGNED_UNIT)


@production(0.7)
def with_whole_scalar(s: FuzzScope) -> Var:
    n, x = s.scalar("count", "i32"), s.number()
    return _scaled(s, x, f"pk.cast({n}, pk.{x.dtype})", n.range)


@production(1.0)
def with_param(s: FuzzScope) -> Var:
    value = pick(s.draw, (0.5, 1.0, -2.0, 0.125))
    scale = s.param(value, 0.5, "scale")
    return _scaled(s, s.number(), str(scale), scale.range)


@production(0.7)
def with_size(s: FuzzScope) -> Var:
    x = s.number()
    n = f"pk.size({x}.shape[{s.axis(x)}], pk.f32)"
    return s.let(f"{x} / ({n} + 1.0)", x.range | Range(0.0, 0.0))


@production(1.0)
def if_param(s: FuzzScope) -> Var:
    x = s.number()
    y = s.like(x.shape, x.dtype)
    flag = s.param(chance(s.draw, 50), False, "flag")
    return s.let(f"{x} * {y} if {flag} else {x} - {y}", (x.range * y.range) | (x.range - y.range))


# ---- two arrays ---------------------------------------------------------------------------------------------------------


def companion(s: FuzzScope, x: Var, accept: Callable[[Var], bool], dtype: str = "") -> tuple[Var, str]:
    """An array that broadcasts to ``x``, by having its shape or some of its dims, and the text that makes it fit."""
    kind = pick(s.draw, ("same", "some", "ones"), (60, 30, 10) if x.rank else (1, 0, 0))
    if kind == "same":
        y = s.operand(lambda v: accept(v) and v.shape == x.shape, lambda: s.input(x.shape, dtype))
        return y, str(y)
    kept = [chance(s.draw, 50) for _ in range(x.rank)]
    if kind == "ones":
        shape = tuple(d if k else 1 for d, k in zip(x.shape, kept, strict=True))
        y = s.operand(lambda v: accept(v) and v.shape == shape, lambda: s.input(shape, dtype))
        return y, str(y)
    if not any(kept):
        kept[-1] = True
    shape = tuple(d for d, k in zip(x.shape, kept, strict=True) if k)
    y = s.operand(lambda v: accept(v) and v.shape == shape, lambda: s.input(shape, dtype))
    return y, placed(y, kept)


def placed(y: Var | str, kept: list[bool]) -> str:
    """``y`` with its dims at the places that are ``kept``."""
    first = kept.index(True)
    if all(kept[first:]):
        return str(y)
    return f"{y}[{', '.join(':' if k else 'None' for k in kept[first:])}]"


def _divided(a: Range, b: Range) -> Range:
    return a * b.inverse() if b.lo > 0 else a


BINARY: tuple[tuple[str, str, Callable[[Range, Range], Range]], ...] = (
    ("add", "{} + {}", Range.__add__),
    ("mul", "{} * {}", Range.__mul__),
    ("sub", "{} - {}", Range.__sub__),
    ("maximum", "pk.maximum({}, {})", Range.__or__),
    ("minimum", "pk.minimum({}, {})", Range.__or__),
)


def _binary(form: str, image: Callable[[Range, Range], Range], s: FuzzScope) -> Var:
    x = s.number()
    y, text = companion(s, x, lambda v: v.is_number)
    first, second = ((x, str(x)), (y, text)) if not chance(s.draw, 30) else ((y, text), (x, str(x)))
    return s.let(form.format(first[1], second[1]), image(first[0].range, second[0].range))


for _name, _form, _image in BINARY:
    add(_name, 3.0, partial(_binary, _form, _image))


@production(2.0)
def div(s: FuzzScope) -> Var:
    x = s.number()
    y, text = companion(s, x, lambda v: v.is_number)
    if y.range.within(_ABOVE):
        return s.let(f"{x} / {text}", x.range * y.range.inverse())
    return s.let(f"{x} / (pk.abs({text}) + 1.0)", x.range | UNIT)


@production(0.7)
def rem(s: FuzzScope) -> Var:
    x = s.number()
    y, text = companion(s, x, lambda v: v.is_number)
    return s.let(f"{x} % (pk.abs({text}) + 0.5)", Range(0.0, y.range.reach + 0.5))


@production(0.7)
def floordiv(s: FuzzScope) -> Var:
    x = s.number()
    _, text = companion(s, x, lambda v: v.is_number)
    return s.let(f"{x} // (pk.abs({text}) + 0.5)", x.range * Range(-2.0, 2.0))


@production(0.7)
def pow(s: FuzzScope) -> Var:
    x = s.number(within=Range(-100.0, 100.0))
    _, text = companion(s, x, lambda v: v.is_number and v.range.reach <= 5)
    return s.let(f"(pk.abs({x}) + 0.1) ** {text}", Range(0.0, (x.range.reach + 0.1) ** 5 + 1e5))


@production(2.0)
def outer(s: FuzzScope) -> Var:
    """Two arrays along dims of their own."""
    x, y = s.number((1, 2)), s.number((1,))
    form, image = pick(s.draw, (("{} * {}", Range.__mul__), ("{} + {}", Range.__add__), ("pk.maximum({}, {})", Range.__or__)))
    left = f"{x}[:, None]" if x.rank == 1 else pick(s.draw, (f"{x}[:, :, None]", f"{x}[:, None, :]"))
    right = f"{y}[None, :]" if x.rank == 1 else f"{y}[None, None, :]" if left.endswith("None]") else f"{y}[None, :, None]"
    return s.let(form.format(left, right), image(x.range, y.range))


# ---- comparisons and logic ----------------------------------------------------------------------------------------------

COMPARE = (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="))


def _compare(sign: str, s: FuzzScope) -> Var:
    x = s.operand(lambda v: v.is_number or v.is_int, lambda: s.input(s.shape()))
    if chance(s.draw, 40):
        return s.let(f"{x} {sign} {0.5 if x.is_number else 3}", UNIT)
    _, text = companion(s, x, lambda v: v.dtype == x.dtype, "" if x.is_number and x.dtype == s.dtype else x.dtype)
    return s.let(f"{x} {sign} {text}", UNIT)


for _name, _sign in COMPARE:
    add(_name, 0.4, partial(_compare, _sign))


@production(3.0)
def where(s: FuzzScope) -> Var:
    x = s.number()
    _, condition = companion(s, x, lambda v: v.dtype == "bool", "bool")
    if chance(s.draw, 40):
        no = pick(s.draw, (0.0, -1.0, 7.0))
        return s.let(f"pk.where({condition}, {x}, {no!r})", x.range | Range(no, no))
    y, text = companion(s, x, lambda v: v.is_number)
    return s.let(f"pk.where({condition}, {x}, {text})", x.range | y.range)


@production(1.0)
def where_compare(s: FuzzScope) -> Var:
    """A choice by a comparison of what is chosen from."""
    x = s.number()
    y, text = companion(s, x, lambda v: v.is_number)
    return s.let(f"pk.where({x} > {text}, {x} - 1.0, {text} * 2.0)", (x.range - UNIT) | (y.range + y.range))


LOGIC = (("logical_and", "&"), ("logical_or", "|"), ("logical_xor", "^"))


def _logic(sign: str, s: FuzzScope) -> Var:
    x = s.truth()
    _, text = companion(s, x, lambda v: v.dtype == "bool", "bool")
    return s.let(f"{x} {sign} {text}", UNIT)


for _name, _sign in LOGIC:
    add(_name, 0.4, partial(_logic, _sign))


@production(0.5)
def logical_not(s: FuzzScope) -> Var:
    return s.let(f"~{s.truth()}", UNIT)
