"""Activations that core ATen keeps; the others are decomposed by PyTorch."""

from __future__ import annotations

from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten.pointwise import arithmetic
from portakern.torch_import.rules import Call, is_float, rule, wide


@rule("aten.relu")
def _(call: Call, x: Traced) -> Traced:
    return ew.maximum(x, 0)


@rule("aten.gelu")
def _(call: Call, x: Traced, approximate: str = "none") -> Traced:
    return ew.gelu(ew.cast(x, wide(x.type.dtype)), approximate)


@rule("aten.silu")
def _(call: Call, x: Traced) -> Traced:
    return ew.silu(x)


@rule("aten.softplus")
def _(call: Call, x: Traced, beta: float = 1, threshold: float = 20) -> Traced:
    scaled = ew.multiply(x, float(beta)) if beta != 1 else x
    smooth = ew.divide(ew.softplus(scaled), float(beta)) if beta != 1 else ew.softplus(scaled)
    return ew.where(ew.greater(scaled, float(threshold)), x, smooth)


@rule("aten.mish_backward")
def _(call: Call, grad: Traced, x: Traced) -> Traced:
    """Of x tanh(softplus(x)); the derivative of softplus is the sigmoid."""
    inner = ew.tanh(ew.softplus(x))
    slope = ew.multiply(ew.sigmoid(x), ew.subtract(1.0, ew.multiply(inner, inner)))
    return ew.multiply(grad, ew.add(inner, ew.multiply(x, slope)))


@rule("aten.elu")
def _(call: Call, x: Traced, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Traced:
    inner = ew.multiply(x, float(input_scale)) if input_scale != 1 else x
    below = ew.multiply(ew.expm1(inner), float(alpha * scale))
    return ew.where(ew.greater(x, 0), ew.multiply(x, float(scale)) if scale != 1 else x, below)


@rule("aten.leaky_relu")
def _(call: Call, x: Traced, negative_slope: float = 0.01) -> Traced:
    return ew.where(ew.greater(x, 0), x, ew.multiply(x, float(negative_slope)))


@rule("aten.hardtanh")
def _(call: Call, x: Traced, min_val: Any = -1.0, max_val: Any = 1.0) -> Traced:
    low, high = (float(v) if is_float(call.dtype) else int(v) for v in (min_val, max_val))
    return arithmetic(call, "min", arithmetic(call, "max", x, low), high)
