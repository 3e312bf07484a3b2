"""Operations on elements in C: tables of templates with their precedence (see :mod:`.terms`), and exact constants."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from portakern.dtypes import dtype as dtype_of
from portakern.emit.clike.terms import LiteralTerm

# Templates of the operators take operands {0}, {1}; a leading digit and bar give the precedence (as in C, 16 binds
# tightest); without it the template is a call and binds tightest.
UNARY: Mapping[str, str] = {
    "neg": "15|-{0}", "not": "15|~{0}", "abs": "pk::abs({0})", "exp": "pk::exp({0})", "exp2": "pk::exp2({0})",
    "log": "pk::log({0})", "log2": "pk::log2({0})", "log1p": "pk::log1p({0})", "expm1": "pk::expm1({0})",
    "sqrt": "pk::sqrt({0})", "rsqrt": "pk::rsqrt({0})", "reciprocal": "13|1 / {0}", "tanh": "pk::tanh({0})",
    "sigmoid": "pk::sigmoid({0})", "erf": "pk::erf({0})", "sin": "pk::sin({0})", "cos": "pk::cos({0})",
    "floor": "pk::floor({0})", "ceil": "pk::ceil({0})", "trunc": "pk::trunc({0})", "round": "pk::round({0})",
    "sign": "pk::sign({0})", "isnan": "pk::isnan({0})",
}  # fmt: skip

BINARY: Mapping[str, str] = {
    "add": "12|{0} + {1}", "sub": "12|{0} - {1}", "mul": "13|{0} * {1}", "div": "13|{0} / {1}",
    "max": "pk::max({0}, {1})", "min": "pk::min({0}, {1})", "pow": "pk::pow({0}, {1})", "rem": "pk::rem({0}, {1})",
    "floordiv": "pk::floordiv({0}, {1})", "and": "8|{0} & {1}", "or": "6|{0} | {1}", "xor": "7|{0} ^ {1}",
    "shl": "11|{0} << {1}", "shr": "11|{0} >> {1}",
}  # fmt: skip
LOGICAL: Mapping[str, str] = {"not": "15|!{0}", "and": "5|{0} && {1}", "or": "4|{0} || {1}", "xor": "9|{0} != {1}"}
"""Functions of bools."""

COMPARE: Mapping[str, str] = {
    "eq": "9|{0} == {1}", "ne": "9|{0} != {1}", "lt": "10|{0} < {1}", "le": "10|{0} <= {1}", "gt": "10|{0} > {1}",
    "ge": "10|{0} >= {1}",
}  # fmt: skip
SELECT = "3|{0} ? {1} : {2}"

REDUCTIONS: Mapping[str, str] = {
    "sum": "pk::Sum", "max": "pk::Max", "min": "pk::Min", "prod": "pk::Prod", "any": "pk::Any", "all": "pk::All",
}  # fmt: skip

def constant(value: float | int | bool, dtype: str) -> LiteralTerm:
    """An exact literal: the shortest decimal that reads back to the same number of ``dtype``."""
    if dtype == "bool":
        return LiteralTerm("true" if value else "false")
    kind = dtype_of(dtype)
    if kind.is_int:
        text = f"{int(value)}"
        if int(value) in (-(2**31), -(2**63)):  # no literal of C is this number
            text = f"({int(value) + 1} - 1)"
        if dtype == "i64":  # a plain literal would be an int
            return LiteralTerm(f"int64_t({text.strip('()')})")
        return LiteralTerm({"u32": f"{text}u", "u64": f"uint64_t({text}u)"}.get(dtype, text))
    number = float(value) if dtype == "f64" else _rounded(float(value))
    if dtype == "f64" and not math.isfinite(number):  # C's macros are floats
        return LiteralTerm(f"double({constant(number, 'f32')})")
    if math.isnan(number):
        return LiteralTerm("NAN")
    if math.isinf(number):
        return LiteralTerm("INFINITY" if number > 0 else "-INFINITY")
    text = repr(number) if dtype == "f64" else shortest_f32(number)
    text = text if any(c in text for c in ".en") else text + ".0"
    return LiteralTerm(text + ("" if dtype == "f64" else "f"))


def _rounded(value: float) -> float:
    """The f32 nearest to ``value``, infinite where it overflows."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def shortest_f32(value: float) -> str:
    """The shortest decimal that rounds to the f32 nearest to ``value``, which is finite."""
    exact = _rounded(value)
    for digits in range(1, 10):
        text = f"{exact:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == exact:
            return _plain(text)
    return repr(exact)


def _plain(text: str) -> str:
    """``1e+03`` as ``1000.0``, ``1e-05`` as ``1e-5``."""
    if "e" in text:
        mantissa, power = text.split("e")
        if 0 <= int(power) < 7:
            return repr(float(text))
        return f"{mantissa}e{int(power)}"
    return text
