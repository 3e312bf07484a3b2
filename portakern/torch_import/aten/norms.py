"""Normalisations, with statistics in f32 or wider."""

from __future__ import annotations

from typing import Any

from portakern.ir.size import exact, product
from portakern.spec import elementwise as ew
from portakern.spec import views
from portakern.spec.traced import Traced
from portakern.torch_import.aten.reductions import count, variance
from portakern.torch_import.rules import Call, column, rule, value, wide


def normalised(x: Traced, axes: tuple[int, ...], eps: float) -> tuple[Traced, Traced, Traced]:
    """(x less its mean over its deviation, mean, reciprocal of the deviation), dims kept."""
    var, mean = variance(x, axes, 0, True)
    scale = ew.rsqrt(ew.add(var, float(eps)))
    return ew.multiply(ew.subtract(x, mean), scale), mean, scale


def affine(x: Traced, w: Traced | None, b: Traced | None) -> Traced:
    x = ew.multiply(x, ew.cast(w, x.type.dtype)) if w is not None else x
    return ew.add(x, ew.cast(b, x.type.dtype)) if b is not None else x


@rule("aten.native_layer_norm")
def _(call: Call, x: Traced, shape: Any, w: Traced | None, b: Traced | None, eps: float) -> tuple[Traced, Traced, Traced]:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    made, mean, scale = normalised(ew.cast(x, wide(x.type.dtype)), axes, eps)
    return affine(made, w, b), mean, scale


@rule("aten._fused_rms_norm")
def _(call: Call, x: Traced, shape: Any, w: Traced | None, eps: float | None) -> tuple[Traced, Traced]:
    from portakern.spec import reductions

    axes = tuple(range(x.ndim - len(shape), x.ndim))
    tiny = {"f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}.get(x.type.dtype, 2.0**-23)
    wider = ew.cast(x, wide(x.type.dtype))
    scale = ew.rsqrt(ew.add(reductions.mean(ew.square(wider), axes, keepdims=True), tiny if eps is None else float(eps)))
    return affine(ew.multiply(wider, scale), w, None), scale


@rule("aten.native_group_norm")
def _(call: Call, x: Traced, w: Traced | None, b: Traced | None, n: Any, c: Any, inner: Any, groups: int, eps: float
      ) -> tuple[Traced, Traced, Traced]:  # fmt: skip
    part = exact(c, groups)
    split = views.reshape(ew.cast(x, wide(x.type.dtype)), (n, groups, part, inner))
    made, mean, scale = normalised(split, (2, 3), eps)
    w, b = (views.reshape(v, (1, groups, part, 1)) if v is not None else None for v in (w, b))
    made = views.reshape(affine(made, w, b), x.shape)
    return made, views.reshape(mean, (n, groups)), views.reshape(scale, (n, groups))


# ---- over the batch -------------------------------------------------------------------------------------------------


def _of_channels(x: Traced, w: Traced | None, b: Traced | None) -> Traced:
    w, b = (column(v, x.shape) if v is not None else None for v in (w, b))
    return affine(x, w, b)


def _by_batch(x: Traced, w: Traced | None, b: Traced | None, eps: float) -> tuple[Traced, Traced, Traced, Traced]:
    """(normalised by the batch's own statistics, mean, variance, reciprocal of the deviation), the latter by channel."""
    axes = tuple(i for i in range(x.ndim) if i != 1)
    x = ew.cast(x, wide(x.type.dtype))
    var, mean = variance(x, axes, 0, False)
    mean = views.reshape(mean, var.shape)
    scale = ew.rsqrt(ew.add(var, float(eps)))
    made = ew.multiply(ew.subtract(x, column(mean, x.shape)), column(scale, x.shape))
    return _of_channels(made, w, b), mean, var, scale


def _by_running(x: Traced, w: Traced | None, b: Traced | None, mean: Traced, var: Traced, eps: float) -> Traced:
    x = ew.cast(x, wide(x.type.dtype))
    scale = ew.rsqrt(ew.add(ew.cast(var, x.type.dtype), float(eps)))
    centred = ew.subtract(x, column(ew.cast(mean, x.type.dtype), x.shape))
    return _of_channels(ew.multiply(centred, column(scale, x.shape)), w, b)


def _unused(call: Call) -> list[Traced | None]:
    """What an inference gives in place of the batch's statistics: arrays of nothing."""
    return [views.zeros(m.shape, m.dtype) if i in call.used and m is not None else None
            for i, m in enumerate(call.results[1:3], 1)]  # fmt: skip


@rule("aten._native_batch_norm_legit_no_training")
def _(call: Call, x: Traced, w: Any, b: Any, mean: Traced, var: Traced, momentum: float, eps: float) -> Any:
    return _by_running(x, w, b, mean, var, eps), *_unused(call)


@rule("aten._native_batch_norm_legit.no_stats")
def _(call: Call, x: Traced, w: Any, b: Any, training: bool, momentum: float, eps: float) -> Any:
    made, mean, _, scale = _by_batch(x, w, b, eps)
    return made, mean, scale


@rule("aten._native_batch_norm_legit_functional", "aten._native_batch_norm_legit.default", "aten.native_batch_norm",
      "aten._batch_norm_with_update_functional")
def _(call: Call, x: Traced, w: Any, b: Any, mean: Any, var: Any, *rest: Any) -> Any:
    training = rest[0] if len(rest) == 3 else True
    momentum, eps = rest[-2:]
    if not training:
        return (_by_running(x, w, b, mean, var, eps), *_unused(call), mean, var)[: len(call.results)]
    made, own_mean, own_var, scale = _by_batch(x, w, b, eps)
    results: tuple[Any, ...] = (made, own_mean, scale)
    if call.base == "aten._batch_norm_with_update_functional":
        results = (*results, None)
    if mean is None or len(call.results) <= len(results):
        return results
    axes = tuple(i for i in range(x.ndim) if i != 1)
    size = product(tuple(x.shape[a] for a in axes))
    unbiased = own_var if size == 1 else ew.multiply(own_var, ew.divide(count(made, axes), count(made, axes, 1)))
    return (*results, _moved(mean, own_mean, momentum), _moved(var, unbiased, momentum))


def _moved(running: Traced, new: Traced, momentum: float) -> Traced:
    new = value(new, running.type.dtype)
    return ew.add(ew.multiply(running, 1.0 - momentum), ew.multiply(new, float(momentum)))
