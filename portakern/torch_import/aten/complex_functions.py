"""Functions of complex numbers, reductions of them and systems of equations."""

from __future__ import annotations

import math
from typing import Any

from portakern.ir.size import product
from portakern.spec import elementwise as ew
from portakern.spec import pieces, recurrences, reductions, views
from portakern.spec.traced import Traced
from portakern.torch_import.aten import factors
from portakern.torch_import.aten.complexes import Complex, complex_rule, length, on_complex, square, times
from portakern.torch_import.aten.reductions import count, fold, vector_norm
from portakern.torch_import.aten.trigonometry import angle
from portakern.torch_import.rules import RULES, Call, axes_of, is_float, number, spread, value
from portakern.torch_import.types import NotImported

Pair = tuple[Traced, Traced]


def _scaled(x: Complex, by: float) -> Complex:
    return Complex(ew.multiply(x.real, by), ew.multiply(x.imag, by))


def _turned(x: Complex) -> Complex:
    """Times i."""
    return Complex(ew.negative(x.imag), x.real)


def _inverse(x: Complex) -> Complex:
    over = square(x)
    return Complex(ew.divide(x.real, over), ew.divide(ew.negative(x.imag), over))


def _exp(x: Complex) -> Complex:
    size = ew.exp(x.real)
    return Complex(ew.multiply(size, ew.cos(x.imag)), ew.multiply(size, ew.sin(x.imag)))


def _log(x: Complex) -> Complex:
    return Complex(ew.log(length(x)), angle(x.imag, x.real))


def _sqrt(x: Complex) -> Complex:
    """The root whose real part is not below 0; by the sum of two positive numbers, which loses no digits."""
    size = ew.sqrt(ew.multiply(ew.add(length(x), ew.abs(x.real)), 0.5))
    other = ew.where(ew.equal(size, 0.0), 0.0, ew.divide(ew.multiply(ew.abs(x.imag), 0.5), size))
    left = ew.less(x.real, 0.0)
    real, imag = ew.where(left, other, size), ew.where(left, size, other)
    return Complex(real, ew.where(ew.less(x.imag, 0.0), ew.negative(imag), imag))


def _hyperbolic(x: Traced) -> Pair:
    """(sinh, cosh)"""
    up, down = ew.exp(x), ew.exp(ew.negative(x))
    small = ew.multiply(ew.add(ew.expm1(x), ew.divide(ew.expm1(x), up)), 0.5)
    return small, ew.multiply(ew.add(up, down), 0.5)


def _sinh(x: Complex) -> Complex:
    sinh, cosh = _hyperbolic(x.real)
    return Complex(ew.multiply(sinh, ew.cos(x.imag)), ew.multiply(cosh, ew.sin(x.imag)))


def _cosh(x: Complex) -> Complex:
    sinh, cosh = _hyperbolic(x.real)
    return Complex(ew.multiply(cosh, ew.cos(x.imag)), ew.multiply(sinh, ew.sin(x.imag)))


def _tanh(x: Complex) -> Complex:
    """By tanh of the real and tan of the imaginary part, of which neither overflows."""
    t = ew.tanh(x.real)
    sine, cosine = ew.sin(x.imag), ew.cos(x.imag)
    # (t + i tan) / (1 + i t tan), with both sides times the cosine squared
    ts = ew.multiply(t, sine)
    over = ew.add(ew.square(cosine), ew.square(ts))
    real = ew.divide(t, over)
    rest = ew.multiply(ew.subtract(1.0, ew.square(t)), ew.multiply(sine, cosine))
    return Complex(real, ew.divide(rest, over))


def _back(x: Complex) -> Complex:
    """Times -i."""
    return Complex(x.imag, ew.negative(x.real))


def _sigmoid(x: Complex) -> Complex:
    made = _exp(_scaled(x, -1.0))
    return _inverse(Complex(ew.add(made.real, 1.0), made.imag))


def _sign(x: Complex) -> Complex:
    size = length(x)
    over = ew.where(ew.equal(size, 0.0), 1.0, size)
    return Complex(ew.divide(x.real, over), ew.divide(x.imag, over))


