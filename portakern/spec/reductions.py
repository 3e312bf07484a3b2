"""Reductions, running reductions, and what is made of them.

Of nothing: sum 0, prod 1, max -inf, min inf, any false, all true, mean and var NaN.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir.size import product
from portakern.ir.tensor import ArgFold, Cumulate, DimSize, Fold
from portakern.spec import elementwise as ew
from portakern.spec import views
from portakern.spec.location import located
from portakern.spec.traced import Traced, make
from portakern.spec.views import Axis


def _fold(fn: str, x: Traced, axis: Axis, keepdims: bool) -> Traced:
    axes = views.check_axes(axis, x.ndim)
    result = make(Fold(fn, x.op, axes)) if axes else x
    return views.expand_dims(result, axes) if keepdims and axes else result


def as_number(x: Traced) -> Traced:
    """``x`` as it is summed: booleans are counted in i32."""
    return ew.cast(x, "i32") if x.type.dtype == "bool" else x


def as_truth(x: Traced) -> Traced:
    """Whether each element of ``x`` is true, or not 0."""
    return x if x.type.dtype == "bool" else ew.not_equal(x, 0)


@located
def sum(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """The sum over ``axis`` (by default all), in the dtype of ``x``; booleans are counted in i32."""
    return _fold("sum", as_number(x), axis, keepdims)


@located
def prod(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """The product over ``axis``; 1 if there are no elements."""
    return _fold("prod", as_number(x), axis, keepdims)


@located
def max(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """The largest element; NaN if any is NaN."""
    return _fold("max", as_number(x), axis, keepdims)


@located
def min(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """The smallest element; NaN if any is NaN."""
    return _fold("min", as_number(x), axis, keepdims)


@located
def any(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """Whether any element is true along ``axis``; false if there are none."""
    return _fold("any", as_truth(x), axis, keepdims)


@located
def all(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """Whether all elements are true along ``axis``; true if there are none."""
    return _fold("all", as_truth(x), axis, keepdims)


@located
def mean(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """The mean over ``axis``; f32 for integers."""
    x = x if DTYPES[x.type.dtype].is_float else ew.cast(x, "f32")
    count = product(tuple(x.shape[a] for a in views.check_axes(axis, x.ndim)))
    return ew.divide(sum(x, axis, keepdims), make(DimSize(count, x.type.dtype)))


@located
def var(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """The mean of squared differences from the mean (no Bessel correction)."""
    centred = ew.subtract(x, mean(x, axis, keepdims=True))
    return mean(ew.multiply(centred, centred), axis, keepdims)


@located
def std(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """The square root of :func:`var`."""
    return ew.sqrt(var(x, axis, keepdims))


@located
def argmax(x: Traced, axis: int = -1, keepdims: bool = False) -> Traced:
    """The i32 index of the largest along ``axis``, the lowest among equals; a NaN counts as the largest.  True is larger than
    false."""
    return _place("max", x, axis, keepdims)


@located
def argmin(x: Traced, axis: int = -1, keepdims: bool = False) -> Traced:
    """The i32 index of the smallest along ``axis``, the lowest among equals; a NaN counts as the smallest.  True is larger than
    false."""
    return _place("min", x, axis, keepdims)


def _place(fn: str, x: Traced, axis: int, keepdims: bool) -> Traced:
    axis = views.check_axis(axis, x.ndim)
    found = make(ArgFold(fn, as_number(x).op, axis))
    return views.expand_dims(found, axis) if keepdims else found


def _cumulate(fn: str, x: Traced, axis: int, reverse: bool, exclusive: bool) -> Traced:
    return make(Cumulate(fn, as_number(x).op, views.check_axis(axis, x.ndim), reverse, exclusive))


@located
def cumsum(x: Traced, axis: int = -1, reverse: bool = False, exclusive: bool = False) -> Traced:
    """Running sum along ``axis``; ``exclusive`` leaves the element itself out."""
    return _cumulate("sum", x, axis, reverse, exclusive)


@located
def cumprod(x: Traced, axis: int = -1, reverse: bool = False, exclusive: bool = False) -> Traced:
    """Running product along ``axis``; ``exclusive`` leaves the element itself out."""
    return _cumulate("prod", x, axis, reverse, exclusive)


@located
def cummax(x: Traced, axis: int = -1, reverse: bool = False) -> Traced:
    """The largest up to each element along ``axis``; NaN from the first NaN on."""
    return _cumulate("max", x, axis, reverse, False)


@located
def cummin(x: Traced, axis: int = -1, reverse: bool = False) -> Traced:
    """The smallest up to each element along ``axis``; NaN from the first NaN on."""
    return _cumulate("min", x, axis, reverse, False)


@located
def softmax(x: Traced, axis: int = -1) -> Traced:
    """``exp(x)`` divided by its sum along ``axis``, shifted by the maximum so that nothing overflows."""
    e = ew.exp(ew.subtract(x, max(x, axis, keepdims=True)))
    return ew.divide(e, sum(e, axis, keepdims=True))


@located
def log_softmax(x: Traced, axis: int = -1) -> Traced:
    """``log(softmax(x))``."""
    shifted = ew.subtract(x, max(x, axis, keepdims=True))
    return ew.subtract(shifted, ew.log(sum(ew.exp(shifted), axis, keepdims=True)))


@located
def logsumexp(x: Traced, axis: Axis = None, keepdims: bool = False) -> Traced:
    """``log(sum(exp(x)))``, shifted by the maximum."""
    top = max(x, axis, keepdims=True)
    total = ew.add(ew.log(sum(ew.exp(ew.subtract(x, top)), axis, keepdims=True)), top)
    return total if keepdims else views.squeeze(total, views.check_axes(axis, x.ndim))
