"""Numbers as quantised ones would be: rounded to steps, between two limits."""

from __future__ import annotations

from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, column, rule, value


def _quantised(x: Traced, scale: Any, zero: Any, low: int, high: int) -> tuple[Traced, Traced]:
    """``x`` in steps of ``scale``, and where it lies between the limits.  PyTorch multiplies by the reciprocal."""
    inverse = ew.reciprocal(scale) if isinstance(scale, Traced) else 1.0 / scale
    step = ew.add(ew.round(ew.multiply(x, inverse)), zero)
    inside = ew.logical_and(ew.greater_equal(step, float(low)), ew.less_equal(step, float(high)))
    return ew.multiply(ew.subtract(ew.clip(step, float(low), float(high)), zero), scale), inside


@rule("aten.fake_quantize_per_tensor_affine_cachemask")
def _(call: Call, x: Traced, scale: float, zero: int, low: int, high: int) -> tuple[Traced, Traced]:
    return _quantised(x, float(scale), float(zero), low, high)


@rule("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def _(call: Call, x: Traced, scale: Traced, zero: Traced, enabled: Traced, low: int, high: int) -> tuple[Traced, Traced]:
    dtype = x.type.dtype
    made, inside = _quantised(x, ew.cast(scale, dtype), ew.cast(zero, dtype), low, high)
    on = ew.not_equal(enabled, 0)
    return ew.where(on, made, x), ew.logical_or(inside, ew.logical_not(on))


@rule("aten.fake_quantize_per_channel_affine_cachemask")
def _(call: Call, x: Traced, scale: Traced, zero: Traced, axis: int, low: int, high: int) -> tuple[Traced, Traced]:
    steps, origin = (column(value(v, x.type.dtype), x.shape, axis % x.ndim) for v in (scale, zero))
    return _quantised(x, steps, origin, low, high)
