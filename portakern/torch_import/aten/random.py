"""Random numbers: ours (Philox by element number) under the operator's seed, and not PyTorch's, whose stream follows from how
its kernels are launched."""

from __future__ import annotations

from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec import random, views
from portakern.spec.traced import Traced
from portakern.torch_import.aten.orders import ordered
from portakern.torch_import.rules import Call, number, rule, spread, value
from portakern.torch_import.types import NotImported


@rule("aten.native_dropout")
def _(call: Call, x: Traced, p: float, train: bool | None) -> tuple[Traced, Traced]:
    if not train or p == 0:
        return x, spread(value(True, "bool"), x.shape)
    if p == 1:
        return ew.multiply(x, 0.0), spread(value(False, "bool"), x.shape)
    kept = ew.logical_not(random.bernoulli(call.seed(), x.shape, float(p)))
    return ew.where(kept, ew.multiply(x, 1.0 / (1.0 - p)), 0.0), kept


@rule("aten.rand", "aten.rand_like")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    return random.uniform(call.seed(), call.shape)


@rule("aten.randn", "aten.randn_like")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    return random.normal(call.seed(), call.shape)


@rule("aten.uniform")
def _(call: Call, x: Traced, low: float = 0.0, high: float = 1.0, **kwargs: Any) -> Traced:
    low, high = kwargs.get("from", low), kwargs.get("to", high)
    return random.uniform(call.seed(), call.shape, float(low), float(high))


@rule("aten.normal_functional")
def _(call: Call, x: Traced, mean: float = 0.0, std: float = 1.0, **kwargs: Any) -> Traced:
    return random.normal(call.seed(), call.shape, float(mean), float(std))


@rule("aten.bernoulli.p")
def _(call: Call, x: Traced, p: float = 0.5, **kwargs: Any) -> Traced:
    return random.bernoulli(call.seed(), call.shape, float(p))


@rule("aten.bernoulli.default")
def _(call: Call, chance: Traced, **kwargs: Any) -> Traced:
    return ew.less(random.uniform(call.seed(), call.shape), chance)


@rule("aten.randint.low", "aten.randint_like.low_dtype")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    low, high = args[1:3] if call.base == "aten.randint_like" else args[:2]
    return _whole(call, low, high)


@rule("aten.randint.default", "aten.randint_like.default")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    return _whole(call, 0, args[1] if call.base == "aten.randint_like" else args[0])


def _whole(call: Call, low: int, high: int) -> Traced:
    if not 0 < high - low < 2**24:
        raise NotImported(f"random integers from {low} to {high}")
    line = random.uniform(call.seed(), call.shape)
    return ew.add(ew.cast(ew.floor(ew.multiply(line, float(high - low))), "i64"), low)


@rule("aten.randperm")
def _(call: Call, n: Any, **kwargs: Any) -> Traced:
    """The order of as many random numbers."""
    bits = ew.cast(random.random_bits(call.seed(), (number(n, "a permutation"),)), "i64")
    return ordered(bits, 0, False)[1] if n else views.zeros((0,), call.dtype)
