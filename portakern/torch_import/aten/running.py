"""Running reductions."""

from __future__ import annotations

import math
from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec import recurrences, reductions, views
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, is_float, rule, value


@rule("aten.cumsum")
def _(call: Call, x: Traced, dim: int, **kwargs: Any) -> Traced:
    x = value(x, call.dtype)
    return reductions.cumsum(x, dim) if x.ndim else x


@rule("aten.cumprod")
def _(call: Call, x: Traced, dim: int, **kwargs: Any) -> Traced:
    x = value(x, call.dtype)
    return reductions.cumprod(x, dim) if x.ndim else x


@rule("aten.logcumsumexp")
def _(call: Call, x: Traced, dim: int) -> Traced:
    def joined(a: Traced, b: Traced) -> Traced:
        top = ew.maximum(a, b)
        low = ew.minimum(a, b)
        more = ew.log1p(ew.exp(ew.subtract(low, top)))
        return ew.add(top, ew.where(ew.equal(top, low), math.log(2), more))  # infinities of one sign have no difference

    return recurrences.associative_scan(joined, x, dim % x.ndim) if x.ndim else x


def _extreme(call: Call, x: Traced, dim: int, later: Any) -> tuple[Traced, Traced]:
    """Of equals the last, as PyTorch counts them."""
    if not x.ndim:
        return x, value(0, "i64")
    dim %= x.ndim

    def joined(left: Any, right: Any) -> Any:
        taken = later(right[0], left[0])
        if is_float(x.type.dtype):  # the last NaN, if any is
            taken = ew.logical_or(ew.isnan(right[0]), ew.logical_and(taken, ew.logical_not(ew.isnan(left[0]))))
        keep = ew.logical_not(taken)
        return ew.where(keep, left[0], right[0]), ew.where(keep, left[1], right[1])

    size = x.shape[dim]
    at = views.iota(x.shape, dim, "i32" if isinstance(size, int) and size < 2**31 else "i64")  # half as much to carry
    top, where = recurrences.associative_scan(joined, (x, at), dim)
    return top, ew.cast(where, "i64")


@rule("aten.cummax")
def _(call: Call, x: Traced, dim: int) -> tuple[Traced, Traced]:
    return _extreme(call, x, dim, ew.greater_equal)


@rule("aten.cummin")
def _(call: Call, x: Traced, dim: int) -> tuple[Traced, Traced]:
    return _extreme(call, x, dim, ew.less_equal)
