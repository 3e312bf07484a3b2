"""Elementwise functions of arrays, Python numbers and sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir.size import Size
from portakern.ir.tensor import BitConvert, Convert, DimSize, Expand, Map
from portakern.spec.location import located, spec_error
from portakern.spec.traced import (
    Number,
    Traced,
    as_traced,
    broadcast_shapes,
    common_dtype,
    dtype_name,
    make,
)

Value = Traced | Number | Size


def expand(x: Traced, shape: Sequence[Size]) -> Traced:
    """``x`` repeated to ``shape``, its dims aligned at the right."""
    return expand_at(x, shape, range(len(shape) - x.ndim, len(shape)))


def expand_at(x: Traced, shape: Sequence[Size], dims: Sequence[int]) -> Traced:
    """``x`` with its dim ``i`` placed at ``dims[i]`` of ``shape``; an expansion of an expansion is one."""
    if x.shape == tuple(shape):
        return x
    source, places = x.op, tuple(dims)
    if isinstance(source, Expand):
        source, places = source.x, tuple(places[d] for d in source.dims)
    return make(Expand(source, tuple(shape), places))


def elementwise(fn: str, *values: Value, dtype: str | None = None) -> Traced:
    """``fn`` of ``values``, brought to one dtype (``dtype`` if given) and one shape."""
    target = dtype or common_dtype(values)
    return make(Map(fn, tuple(v.op for v in together([as_traced(v, target) for v in values]))))


def together(values: Sequence[Traced]) -> list[Traced]:
    """``values`` broadcast to one shape; scalars stay scalars."""
    shapes = [v.shape for v in values if v.shape]
    if not shapes:
        return [*values]
    shape = broadcast_shapes(shapes)
    return [expand(v, shape) if v.shape else v for v in values]


def _float(*values: Value) -> str:
    """The common dtype, f32 where that is no float."""
    name = common_dtype(values)
    return name if DTYPES[name].is_float else "f32"


# ---- conversions ----------------------------------------------------------------------------------------------------


@located
def cast(x: Value, dtype: Any) -> Traced:
    """``x`` in another dtype, rounded to nearest even (to integers: towards zero).  Our kernels never skip
    narrowing; those from elsewhere may skip it between operations, to bf16 and f16 (:mod:`portakern.check.bounds.free`).

    Integers of four bits are held as i8 and u8, wrapped to the numbers that four bits have.
    """
    name = dtype_name(dtype)
    if DTYPES[name].bits == 4:
        return _wrapped(as_traced(x, "i32"), name)
    if not isinstance(x, Traced):
        return as_traced(x, name)
    return x if x.type.dtype == name else make(Convert(x.op, name))


def _wrapped(x: Traced, dtype: str) -> Traced:
    """The lowest four bits of ``x`` as an integer of them."""
    low = logical_and(cast(x, "i32"), 15)
    return cast(low, "u8") if dtype == "u4" else cast(subtract(logical_xor(low, 8), 8), "i8")


@located
def bitcast(x: Traced, dtype: Any) -> Traced:
    """The same bits read as another dtype of the same width."""
    return make(BitConvert(x.op, dtype_name(dtype)))


@located
def size(dim: Size, dtype: Any = "i32") -> Traced:
    """A size (``x.shape[0]``) as a scalar to compute with."""
    return make(DimSize(dim, dtype_name(dtype)))


# ---- arithmetic -----------------------------------------------------------------------------------------------------


@located
def add(a: Value, b: Value) -> Traced:
    """``a + b``."""
    return elementwise("add", a, b, dtype=_numeric(a, b))


@located
def subtract(a: Value, b: Value) -> Traced:
    """``a - b``."""
    return elementwise("sub", a, b, dtype=_numeric(a, b))


@located
def multiply(a: Value, b: Value) -> Traced:
    """``a * b``."""
    return elementwise("mul", a, b, dtype=_numeric(a, b))


@located
def divide(a: Value, b: Value) -> Traced:
    """``a / b``; f32 for integers."""
    return elementwise("div", a, b, dtype=_float(a, b))


@located
def floor_divide(a: Value, b: Value) -> Traced:
    """``a // b``, rounded towards minus infinity."""
    name = _numeric(a, b)
    if DTYPES[name].is_float:
        return elementwise("floor", elementwise("div", a, b, dtype=name))
    return elementwise("floordiv", a, b, dtype=name)


@located
def remainder(a: Value, b: Value) -> Traced:
    """``a % b`` with the sign of ``b``."""
    return elementwise("rem", a, b, dtype=_numeric(a, b))


