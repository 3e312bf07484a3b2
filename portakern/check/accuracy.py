"""How exact the arithmetic of a correct kernel is: what the bounds assume beside the functions of elements, each of which
states its own accuracy (:mod:`portakern.ir.functions`).

Kernels compute f16, bf16 and 8-bit values in f32 and everything else in its own dtype.  Subnormal results and operands may be
flushed to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from portakern.dtypes import DTYPES

LONGEST_CHAIN = 2048
"""Roundings that act independently mostly cancel: a running sum of more numbers, up to millions, errs by fewer roundings."""

SCALED_FIRST = 4.0
"""Roundings, each of ``u`` times a row's maximum, of exponents of softmax.  Kernels compute
``exp2(s * c - m * c)`` with ``c = scale * log2(e)`` in one multiply-add: the products with the maximum and the scale are
rounded, and what is lost is not small beside the difference (FlashAttention-2 does so; scores beyond 2^30 give NaN)."""

SCALED_UP_TO = 2.0**11
"""Maxima up to which that is granted where scores are not of attention between 16-bit operands: as much as rounding to f16."""


def unit(dtype: str) -> float:
    """The unit roundoff of the dtype that values of ``dtype`` are computed in.

    For f64 it is doubled, since the oracle itself computes in float64.
    """
    return 2.0**-52 if dtype == "f64" else 2.0**-24


def smallest_normal(dtype: str) -> float:
    """Below this a result of the computing dtype may be flushed to zero."""
    return 2.0**-1022 if dtype == "f64" else 2.0**-126


def largest(dtype: str) -> float:
    """Above this a value of ``dtype`` may be infinite."""
    return DTYPES[dtype].largest


PRODUCT_UNIT: dict[str, float] = {"ieee": 0.0, "tf32": 2.0**-10, "bf16x3": 2.0**-15, "bf16x6": 2.0**-22, "fp8_fast": 0.0}
"""Relative error of one product of f32 operands by the precision a contraction asks for (both operands together)."""


def accumulation_unit(operand: str, dtype: str, precision: str) -> float:
    """Relative error of one addition inside a contraction.

    Matrix units truncate what they align (measured on NVIDIA tensor cores by Fasi, Higham, Mikaitis and Pranesh 2021),
    hence twice the roundoff for narrow operands; fast fp8 accumulation keeps 14 bits.
    """
    if precision == "fp8_fast":
        return 2.0**-13
    return unit(dtype) if operand in ("f32", "f64") else 2.0**-23


def chain(n: Any) -> Any:
    """How many roundings a sum of ``n`` generic numbers (an integer, or an array of them) may err by, in any order.

    Terms that are rounded alike err by more: :mod:`portakern.check.bounds.drift`.
    """
    return np.minimum(n, LONGEST_CHAIN) + -(-n // LONGEST_CHAIN)