FUNCTIONS = {
    "reciprocal": _inverse, "exp2": lambda x: _exp(_scaled(x, math.log(2))), "log": _log, "sqrt": _sqrt, "sinh": _sinh,
    "log2": lambda x: _scaled(_log(x), 1 / math.log(2)), "log10": lambda x: _scaled(_log(x), 1 / math.log(10)),
    "log1p": lambda x: _log(Complex(ew.add(x.real, 1.0), x.imag)), "rsqrt": lambda x: _inverse(_sqrt(x)),
    "expm1": lambda x: Complex(ew.subtract(_exp(x).real, 1.0), _exp(x).imag), "cosh": _cosh, "tanh": _tanh,
    "sin": lambda x: _back(_sinh(_turned(x))), "cos": lambda x: _cosh(_turned(x)), "tan": lambda x: _back(_tanh(_turned(x))),
    "square": lambda x: times(x, x, x.real.type.dtype), "sigmoid": _sigmoid, "sgn": _sign, "sign": _sign,
}  # fmt: skip

for _name, _function in FUNCTIONS.items():
    on_complex(f"aten.{_name}")(lambda call, x, function=_function: function(Complex.of(x, call.dtype)))


@on_complex("aten.pow")
def _(call: Call, a: Any, b: Any) -> Complex:
    if isinstance(b, int | float) and float(b).is_integer() and abs(b) <= 16:
        return _whole_power(Complex.of(a, call.dtype), int(b), call.dtype)
    a = Complex.of(a, call.dtype)
    made = _exp(times(_log(a), b, call.dtype))
    zero = ew.logical_and(ew.equal(a.real, 0.0), ew.equal(a.imag, 0.0))
    return Complex(ew.where(zero, 0.0, made.real), ew.where(zero, 0.0, made.imag))


def _whole_power(x: Complex, n: int, dtype: str) -> Complex:
    if n < 0:
        return _inverse(_whole_power(x, -n, dtype))
    total = Complex(ew.expand(value(1, dtype), x.shape), ew.expand(value(0, dtype), x.shape))
    for bit in bin(n)[2:]:
        total = times(total, total, dtype)
        total = times(total, x, dtype) if bit == "1" else total
    return total


@on_complex("aten.scalar_tensor")
def _(call: Call, x: Any, **kwargs: Any) -> Complex:
    return Complex.of(x, call.dtype)


# ---- tests ------------------------------------------------------------------------------------------------------------


def _parts(a: Any, b: Any) -> tuple[Traced, Traced]:
    arrays = [x.real if isinstance(x, Complex) else x for x in (a, b) if isinstance(x, Complex | Traced)]
    floats = {x.type.dtype for x in arrays if is_float(x.type.dtype)}
    dtype = "f64" if "f64" in floats else "f16" if floats == {"f16"} else "f32"  # of the complex numbers that PyTorch compares
    a, b = Complex.of(a, dtype), Complex.of(b, dtype)
    return ew.equal(a.real, b.real), ew.equal(a.imag, b.imag)


@on_complex("aten.eq")
def _(call: Call, a: Any, b: Any) -> Traced:
    return ew.logical_and(*_parts(a, b))


@on_complex("aten.ne")
def _(call: Call, a: Any, b: Any) -> Traced:
    return ew.logical_not(ew.logical_and(*_parts(a, b)))


@on_complex("aten.isnan")
def _(call: Call, x: Complex) -> Traced:
    return ew.logical_or(ew.isnan(x.real), ew.isnan(x.imag))


@on_complex("aten.isinf")
def _(call: Call, x: Complex) -> Traced:
    return ew.logical_or(*(ew.equal(ew.abs(v), math.inf) for v in (x.real, x.imag)))


# ---- reductions -------------------------------------------------------------------------------------------------------


def _running(x: Complex, dim: int) -> Complex:
    def joined(a: Pair, b: Pair) -> Pair:
        made = times(Complex(*a), Complex(*b), x.real.type.dtype)
        return made.real, made.imag

    return Complex(*recurrences.associative_scan(joined, (x.real, x.imag), dim))


@on_complex("aten.cumprod")
def _(call: Call, x: Complex, dim: int, **kwargs: Any) -> Complex:
    return _running(Complex.of(x, call.dtype), dim % x.ndim) if x.ndim else x