def _numeric(*values: Value) -> str:
    name = common_dtype(values)
    return "i32" if name == "bool" else name


@located
def negative(x: Value) -> Traced:
    """``-x``."""
    return elementwise("neg", x, dtype=_numeric(x))


@located
def pow(a: Value, b: Value) -> Traced:
    """``a ** b``.  Small integer powers are products; 0.5, -0.5 and -1 are sqrt, rsqrt and reciprocal."""
    if isinstance(a, Traced) and isinstance(b, int | float) and not isinstance(b, bool):
        if b == int(b) and 1 <= b <= 4:
            return _small_power(a, int(b))
        if not DTYPES[a.type.dtype].is_int:
            named = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(float(b))
            if named:
                return elementwise(named, a, dtype=_float(a))
    return elementwise("pow", a, b, dtype=_numeric(a, b))


def _small_power(a: Traced, n: int) -> Traced:
    if n == 1:
        return a
    half = _small_power(a, n // 2)
    square = multiply(half, half)
    return multiply(square, a) if n % 2 else square


@located
def maximum(a: Value, b: Value) -> Traced:
    """The larger one; NaN if either is NaN."""
    return elementwise("max", a, b, dtype=_numeric(a, b))


@located
def minimum(a: Value, b: Value) -> Traced:
    """The smaller one; NaN if either is NaN."""
    return elementwise("min", a, b, dtype=_numeric(a, b))


@located
def clip(x: Traced, low: Value | None = None, high: Value | None = None) -> Traced:
    """``x`` limited to [low, high]."""
    x = maximum(x, low) if low is not None else x
    return minimum(x, high) if high is not None else x


# ---- comparisons and logic ------------------------------------------------------------------------------------------


@located
def less(a: Value, b: Value) -> Traced:
    """``a < b``, a boolean; false if either is NaN."""
    return elementwise("lt", a, b)


@located
def less_equal(a: Value, b: Value) -> Traced:
    """``a <= b``, a boolean; false if either is NaN."""
    return elementwise("le", a, b)


@located
def greater(a: Value, b: Value) -> Traced:
    """``a > b``, a boolean; false if either is NaN."""
    return elementwise("gt", a, b)


@located
def greater_equal(a: Value, b: Value) -> Traced:
    """``a >= b``, a boolean; false if either is NaN."""
    return elementwise("ge", a, b)


@located
def equal(a: Value, b: Value) -> Traced:
    """``a == b``, a boolean."""
    return elementwise("eq", a, b)


@located
def not_equal(a: Value, b: Value) -> Traced:
    """``a != b``, a boolean; true if either is NaN."""
    return elementwise("ne", a, b)


def _logical(fn: str, *values: Value) -> Traced:
    name = common_dtype(values)
    if DTYPES[name].is_float:
        raise spec_error(f"{fn} of {name} values", "compare first: (x > 0) & (y > 0)")
    return elementwise(fn, *values, dtype=name)


@located
def logical_and(a: Value, b: Value) -> Traced:
    """``a & b``: logical for booleans, bitwise for integers."""
    return _logical("and", a, b)


@located
def logical_or(a: Value, b: Value) -> Traced:
    """``a | b``: logical for booleans, bitwise for integers."""
    return _logical("or", a, b)


@located
def logical_xor(a: Value, b: Value) -> Traced:
    """``a ^ b``: logical for booleans, bitwise for integers."""
    return _logical("xor", a, b)


@located
def logical_not(x: Traced) -> Traced:
    """``~x``: logical for booleans, bitwise for integers."""
    return _logical("not", x)


@located
def shift_left(a: Value, b: Value) -> Traced:
    """The bits of ``a`` moved up by ``b`` places."""
    return _logical("shl", a, b)


@located
def shift_right(a: Value, b: Value) -> Traced:
    """The bits of ``a`` moved down by ``b`` places; signed integers keep their sign."""
    return _logical("shr", a, b)


@located
def where(condition: Value, yes: Value, no: Value) -> Traced:
    """``yes`` where ``condition`` holds, else ``no``."""
    if isinstance(condition, Traced) and condition.type.dtype != "bool":
        raise spec_error(f"the condition of where is {condition.type.dtype}, not bool", "compare it: pk.where(x != 0, ...)")
    name = common_dtype([yes, no])
    parts = together([as_traced(condition, "bool"), as_traced(yes, name), as_traced(no, name)])
    return make(Map("select", tuple(p.op for p in parts)))


@located
def isnan(x: Traced) -> Traced:
    """Whether ``x`` is NaN; false for integers."""
    return elementwise("isnan", x, dtype=_float(x))


# ---- functions of one number ----------------------------------------------------------------------------------------


@located
def exp(x: Value) -> Traced:
    """e to the power of ``x``."""
    return elementwise("exp", x, dtype=_float(x))


@located
def exp2(x: Value) -> Traced:
    """2 to the power of ``x``."""
    return elementwise("exp2", x, dtype=_float(x))


@located
def log(x: Value) -> Traced:
    """The natural logarithm of ``x``."""
    return elementwise("log", x, dtype=_float(x))


@located
def log2(x: Value) -> Traced:
    """The logarithm of ``x`` to base 2."""
    return elementwise("log2", x, dtype=_float(x))


@located
def log1p(x: Value) -> Traced:
    """``log(1 + x)``, exact near 0."""
    return elementwise("log1p", x, dtype=_float(x))


@located
def expm1(x: Value) -> Traced:
    """``exp(x) - 1``, exact near 0."""
    return elementwise("expm1", x, dtype=_float(x))


@located
def square(x: Value) -> Traced:
    """``x * x``."""
    return multiply(x, x)


@located
def sqrt(x: Value) -> Traced:
    """The square root of ``x``."""
    return elementwise("sqrt", x, dtype=_float(x))


@located
def rsqrt(x: Value) -> Traced:
    """``1 / sqrt(x)``."""
    return elementwise("rsqrt", x, dtype=_float(x))


@located
def reciprocal(x: Value) -> Traced:
    """``1 / x``."""
    return elementwise("reciprocal", x, dtype=_float(x))


@located
def tanh(x: Value) -> Traced:
    """The hyperbolic tangent of ``x``."""
    return elementwise("tanh", x, dtype=_float(x))


@located
def sigmoid(x: Value) -> Traced:
    """``1 / (1 + exp(-x))``."""
    return elementwise("sigmoid", x, dtype=_float(x))


@located
def erf(x: Value) -> Traced:
    """The error function of ``x``."""
    return elementwise("erf", x, dtype=_float(x))


@located
def sin(x: Value) -> Traced:
    """The sine of ``x`` in radians."""
    return elementwise("sin", x, dtype=_float(x))


@located
def cos(x: Value) -> Traced:
    """The cosine of ``x`` in radians."""
    return elementwise("cos", x, dtype=_float(x))


@located
def abs(x: Value) -> Traced:
    """``|x|``."""
    return elementwise("abs", x, dtype=_numeric(x))


@located
def sign(x: Value) -> Traced:
    """-1, 0 or 1."""
    return elementwise("sign", x, dtype=_numeric(x))


@located
def trunc(x: Value) -> Traced:
    """``x`` rounded towards zero."""
    return elementwise("trunc", x, dtype=_float(x))


@located
def floor(x: Value) -> Traced:
    """The largest whole number that is not above ``x``."""
    return elementwise("floor", x, dtype=_float(x))


@located
def ceil(x: Value) -> Traced:
    """The smallest whole number that is not below ``x``."""
    return elementwise("ceil", x, dtype=_float(x))


@located
def round(x: Value) -> Traced:
    """``x`` rounded to the nearest whole number, halves to even."""
    return elementwise("round", x, dtype=_float(x))


# ---- activations ----------------------------------------------------------------------------------------------------


@located
def relu(x: Traced) -> Traced:
    """``maximum(x, 0)``."""
    return maximum(x, 0)


@located
def silu(x: Traced) -> Traced:
    """``x * sigmoid(x)``."""
    return multiply(x, sigmoid(x))


@located
def softplus(x: Traced) -> Traced:
    """``log(1 + exp(x))`` in a form that does not overflow."""
    return add(relu(x), log1p(exp(negative(abs(x)))))


@located
def gelu(x: Traced, approximate: str = "none") -> Traced:
    """Gaussian error linear unit; ``approximate`` is ``"none"`` or ``"tanh"``.  Hendrycks and Gimpel 2016."""
    if approximate == "none":
        return multiply(multiply(x, 0.5), add(erf(multiply(x, math.sqrt(0.5))), 1.0))
    if approximate == "tanh":
        # (1 + tanh(u)) / 2 is sigmoid(2 u), which costs half and loses nothing where tanh is near -1.
        return multiply(x, sigmoid(multiply(add(x, multiply(pow(x, 3), 0.044715)), 2 * math.sqrt(2 / math.pi))))
    raise spec_error(f"gelu has no approximation {approximate!r}", 'use approximate="none" or approximate="tanh"')
