"""Forward error propagation: beside each exact value, how far a correct kernel may be from it.

A :class:`Val` is a float64 value with a bound.  The bound of an operation is what its operands' bounds do to it
(evaluated at both ends where a function is curved) plus its own rounding as :mod:`portakern.check.accuracy` allows.

*   Results that are exactly representable and computed from exact operands get no bound: small integers are exact.
*   A sum of n passes each element through at most ``chain(n)`` roundings, so any reasonable order passes.
*   At a discontinuity (a comparison whose operands are too close, a floor, a tie) the bound spans both answers.
*   An explicit :class:`Convert` rounds the value, and the bound is what rounding does to both ends: a kernel that
    leaves it out fails.  One exception: what a contraction consumes may be rounded at another scale (an online softmax
    rounds before it divides), so there the bound is one rounding.
*   A bound of infinity means that anything goes: an overflow that cannot be decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.dtypes import DTYPES
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Op, Result, Yield
from portakern.ir.oracle import round_to
from portakern.ir.tensor import TensorProgram, tensor_type

Bound = Any  # 0.0, or an array of the value's shape


@dataclass(frozen=True)
class Choice:
    """The index ``c`` along ``axis`` of an array is right where ``high[c] >= need`` and ``low[c] <= allow``."""

    axis: int
    low: np.ndarray
    high: np.ndarray
    need: np.ndarray
    allow: np.ndarray


@dataclass(frozen=True)
class Val:
    """An exact value and how far a correct kernel may be from it; ``choice`` where it is one of several indices."""

    x: np.ndarray
    e: Bound = 0.0
    choice: Choice | None = None

    @property
    def exact(self) -> bool:
        return isinstance(self.e, float) and self.e == 0.0

    def bound(self) -> np.ndarray:
        return np.broadcast_to(self.e, self.x.shape)


def propagate(program: TensorProgram, inputs: Mapping[str, np.ndarray]) -> dict[str, Val]:
    """Each output of ``program``, whose dims are bound, with its bound; evaluated in float64."""
    values: dict[Op, Any] = {a: _input(a, inputs) for a in program.args}
    loose = _contraction_only(program)
    with np.errstate(all="ignore"):
        for op in program.body.ops:
            if isinstance(op, Yield):
                continue
            args = [values[o] for o in op.operands]
            if isinstance(op, t.Convert) and op in loose:
                values[op] = _rounded_at_some_scale(op, args[0])
            else:
                values[op] = RULES[type(op)](op, *args)
    return {name: values[op] for name, op in zip(program.outputs, program.results, strict=True)}


def _input(arg: Arg, inputs: Mapping[str, np.ndarray]) -> Val:
    x = oracle.read_input(arg, inputs)
    dtype = tensor_type(arg).dtype
    if x.dtype.kind != "f" or not x.size:
        return Val(x)
    size = np.abs(x)
    flushed = (size < accuracy.smallest_normal(dtype)) & (size > 0)
    return Val(x, np.where(flushed, size, 0.0)) if flushed.any() else Val(x)


_VIEWS = (t.Transpose, t.Reshape, t.Expand, t.Slice)


def _contraction_only(program: TensorProgram) -> set[Op]:
    """Narrowing conversions whose every use, seen through views, is as the operand of a contraction."""
    users: dict[Op, list[Op]] = {}
    for op in program.body.ops:
        for o in op.operands:
            users.setdefault(o, []).append(op)

    def only(op: Op) -> bool:
        return all(isinstance(u, t.Contract | t.Convolve) or (isinstance(u, _VIEWS) and only(u)) for u in users[op])

    return {op for op in program.body.ops if isinstance(op, t.Convert) and users.get(op) and only(op)}


# ---- rounding and finishing ------------------------------------------------------------------------------------------


def finish(dtype: str, r: np.ndarray, spread: Bound, operands: Sequence[Val], ulps: float = 0.5, floor: Bound = 0.0) -> Val:
    """The value ``r`` of an operation with what its operands' bounds do to it (``spread``) and its own rounding."""
    if r.dtype.kind != "f":
        return Val(r, spread)
    size = np.abs(r)
    tiny, u = accuracy.smallest_normal(dtype), accuracy.unit(dtype)
    settled = np.asarray(spread) == 0  # else what is rounded may be a neighbour of r, and not representable where r is
    own = 2 * ulps * u * size + tiny
    if ulps == 0.5:  # rounded correctly: exact where the result can be represented
        held = r if dtype == "f64" else round_to(r, "f32")
        own = np.where(settled & (held == r) & ((size >= tiny) | (size == 0)), 0.0, own)
    if DTYPES[dtype].bits < 32:  # may be narrowed to its dtype, or kept in f32
        kind = DTYPES[dtype]
        own = own + np.where(settled & (round_to(r, dtype) == r), 0.0, kind.rounding * size + kind.smallest / 2)
    e = own + spread + floor if ulps != 0.5 or not isinstance(floor, float) else own + spread
    return _extremes(dtype, r, e, operands)