@on_complex("aten.prod")
def _(call: Call, x: Complex, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Complex:
    if not x.ndim:
        return x
    line = x if dim is not None else Complex(*(views.reshape(v, (product(x.shape),)) for v in (x.real, x.imag)))
    at = (dim or 0) % line.ndim
    if line.shape[at] == 0:
        return Complex.of(spread(value(1, call.dtype), call.shape), call.dtype)
    made = _running(line, at)
    key = (*[slice(None)] * at, slice(-1, None))
    return Complex(*(views.reshape(views.getitem(v, key), call.shape) for v in (made.real, made.imag)))


@on_complex("aten.var", "aten.std")
def _(call: Call, x: Complex, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Traced:
    axes = axes_of(dim, x.ndim)
    apart = Complex(*(ew.subtract(v, ew.divide(fold("sum", v, axes, True), count(v, axes))) for v in (x.real, x.imag)))
    total = fold("sum", square(apart), axes, keepdim)
    made = ew.divide(total, count(x.real, axes, 1 if correction is None else correction))
    return ew.sqrt(made) if call.base == "aten.std" else made


@on_complex("aten.linalg_vector_norm")
def _(call: Call, x: Complex, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Traced:
    return vector_norm(length(x), float(ord), dim, keepdim)


# ---- products and systems ---------------------------------------------------------------------------------------------


@on_complex("aten.addmm", "aten.baddbmm", "aten.addmv")
def _(call: Call, bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Complex:
    made = times(complex_rule("aten.mm")(call, a, b), alpha, call.dtype)
    more = times(Complex.of(bias, call.dtype), beta, call.dtype)
    return Complex(ew.add(made.real, more.real), ew.add(made.imag, more.imag))


@on_complex("aten.dot", "aten.vdot")
def _(call: Call, a: Any, b: Any) -> Complex:
    a = Complex.of(a, call.dtype)
    a = Complex(a.real, ew.negative(a.imag)) if call.base == "aten.vdot" else a
    made = times(a, Complex.of(b, call.dtype), call.dtype)
    return Complex(reductions.sum(made.real), reductions.sum(made.imag))


def _as_real(x: Complex) -> Traced:
    """[[real, -imag], [imag, real]], which is to matrices of twice the size what ``x`` is to complex ones."""
    top = pieces.concat([x.real, ew.negative(x.imag)], -1)
    return pieces.concat([top, pieces.concat([x.imag, x.real], -1)], -2)


def _from_real(x: Traced, rows: int, columns: int) -> Complex:
    return Complex(x[..., :rows, :columns], x[..., rows : 2 * rows, :columns])


@on_complex("aten.linalg_inv_ex")
def _(call: Call, a: Complex, check_errors: bool = False) -> tuple[Complex, Traced | None]:
    made, info = RULES["aten.linalg_inv_ex"](call, _as_real(a))
    n = number(a.shape[-1], "an inverse")
    return _from_real(made, n, n), info


@on_complex("aten._linalg_solve_ex")
def _(call: Call, a: Any, b: Any, left: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    if call.used & {1, 2, 3}:
        raise NotImported("the factors of a complex matrix")
    a, b = Complex.of(a, call.dtype), Complex.of(b, call.dtype)
    line = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    if line:
        b = Complex(*(views.expand_dims(v, v.ndim) for v in (b.real, b.imag)))
    elif not left:
        a, b = (Complex(factors.mT(v.real), factors.mT(v.imag)) for v in (a, b))
    made = factors.lu(_as_real(a))
    right = pieces.concat([b.real, b.imag], -2)
    batch = call.shape[: len(call.shape) - (1 if line else 2)]
    each = ((made.packed, 2), (made.rows, 1), (right, 2))
    packed, rows, right = (spread(v, (*batch, *v.shape[v.ndim - own :])) for v, own in each)
    solved = factors.lu_solved(packed, rows, right)
    n = number(a.shape[-1], "a system of equations")
    found = Complex(solved[..., :n, :], solved[..., n:, :])
    if not left and not line:
        found = Complex(factors.mT(found.real), factors.mT(found.imag))
    return Complex(*(views.reshape(v, call.shape) for v in (found.real, found.imag))), None, None, None


@on_complex("aten.linalg_matrix_exp")
def _(call: Call, a: Complex) -> Complex:
    n = number(a.shape[-1], "the exponential of a matrix")
    return _from_real(RULES["aten.linalg_matrix_exp"](call, _as_real(a)), n, n)
