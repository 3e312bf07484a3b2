"""Random numbers: ours (Philox by element number) under the operator's seed, and not PyTorch's, whose stream follows from how
its kernels are launched."""

from __future__ import annotations

import math
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


@rule("aten.exponential")
def _(call: Call, x: Traced, lambd: float = 1.0, **kwargs: Any) -> Traced:
    return ew.multiply(ew.log(_above_zero(call)), -1.0 / lambd)


@rule("aten.geometric")
def _(call: Call, x: Traced, p: float, **kwargs: Any) -> Traced:
    return ew.ceil(ew.multiply(ew.log(_above_zero(call)), 1.0 / math.log1p(-p)))


@rule("aten.log_normal")
def _(call: Call, x: Traced, mean: float = 1.0, std: float = 2.0, **kwargs: Any) -> Traced:
    return ew.exp(random.normal(call.seed(), call.shape, float(mean), float(std)))


@rule("aten.cauchy")
def _(call: Call, x: Traced, median: float = 0.0, sigma: float = 1.0, **kwargs: Any) -> Traced:
    """A quotient of two normal numbers."""
    one, other = (random.normal(call.seed(), call.shape) for _ in range(2))
    return ew.add(ew.multiply(ew.divide(one, other), sigma), median)


@rule("aten.rrelu_with_noise_functional")
def _(call: Call, x: Traced, noise: Traced, lower: float = 1 / 8, upper: float = 1 / 3, train: bool = False,
      generator: Any = None) -> tuple[Traced, Traced]:  # fmt: skip
    """A leaky ReLU: of random slopes in training, else of the mean one."""
    slope = random.uniform(call.seed(), x.shape, lower, upper) if train else value((lower + upper) / 2, call.dtype)
    below = ew.less_equal(x, 0)
    return ew.where(below, ew.multiply(x, ew.cast(slope, call.dtype)), x), ew.where(below, slope, 1.0) if train else noise


def _above_zero(call: Call) -> Traced:
    """Uniform numbers in (0, 1], whose logarithms are finite."""
    return ew.subtract(1.0, random.uniform(call.seed(), call.shape))


@rule("aten.bernoulli.p")
def _(call: Call, x: Traced, p: float = 0.5, **kwargs: Any) -> Traced:
    return random.bernoulli(call.seed(), call.shape, float(p))


@rule("aten.bernoulli.default")
def _(call: Call, chance: Traced, **kwargs: Any) -> Traced:
    return ew.less(random.uniform(call.seed(), call.shape), chance)


@rule("aten.randint.low", "aten.randint.low_generator", "aten.randint_like.low_dtype")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    low, high = args[1:3] if call.base == "aten.randint_like" else args[:2]
    return _whole(call, low, high)


@rule("aten.randint.default", "aten.randint.generator", "aten.randint_like.default")
def _(call: Call, *args: Any, **kwargs: Any) -> Traced:
    return _whole(call, 0, args[1] if call.base == "aten.randint_like" else args[0])


def _whole(call: Call, low: int, high: int) -> Traced:
    if not 0 < high - low < 2**24:
        raise NotImported(f"random integers from {low} to {high}")
    line = random.uniform(call.seed(), call.shape)
    return ew.add(ew.cast(ew.floor(ew.multiply(line, float(high - low))), "i64"), low)


@rule("aten.multinomial")
def _(call: Call, weights: Traced, count: int, replacement: bool = False, **kwargs: Any) -> Traced:
    """The places of the largest log(weight) + noise of Gumbel's distribution: the first is drawn by the weights, and so is each
    next one of those that are left.  With replacement each draw has a noise of its own."""
    weights = ew.cast(weights, "f32")
    repeated = replacement and count > 1
    shape = (*weights.shape[:-1], count, weights.shape[-1]) if repeated else weights.shape
    noise = ew.negative(ew.log(ew.negative(ew.log(ew.add(ew.multiply(random.uniform(call.seed(), shape), 1 - 1e-7), 5e-8)))))
    chance = ew.log(weights)
    if repeated:
        spot = ew.add(views.expand_dims(chance, chance.ndim - 1), noise)
        return ordered(spot, spot.ndim - 1, True, 1)[1]
    return ordered(ew.add(chance, noise), chance.ndim - 1, True, count)[1]


@rule("aten.randperm")
def _(call: Call, n: Any, **kwargs: Any) -> Traced:
    """The order of as many random numbers."""
    bits = ew.cast(random.random_bits(call.seed(), (number(n, "a permutation"),)), "i64")
    return ordered(bits, 0, False)[1] if n else views.zeros((0,), call.dtype)