def _extremes(dtype: str, r: np.ndarray, e: np.ndarray, operands: Sequence[Val]) -> Val:
    """Infinities, NaN and overflow: certain ones must match, uncertain ones have no bound."""
    if not r.size:
        return Val(r)
    top = accuracy.largest(dtype)
    if float(np.max(np.abs(r) + e)) < top:  # false for NaN too
        return Val(r) if not e.any() else Val(r, e)
    doubtful = np.zeros(r.shape, bool)
    for v in operands:
        if not v.exact:
            doubtful |= np.broadcast_to(np.isinf(v.e) if v.e.shape == r.shape else np.isinf(v.e).any(), r.shape)
    e = np.where(np.isnan(e), np.inf, e)
    e = np.where(np.isfinite(r), e, np.where(doubtful, np.inf, 0.0))
    over = np.isfinite(r) & (np.abs(r) + e >= top)
    if DTYPES[dtype].bits >= 32 or dtype == "bf16":
        certain = over & (np.abs(r) - e > top * (1 + 2 * DTYPES[dtype].rounding))
        r = np.where(certain, np.copysign(np.inf, r), r)
        e = np.where(certain, 0.0, np.where(over, np.inf, e))
    else:  # f16 and f8 may be kept in f32, where they do not overflow
        e = np.where(over, np.inf, e)
    return Val(r, e)


def _ends(f: Callable[[np.ndarray], np.ndarray], v: Val, r: np.ndarray) -> Bound:
    """How far the monotone ``f`` gets from ``r`` when its argument moves within its bound."""
    if v.exact:
        return 0.0
    low, high = f(v.x - v.e), f(v.x + v.e)
    spread = np.maximum(np.abs(high - r), np.abs(r - low))
    return np.where((low == r) & (high == r), 0.0, np.where(np.isnan(spread), np.inf, spread))


def _any_inexact(*values: Val) -> bool:
    return not all(v.exact for v in values)


# ---- rules -----------------------------------------------------------------------------------------------------------

RULES: dict[type[Op], Callable[..., Any]] = {}


