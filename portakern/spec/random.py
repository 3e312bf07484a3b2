"""Random numbers from a counter and a seed: the same for the same seed on every target and in every run.

Bits are those of Philox 4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): the row-major number of an
element, divided by four, is the counter, the seed the key, and the remainder says which of the four words is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from portakern.ir.size import Size
from portakern.ir.tensor import RandomBits
from portakern.spec import elementwise as ew
from portakern.spec import views
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, as_traced, make


@located
def random_bits(seed: Traced | int, shape: Sequence[Size]) -> Traced:
    """u32 of ``shape``, each bit 0 or 1 with equal chance; ``seed`` is an integer (``pk.Scalar[pk.i64]``, an array of one)."""
    key = as_traced(seed, "i64")
    if key.ndim:
        if any(size != 1 for size in key.shape):
            raise spec_error(f"a seed of {key.type}", "a seed is one integer: pk.Scalar[pk.i64]")
        key = views.reshape(key, ())
    if key.type.dtype not in ("i32", "i64"):
        raise spec_error(f"a seed of {key.type.dtype}", "a seed is an integer: pk.Scalar[pk.i64]")
    return make(RandomBits(key.op, tuple(shape)))


@located
def uniform(seed: Traced | int, shape: Sequence[Size], low: float = 0.0, high: float = 1.0, dtype: Any = "f32") -> Traced:
    """Numbers from ``low`` to below ``high``, in steps of 2 ** -24 of the range."""
    bits = ew.cast(ew.shift_right(ew.cast(random_bits(seed, shape), "i64"), 8), "f32")
    return ew.cast(bits * (2.0**-24 * (high - low)) + low, dtype)


@located
def normal(seed: Traced | int, shape: Sequence[Size], mean: float = 0.0, std: float = 1.0, dtype: Any = "f32") -> Traced:
    """Normally distributed numbers, by Box and Muller's transform of two uniform ones for each."""
    both = ew.cast(ew.shift_right(ew.cast(random_bits(seed, (*shape, 2)), "i64"), 8), "f32")
    radius = ew.sqrt(-2.0 * ew.log((both[..., 0] + 1.0) * 2.0**-24))  # of (0, 1], so that no logarithm is infinite
    return ew.cast(radius * ew.cos(both[..., 1] * (2.0**-24 * 2.0 * math.pi)) * std + mean, dtype)


@located
def bernoulli(seed: Traced | int, shape: Sequence[Size], chance: float = 0.5) -> Traced:
    """True with probability ``chance``, to within 2 ** -32."""
    if not 0.0 <= chance <= 1.0:
        raise spec_error(f"a chance of {chance}", "chances are from 0 to 1")
    return ew.cast(random_bits(seed, shape), "i64") < round(chance * 2**32)


@located
def dropout(x: Traced, seed: Traced | int, chance: float = 0.5) -> Traced:
    """``x / (1 - chance)``, where each element is 0 with probability ``chance``."""
    if not 0.0 <= chance < 1.0:
        raise spec_error(f"a chance of {chance}", "chances of being dropped are from 0 to below 1")
    return ew.where(bernoulli(seed, x.shape, chance), 0, x * (1.0 / (1.0 - chance)))
