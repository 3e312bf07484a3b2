"""Arrays from nothing."""

from __future__ import annotations

from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec import views
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, is_float, rule, spread, value


def filled(call: Call, fill: Any) -> Traced:
    return spread(value(fill, call.dtype), call.shape)


@rule("aten.full", "aten.full_like", "aten.fill")
def _(call: Call, like: Any, fill: Any, **kwargs: Any) -> Traced:
    return filled(call, fill)


@rule("aten.new_full")
def _(call: Call, like: Any, size: Any, fill: Any, **kwargs: Any) -> Traced:
    return filled(call, fill)


@rule("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.empty", "aten.empty_like", "aten.empty_strided",
      "aten.empty_permuted", "aten.new_empty", "aten.new_empty_strided")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    """What an empty array holds is undefined; here it is zeros."""
    return filled(call, 0)


@rule("aten.ones", "aten.ones_like", "aten.new_ones")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    return filled(call, 1)


@rule("aten.arange.start_step")
def _(call: Call, start: Any, end: Any, step: Any = 1, **kwargs: Any) -> Traced:
    return _line(call, start, step)


@rule("aten.arange.start")
def _(call: Call, start: Any, end: Any, **kwargs: Any) -> Traced:
    return _line(call, start, 1)


@rule("aten.arange.default", "prims.iota")
def _(call: Call, length: Any, start: Any = 0, step: Any = 1, **kwargs: Any) -> Traced:
    return _line(call, start, step)


def _line(call: Call, start: Any, step: Any) -> Traced:
    if is_float(call.dtype):
        line = ew.cast(views.arange(call.shape[0], "i64"), call.dtype)
    else:
        line = views.arange(call.shape[0], call.dtype)
    line = line if step == 1 else ew.multiply(line, value(step, call.dtype))
    return line if isinstance(start, int | float) and start == 0 else ew.add(line, value(start, call.dtype))


@rule("aten.linspace")
def _(call: Call, start: Any, end: Any, steps: int, **kwargs: Any) -> Traced:
    """From both ends to the middle, so that both are exact."""
    dtype = call.dtype if is_float(call.dtype) else "f32"
    at = views.arange(call.shape[0], "i32")
    start, end = value(start, dtype), value(end, dtype)
    step = ew.divide(ew.subtract(end, start), max(steps - 1, 1))
    up = ew.add(ew.multiply(ew.cast(at, dtype), step), start)
    down = ew.subtract(end, ew.multiply(ew.cast(ew.subtract(steps - 1, at), dtype), step))
    return ew.where(ew.less(at, steps // 2), up, down)