def rule(*classes: type[Op]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for cls in classes:
            RULES[cls] = function
        return function

    return register


def _dtype(op: Op) -> str:
    return tensor_type(op).dtype


@rule(t.DimSize, t.Iota)
def _(op: Op) -> Val:
    x = oracle.apply(op, [])
    return finish(_dtype(op), x, 0.0, []) if x.dtype.kind == "f" else Val(x)


@rule(t.Literal)
def _(op: t.Literal) -> Val:
    x = oracle.apply(op, [])
    return finish(op.dtype, x, 0.0, []) if x.dtype.kind == "f" else Val(x)


@rule(t.RandomBits)
def _(op: t.RandomBits, seed: Val) -> Val:
    return Val(oracle.apply(op, [seed.x]))


@rule(t.Expand, t.Reshape, t.Transpose, t.Slice, t.Flip)
def _(op: Op, v: Val) -> Val:
    return Val(oracle.apply(op, [v.x]), v.e if v.exact else oracle.RULES[type(op)](op, v.bound()))


@rule(t.PadWith)
def _(op: t.PadWith, v: Val) -> Val:
    return Val(oracle.apply(op, [v.x]), 0.0 if v.exact else oracle.RULES[t.PadWith](replace(op, value=0.0), v.bound()))


@rule(t.Concat)
def _(op: t.Concat, *parts: Val) -> Val:
    bound = np.concatenate([p.bound() for p in parts], op.axis) if _any_inexact(*parts) else 0.0
    return Val(oracle.apply(op, [p.x for p in parts]), bound)


@rule(Result)
def _(op: Result, several: tuple[Val, ...]) -> Val:
    return several[op.index]


@rule(t.BitConvert)
def _(op: t.BitConvert, v: Val) -> Val:
    return Val(oracle.apply(op, [v.x]), 0.0 if v.exact else np.where(v.bound() > 0, np.inf, 0.0))


@rule(t.Convert)
def _(op: t.Convert, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    to, have = DTYPES[op.dtype], DTYPES[tensor_type(op.x).dtype]
    if to.is_float and have.is_float and (to.bits > have.bits or to.name == have.name):
        return Val(r, v.e)  # widening
    if to.is_float and not have.is_float:
        return finish(op.dtype, v.x.astype(np.float64), v.e, [v])
    spread = _ends(lambda x: oracle.RULES[t.Convert](op, np.asarray(x)).astype(np.float64), v, r.astype(np.float64))
    if to.is_float:
        return Val(r, spread)
    if v.x.dtype.kind != "f":
        return Val(r, 0.0 if v.exact else np.where(v.bound() > 0, np.inf, 0.0))
    limit = 2.0 ** (to.bits - (to.kind == "int"))  # what does not fit is undefined
    outside = ~(np.abs(v.x) < limit) if to.kind == "int" else ~((v.x > -1) & (v.x < limit))
    return Val(r, np.where(outside, np.inf, spread) if to.kind != "bool" and outside.any() else spread)


def _rounded_at_some_scale(op: t.Convert, v: Val) -> Val:
    to = DTYPES[op.dtype]
    if not to.is_float or v.exact or to.bits >= DTYPES[tensor_type(op.x).dtype].bits:
        return RULES[t.Convert](op, v)
    e = v.bound() + to.rounding * (np.abs(v.x) + v.e) + to.smallest / 2
    return _extremes(op.dtype, v.x, np.where(np.isfinite(v.x), e, v.bound()), [v])


# ---- elementwise -----------------------------------------------------------------------------------------------------


def _sum(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    return finish(dtype, r, a.e + b.e, [a, b])


def _product(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    spread: Bound = 0.0
    if _any_inexact(a, b):
        spread = np.abs(a.x) * b.e + np.abs(b.x) * a.e + a.e * b.e
        spread = np.where(np.isnan(spread) & ~np.isinf(a.e) & ~np.isinf(b.e), 0.0, spread)  # inf times no error
    return finish(dtype, r, spread, [a, b])


def _quotient(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    spread: Bound = 0.0
    if _any_inexact(a, b):
        room = np.abs(b.x) - b.e
        spread = np.where(room > 0, (a.e + np.abs(r) * b.e) / room, np.inf)
        spread = np.where(np.isinf(b.x) & ~np.isinf(a.e), 0.0, spread)
        spread = np.where((room <= 0) & (np.asarray(b.e) == 0), 0.0, spread)  # a division by an exact zero is certain
    return finish(dtype, r, spread, [a, b], accuracy.ULPS["div"])


def _extreme(fn: str) -> Callable[[str, np.ndarray, Val, Val], Val]:
    f = np.maximum if fn == "max" else np.minimum

    def combine(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
        if not _any_inexact(a, b):
            return Val(r)
        spread = np.maximum(np.abs(f(a.x + a.e, b.x + b.e) - r), np.abs(r - f(a.x - a.e, b.x - b.e)))
        return _extremes(dtype, r, np.where(np.isnan(spread) & np.isinf(r), 0.0, spread), [a, b])

    return combine


def _compare(op: t.Map, r: np.ndarray, a: Val, b: Val) -> Val:
    if not _any_inexact(a, b):
        return Val(r)
    close = np.abs(a.x - b.x) <= a.e + b.e
    return Val(r, np.where(close & ((np.asarray(a.e) + b.e) > 0), 1.0, 0.0))


def _select(op: t.Map, r: np.ndarray, c: Val, yes: Val, no: Val) -> Val:
    e: Bound = 0.0
    if _any_inexact(yes, no):
        e = np.where(c.x, yes.e, no.e)
    if not c.exact:
        other = np.where(c.x, no.e, yes.e) + np.where(yes.x == no.x, 0.0, np.abs(yes.x - no.x))
        e = np.where(np.asarray(c.e) > 0, np.maximum(e, other), e)
        e = np.where(np.isnan(e), np.inf, e)
    return Val(r, e)


def _power(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    u = accuracy.unit(dtype)
    spread: Bound = 0.0
    if _any_inexact(a, b):
        corners = [np.power(a.x + i * np.asarray(a.e), b.x + j * np.asarray(b.e)) for i in (-1, 1) for j in (-1, 1)]
        far = np.max([np.abs(c - r) for c in corners], axis=0)
        spread = np.where(np.isnan(far), np.inf, far)
    steps = np.abs(b.x * np.log2(np.maximum(np.abs(a.x), 2.0**-1000)))
    argument = np.where(np.isfinite(r), 8 * u * steps * np.abs(r), 0.0)
    return finish(dtype, r, spread, [a, b], accuracy.ULPS["pow"], argument)


def _remainder(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    u = accuracy.unit(dtype)
    whole = np.abs(np.floor(a.x / b.x))
    reach = a.e + whole * b.e + 2 * u * np.abs(a.x)
    near = (np.abs(r) <= reach) | (np.abs(np.abs(b.x) - np.abs(r)) <= reach)
    jump = near & (_any_inexact(a, b) | (np.trunc(a.x / b.x) != a.x / b.x))
    return finish(dtype, r, np.where(jump, np.abs(b.x) + b.e, reach), [a, b])


_FLOAT_BINARY: dict[str, Callable[[str, np.ndarray, Val, Val], Val]] = {
    "add": _sum, "sub": _sum, "mul": _product, "div": _quotient, "max": _extreme("max"), "min": _extreme("min"),
    "pow": _power, "rem": _remainder,
}  # fmt: skip

_STEPS = {"floor", "ceil", "round", "sign"}
_CURVED = {"exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "tanh", "sigmoid", "erf"}


def _unary(op: t.Map, r: np.ndarray, v: Val) -> Val:
    fn, dtype = op.fn, _dtype(op)
    f = oracle.UNARY[fn]
    if fn == "isnan":
        return Val(r, 0.0 if v.exact else np.where(np.isinf(v.bound()), 1.0, 0.0))
    if fn in ("neg", "abs"):
        return Val(r, v.e)
    if fn in _STEPS:
        return Val(r, _ends(f, v, r))
    ulps, u = accuracy.ULPS[fn], accuracy.unit(dtype)
    floor: Bound = 0.0 if dtype == "f64" else accuracy.FLOOR.get(fn, 0.0)
    if fn in ARGUMENT_SLOPE:
        slope = ARGUMENT_SLOPE[fn](r, v.x)
        floor = floor + np.where(np.isfinite(r), accuracy.ARGUMENT[fn] * u * slope, 0.0)
    if fn in _CURVED:
        spread = _ends(_domain(fn, f), v, r)
    elif fn in ("sin", "cos"):
        spread = np.minimum(v.e, 2.0)
    else:  # rsqrt and reciprocal, which have a pole
        spread = _ends(_domain(fn, f), v, r)
        if not v.exact:
            spread = np.where((np.abs(v.x) <= v.e) & (np.asarray(v.e) > 0), np.inf, spread)
    return finish(dtype, r, spread, [v], ulps, np.asarray(floor))


ARGUMENT_SLOPE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "exp": lambda r, x: np.where(r == 0, 0.0, np.abs(x) * r),
    "exp2": lambda r, x: np.where(r == 0, 0.0, np.abs(x) * r),
    "sigmoid": lambda r, x: np.where(r * (1 - r) == 0, 0.0, np.abs(x) * r * (1 - r)),
    "sin": lambda r, x: np.abs(x),
    "cos": lambda r, x: np.abs(x),
}
"""|x f'(x)|: what a relative error of the argument does to each function."""


def _domain(fn: str, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``f`` with arguments that an error moved out of its domain put back on its edge."""
    if fn in ("log", "log2", "sqrt", "rsqrt"):
        return lambda x: f(np.maximum(x, 0.0))
    return (lambda x: f(np.maximum(x, -1.0))) if fn == "log1p" else f


@rule(t.Map)
def _(op: t.Map, *values: Val) -> Val:
    r = oracle.apply(op, [v.x for v in values])
    if op.fn == "select":
        return _select(op, r, *values)
    if op.fn in t.COMPARE:
        return _compare(op, r, *values)
    kind = DTYPES[_dtype(op)].kind if op.fn != "isnan" else "float"
    if kind != "float":
        return Val(r, _exact_kind(op, r, values))
    if len(values) == 1:
        return _unary(op, r, values[0])
    return _FLOAT_BINARY[op.fn](_dtype(op), r, *values)


def _exact_kind(op: t.Map, r: np.ndarray, values: Sequence[Val]) -> Bound:
    """Integers and booleans: no rounding of their own; uncertain where an operand is and it matters."""
    if not _any_inexact(*values):
        return 0.0
    if r.dtype.kind == "b" and op.fn in ("and", "or") and len(values) == 2:
        a, b = values
        decided = [np.asarray(v.e) == 0 for v in values]
        settles = np.zeros if op.fn == "and" else np.ones
        fixed = (decided[0] & (a.x == settles((), bool))) | (decided[1] & (b.x == settles((), bool)))
        return np.where(fixed | (decided[0] & decided[1]), 0.0, 1.0)
    if op.fn in ("add", "sub"):
        return values[0].e + values[1].e
    doubt = np.broadcast_to(sum(np.asarray(v.e) for v in values), r.shape) > 0
    return np.where(doubt, 1.0 if r.dtype.kind == "b" else np.inf, 0.0)


# ---- reductions ------------------------------------------------------------------------------------------------------


def _whole(x: np.ndarray) -> int | None:
    """A power of two that makes every element a whole number, if a small one does."""
    for shift in (0, 12):
        scaled = x.reshape(-1)[:64] * 2.0**shift
        if np.all(np.rint(scaled) == scaled) and np.all(np.isfinite(x)):
            scaled = x * 2.0**shift
            if np.all(np.rint(scaled) == scaled):
                return shift
    return None


def _exact_sum(dtype: str, x: np.ndarray, total: np.ndarray) -> bool:
    """Whether sums of ``x``, whose magnitudes sum to ``total``, are exact in any order."""
    if dtype == "f64" or not total.size or not float(total.max(initial=0)) < 2.0**24:
        return False
    shift = _whole(x)
    return shift is not None and float(total.max(initial=0)) * 2.0**shift < 2.0**24


@rule(t.Fold)
def _(op: t.Fold, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    dtype = _dtype(op)
    if op.fn in ("any", "all"):
        return Val(r, _fold_truth(op, v))
    if r.dtype.kind != "f":
        return Val(r, 0.0 if v.exact else np.add.reduce(v.bound(), op.axes))
    n = int(np.prod([v.x.shape[a] for a in op.axes], dtype=np.int64))
    if op.fn in ("max", "min"):
        return _fold_extreme(op, v, r)
    if op.fn == "sum":
        return _summed(dtype, r, v, n, lambda x: np.add.reduce(x, op.axes))
    size = np.multiply.reduce(np.abs(v.x) + v.e, op.axes)
    return finish(dtype, r, size - np.abs(r) + accuracy.chain(n) * accuracy.unit(dtype) * size, [])


def _summed(dtype: str, r: np.ndarray, v: Val, n: Any, add: Callable[[np.ndarray], np.ndarray]) -> Val:
    """Sums ``r`` of ``n`` elements of ``v`` (a number, or one per sum); ``add`` sums an array as the operation does."""
    total = add(np.abs(v.x))
    if v.exact and _exact_sum(dtype, v.x, total):
        return finish(dtype, r, 0.0, [])
    passed = 0.0 if v.exact else add(v.bound())
    length = _length(n, v, add)
    spread = passed + length * accuracy.unit(dtype) * (total + passed)
    spread = np.where(np.isnan(spread) | np.isinf(spread), np.where(np.isinf(passed), np.inf, 0.0), spread)
    # Partial sums may overflow where the sum does not.
    spread = np.where(np.isfinite(r) & (total >= accuracy.largest("f64" if dtype == "f64" else "f32")), np.inf, spread)
    return finish(dtype, r, spread, [Val(r, spread)])


def _length(n: Any, v: Val, add: Callable[[np.ndarray], np.ndarray]) -> Any:
    """``chain`` of the terms that are not zero, since adding zero is exact; per element of the sum where that helps."""
    if not v.exact or np.max(n, initial=0) < 64 or np.count_nonzero(v.x) * 4 > v.x.size:
        return accuracy.chain(n)
    terms = add((v.x != 0).astype(np.float64))
    return np.minimum(terms, accuracy.chain(n))


def _fold_extreme(op: t.Fold, v: Val, r: np.ndarray) -> Val:
    if v.exact:
        return Val(r)
    high, low = oracle.fold(op.fn, v.x + v.e, op.axes), oracle.fold(op.fn, v.x - v.e, op.axes)
    spread = np.where(high == low, 0.0, np.maximum(np.abs(high - r), np.abs(r - low)))
    doubt = np.isnan(r) & np.isinf(np.max(v.bound(), axis=op.axes, initial=0.0))
    return Val(r, np.where(np.isnan(spread), np.where(doubt, np.inf, 0.0), spread))


def _fold_truth(op: t.Fold, v: Val) -> Bound:
    if v.exact:
        return 0.0
    sure = v.bound() == 0
    settled = np.logical_or.reduce(sure & (v.x if op.fn == "any" else ~v.x), op.axes)
    return np.where(settled | np.logical_and.reduce(sure, op.axes), 0.0, 1.0)


@rule(t.ArgFold)
def _(op: t.ArgFold, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    if not v.x.size:
        return Val(r)
    # Which index a row with NaN gives is not said.
    lost = np.isnan(v.x).any(op.axis) if v.x.dtype.kind == "f" else np.zeros(r.shape, bool)
    if v.exact:
        return Val(r, np.where(lost, np.inf, 0.0) if lost.any() else 0.0)
    sign = 1.0 if op.fn == "max" else -1.0
    low, high = sign * v.x - v.e, sign * v.x + v.e
    need = np.where(lost, -np.inf, low.max(op.axis))
    choice = Choice(op.axis, np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=0.0), need, np.full(need.shape, np.inf))
    several = np.add.reduce(high >= np.expand_dims(need, op.axis), op.axis) > 1
    return Val(r, np.where(several | lost, np.inf, 0.0), choice)


@rule(t.Cumulate)
def _(op: t.Cumulate, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    dtype = _dtype(op)
    if op.fn in ("max", "min"):
        if v.exact:
            return Val(r)
        high, low = oracle.cumulate(op, v.x + v.e), oracle.cumulate(op, v.x - v.e)
        return Val(r, np.where(high == low, 0.0, np.maximum(np.abs(high - r), np.abs(r - low))))
    if r.dtype.kind != "f":
        return Val(r, 0.0 if v.exact else oracle.cumulate(op, v.bound()))
    # Each sum is of as many elements as have been seen, which is how few roundings it may pass through.
    n = oracle.cumulate(replace(op, fn="sum"), np.ones(v.x.shape)).astype(np.int64)
    if op.fn == "sum":
        return _summed(dtype, r, v, n, lambda x: oracle.cumulate(op, x))
    size = oracle.cumulate(op, np.abs(v.x) + v.e)
    return finish(dtype, r, size - np.abs(r) + accuracy.chain(n) * accuracy.unit(dtype) * size, [])


@rule(t.WindowFold)
def _(op: t.WindowFold, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    if r.dtype.kind != "f":
        return Val(r, 0.0 if v.exact else np.inf)
    axes = tuple(range(v.x.ndim, 2 * v.x.ndim))
    cut = oracle.windows(op, v.x, oracle.identity(op.fn, v.x.dtype))
    bound = 0.0 if v.exact else oracle.windows(op, v.bound(), 0.0)
    flat = t.Fold(op.fn, Arg("window", t.TensorType(cut.shape, _dtype(op))), axes)
    return RULES[t.Fold](flat, Val(cut, bound))


# ---- contractions ----------------------------------------------------------------------------------------------------


def _contraction(
    op: t.Contract | t.Convolve, a: Val, b: Val, n: int, precision: str, times: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Val:
    """Sums of ``n`` products; ``times`` contracts two arrays."""
    r = oracle.apply(op, [a.x, b.x])
    if r.dtype.kind != "f":
        return Val(r)
    size_a, size_b = np.abs(a.x), np.abs(b.x)
    total = times(size_a, size_b)
    operand = tensor_type(op.operands[0]).dtype
    if not _any_inexact(a, b) and precision == "ieee" and _whole(a.x) == 0 and _exact_sum(op.dtype, b.x, total):
        return finish(op.dtype, r, 0.0, [])
    passed: Bound = 0.0
    if not a.exact:
        passed = passed + times(a.bound(), size_b)
    if not b.exact:
        passed = passed + times(size_a + a.e, b.bound())
    length: Any = accuracy.chain(n)
    if n >= 64 and any(v.exact and np.count_nonzero(v.x) * 4 <= v.x.size for v in (a, b)):
        length = np.minimum(times(_terms(a), _terms(b)), length)
    each = length * accuracy.accumulation_unit(operand, op.dtype, precision)
    each = each + accuracy.PRODUCT_UNIT[precision] + accuracy.unit(op.dtype)
    spread = passed + each * (total + passed) + n * accuracy.smallest_normal(op.dtype)
    spread = np.where(np.isnan(spread), np.where(np.isfinite(r), np.inf, 0.0), spread)
    top = accuracy.largest("f64" if op.dtype == "f64" else "f32")
    spread = np.where(np.isfinite(r) & (total >= top), np.inf, spread)
    skippable = _zero_times_nonfinite(a, b, times)
    if skippable is not None:
        r, spread = np.where(skippable, 0.0, r), np.where(skippable, np.inf, spread)
    return finish(op.dtype, r, spread, [Val(r, np.asarray(passed) + 0 * r if not isinstance(passed, float) else 0.0)])


def _terms(v: Val) -> np.ndarray:
    """1 where ``v`` may be other than zero."""
    return ((v.x != 0) | (np.asarray(v.e) > 0)).astype(np.float64)


def _zero_times_nonfinite(a: Val, b: Val, times: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray | None:
    """Where a sum is not finite only for products of NaN or infinity with what is or may be zero.

    These may be skipped: a causal attention kernel leaves out whole blocks of zero weights, whatever the values there
    are.  And a weight that underflows in one order of rounding and not in another makes NaN or infinity.
    """
    bad_a, bad_b = ~np.isfinite(a.x), ~np.isfinite(b.x)
    if not (bad_a.any() or bad_b.any()):
        return None
    sure_a, sure_b = _surely_not_zero(a), _surely_not_zero(b)

    def count(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return times(x.astype(np.float64), y.astype(np.float64))

    doubtful = count(bad_a, ~sure_b) + count(~sure_a, bad_b) > 0
    certain_nan = count(np.isnan(a.x), sure_b) + count(sure_a, np.isnan(b.x)) > 0
    return doubtful & ~certain_nan


def _surely_not_zero(v: Val) -> np.ndarray:
    return ~(np.abs(v.x) <= np.asarray(v.e) + accuracy.smallest_normal("f32") * (not v.exact))


@rule(t.Contract)
def _(op: t.Contract, a: Val, b: Val) -> Val:
    n = int(np.prod([a.x.shape[i] for i in op.lhs_axes], dtype=np.int64))
    return _contraction(op, a, b, n, op.precision, lambda x, y: oracle.contract(op, x, y))


@rule(t.Convolve)
def _(op: t.Convolve, a: Val, b: Val) -> Val:
    n = int(np.prod(b.x.shape[:-1], dtype=np.int64))
    return _contraction(op, a, b, n, "ieee", lambda x, y: oracle.convolve(op, x, y))


# ---- data-dependent moves --------------------------------------------------------------------------------------------


@rule(t.Gather)
def _(op: t.Gather, v: Val, indices: Val) -> Val:
    r = oracle.apply(op, [v.x, indices.x])
    e: Bound = 0.0
    if not v.exact:
        e = oracle.RULES[t.Gather](replace(op, fill=0), v.bound(), indices.x)
    if not indices.exact:
        doubt = indices.bound() > 0
        if not op.zipped:
            doubt = doubt.reshape(*[1] * op.axis, *doubt.shape, *[1] * (v.x.ndim - op.axis - 1))
        e = np.where(np.broadcast_to(doubt, r.shape), np.inf, e)
    return Val(r, e)


@rule(t.Scatter)
def _(op: t.Scatter, v: Val, indices: Val, updates: Val) -> Val:
    r = oracle.apply(op, [v.x, indices.x, updates.x])
    if not indices.exact:
        return Val(r, np.full(r.shape, np.inf) if np.any(indices.bound() > 0) else 0.0)
    if op.mode != "add":
        e = oracle.scatter(replace(op, mode="max"), v.bound().copy(), indices.x, updates.bound())
        return Val(r, 0.0 if not e.any() else e)
    if r.dtype.kind != "f":
        return Val(r, 0.0 if not _any_inexact(v, updates) else np.inf)
    total = oracle.scatter(op, np.abs(v.x), indices.x, np.abs(updates.x))
    passed = oracle.scatter(op, v.bound().copy(), indices.x, updates.bound())
    n = oracle.scatter(op, np.zeros(r.shape), indices.x, np.ones(updates.x.shape))
    if not passed.any() and _exact_sum(_dtype(op), np.concatenate([v.x.ravel(), updates.x.ravel()]), total):
        return finish(_dtype(op), r, 0.0, [])
    return finish(_dtype(op), r, passed + n * accuracy.unit(_dtype(op)) * (total + passed), [])


@rule(t.Sort)
def _(op: t.Sort, v: Val) -> tuple[Val, Val]:
    values, order = oracle.apply(op, [v.x])
    lost = np.isnan(v.x).any(op.axis, keepdims=True) if v.x.dtype.kind == "f" else np.zeros((), bool)
    if lost.any():  # where NaN goes is not said
        e = np.broadcast_to(np.where(lost, np.inf, np.max(v.bound(), axis=op.axis, keepdims=True)), values.shape)
        return Val(values, e), Val(order, np.where(e > 0, np.inf, 0.0))
    if v.exact:
        return Val(values), Val(order)
    worst = np.max(v.bound(), axis=op.axis, keepdims=True, initial=0.0)
    e = np.broadcast_to(worst, values.shape)
    choice = Choice(op.axis, v.x - v.e, v.x + v.e, values - e, values + e)
    return Val(values, e), Val(order, np.where(e > 0, np.inf, 0.0), choice)
