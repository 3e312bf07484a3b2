"""Comparisons, tests and logic: what gives truths."""

from __future__ import annotations

import math
from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced, common_dtype
from portakern.torch_import.aten.pointwise import is_negative
from portakern.torch_import.rules import RULES, Call, Rule, is_float, rule, truth, value


def _compared(fn: str) -> Rule:
    def apply(call: Call, a: Any, b: Any) -> Traced:
        # PyTorch compares in the dtype that both have together; f16 with bf16 in f32, as here.
        return ew.elementwise(fn, a, b, dtype=common_dtype([a, b]))

    return apply


RULES.update({f"aten.{fn}": _compared(fn) for fn in ("eq", "ne", "lt", "le", "gt", "ge")})


@rule("aten.isnan")
def _(call: Call, x: Traced) -> Traced:
    return ew.isnan(x) if is_float(x.type.dtype) else ew.not_equal(x, x)


@rule("aten.isinf")
def _(call: Call, x: Traced) -> Traced:
    return ew.equal(ew.abs(x), math.inf) if is_float(x.type.dtype) else ew.not_equal(x, x)


@rule("aten.signbit")
def _(call: Call, x: Traced) -> Traced:
    return is_negative(x)


@rule("aten.logical_and")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    return ew.logical_and(truth(a), truth(b))


@rule("aten.logical_or")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    return ew.logical_or(truth(a), truth(b))


@rule("aten.logical_xor")
def _(call: Call, a: Traced, b: Traced) -> Traced:
    return ew.logical_xor(truth(a), truth(b))


@rule("aten.logical_not")
def _(call: Call, x: Traced) -> Traced:
    return ew.logical_not(truth(x))


@rule("aten.scalar_tensor")
def _(call: Call, x: Any, **kwargs: Any) -> Traced:
    return value(x, call.dtype)
