"""Reductions, and softmaxes, which are made of them."""

from __future__ import annotations

import math
from typing import Any

from portakern.ir.size import product
from portakern.ir.tensor import ArgFold, DimSize
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
from portakern.spec.traced import Traced, make
from portakern.torch_import.rules import RULES, Call, Rule, axes_of, is_float, rule, truth, value, wide


def fold(fn: str, x: Traced, dims: Any = None, keepdim: bool = False) -> Traced:
    axes = axes_of(dims, x.ndim)
    return getattr(reductions, fn)(x, axes, keepdim) if axes else x


def count(x: Traced, dims: Any, less: Any = 0) -> Traced:
    """How many elements are reduced, less some, as a scalar of the dtype of ``x``."""
    size = product(tuple(x.shape[a] for a in axes_of(dims, x.ndim)))
    if isinstance(less, float) and not less.is_integer():
        return ew.subtract(make(DimSize(size, x.type.dtype)), less)
    left = size - int(less)
    return make(DimSize(max(left, 0) if isinstance(left, int) else left, x.type.dtype))


@rule("aten.sum", "aten.nansum")
def _(call: Call, x: Traced, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Traced:
    return fold("sum", value(x, call.dtype), dim, keepdim)


@rule("aten.prod")
def _(call: Call, x: Traced, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Traced:
    return fold("prod", value(x, call.dtype), dim, keepdim)


@rule("aten.mean")
def _(call: Call, x: Traced, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Traced:
    x = value(x, call.dtype)
    return ew.divide(fold("sum", x, dim, keepdim), count(x, dim))


def _extreme(fn: str, logical: str) -> Rule:
    def apply(call: Call, x: Traced, dim: Any = (), keepdim: bool = False) -> Traced:
        return fold(logical if x.type.dtype == "bool" else fn, x, dim, keepdim)

    return apply


RULES.update({"aten.amax": _extreme("max", "any"), "aten.amin": _extreme("min", "all")})


@rule("aten.any")
def _(call: Call, x: Traced, dim: Any = None, keepdim: bool = False) -> Traced:
    return fold("any", truth(x), dim, keepdim)


@rule("aten.all")
def _(call: Call, x: Traced, dim: Any = None, keepdim: bool = False) -> Traced:
    return fold("all", truth(x), dim, keepdim)


def place(fn: str, x: Traced, dim: int, keepdim: bool) -> Traced:
    """Where the largest or smallest lies along ``dim``."""
    x = ew.cast(x, "i32") if x.type.dtype == "bool" else x
    found = make(ArgFold(fn, x.op, dim, "i64"))
    return views.expand_dims(found, dim) if keepdim else found


def _extreme_and_place(fn: str, logical: str) -> Rule:
    def apply(call: Call, x: Traced, dim: Any = None, keepdim: bool = False) -> Any:
        named = logical if x.type.dtype == "bool" else fn
        if dim is None:
            return fold(named, x)
        if not x.ndim:
            return x, value(0, "i64")
        return fold(named, x, dim, keepdim), place(fn, x, dim % x.ndim, keepdim) if 1 in call.used else None

    return apply


RULES.update({"aten.max": _extreme_and_place("max", "any"), "aten.min": _extreme_and_place("min", "all")})


def _place(fn: str) -> Rule:
    def apply(call: Call, x: Traced, dim: int | None = None, keepdim: bool = False) -> Traced:
        if not x.ndim:
            return value(0, "i64")
        if dim is None:
            return views.reshape(place(fn, views.reshape(x, (product(x.shape),)), 0, False), call.shape)
        return place(fn, x, dim % x.ndim, keepdim)

    return apply


RULES.update({"aten.argmax": _place("max"), "aten.argmin": _place("min")})


# ---- statistics -----------------------------------------------------------------------------------------------------


def variance(x: Traced, dims: Any, correction: Any, keepdim: bool) -> tuple[Traced, Traced]:
    """(variance, mean), the mean with its dims kept."""
    mean = ew.divide(fold("sum", x, dims, True), count(x, dims))
    centred = ew.subtract(x, mean)
    total = fold("sum", ew.multiply(centred, centred), dims, keepdim)
    return ew.divide(total, count(x, dims, 1 if correction is None else correction)), mean


@rule("aten.var.correction")
def _(call: Call, x: Traced, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Traced:
    return variance(ew.cast(x, wide(x.type.dtype)), dim, correction, keepdim)[0]


@rule("aten.var.dim")
def _(call: Call, x: Traced, dim: Any = None, unbiased: bool = True, keepdim: bool = False) -> Traced:
    return variance(ew.cast(x, wide(x.type.dtype)), dim, int(unbiased), keepdim)[0]


@rule("aten.std.correction")
def _(call: Call, x: Traced, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Traced:
    return ew.sqrt(variance(ew.cast(x, wide(x.type.dtype)), dim, correction, keepdim)[0])


@rule("aten.var_mean.correction")
def _(call: Call, x: Traced, dim: Any = None, correction: Any = None, keepdim: bool = False) -> tuple[Traced, Traced]:
    x = ew.cast(x, wide(x.type.dtype))
    var, mean = variance(x, dim, correction, keepdim)
    return var, mean if keepdim else views.reshape(mean, var.shape)


@rule("aten.linalg_vector_norm")
def _(call: Call, x: Traced, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Traced:
    return vector_norm(value(x, wide(call.dtype)), float(ord), dim, keepdim)


def vector_norm(x: Traced, order: float, dim: Any, keepdim: bool) -> Traced:
    if order == 2:
        return ew.sqrt(fold("sum", ew.multiply(x, x), dim, keepdim))
    if order in (math.inf, -math.inf):
        return fold("max" if order > 0 else "min", ew.abs(x), dim, keepdim)
    if order == 0:
        return fold("sum", ew.cast(ew.not_equal(x, 0), x.type.dtype), dim, keepdim)
    if order == 1:
        return fold("sum", ew.abs(x), dim, keepdim)
    return ew.pow(fold("sum", ew.pow(ew.abs(x), order), dim, keepdim), 1.0 / order)


# ---- softmaxes ------------------------------------------------------------------------------------------------------


def _softmax(function: Any, of_one: float) -> Rule:
    def apply(call: Call, x: Traced, dim: int, *args: Any, **kwargs: Any) -> Traced:
        x = value(x, wide(call.dtype) if is_float(call.dtype) else call.dtype)
        return function(x, dim) if x.ndim else value(of_one, call.dtype)

    return apply


RULES.update(dict.fromkeys(("aten._softmax", "aten.softmax", "aten._safe_softmax"), _softmax(reductions.softmax, 1.0)))
RULES.update(dict.fromkeys(("aten._log_softmax", "aten.log_softmax"), _softmax(reductions.log_softmax, 0.0)))


@rule("aten.logsumexp")
def _(call: Call, x: Traced, dim: Any, keepdim: bool = False) -> Traced:
    x = value(x, call.dtype)
    return reductions.logsumexp(x, axes_of(dim, x.ndim), keepdim) if x.ndim else x
