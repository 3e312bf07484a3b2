"""Softmax as hardware computes exponentials.

The hardware's exponential is a power of two (``ex2.approx``, ``v_exp_f32``), so ``exp(x * s - r)`` becomes
``exp2(x * (s log2 e) - r log2 e)``: one multiply-add and one power for each element, where the product with ``log2 e`` and
the one with the scale would be two more.  For that, scales by a positive constant move out of maxima and masks, which
changes no bit: rounding is monotonic.

What it costs is an error of ``2^-24 |r|`` in every exponent of a row, alike for all that are computed with one maximum: with
scores near 500 the largest weight is 1.00003.  Of a weighted mean that cancels, and what is left of it between two maxima is
far below the rounding of weights to 16 bits.  Nowhere else (:func:`may_scale_first`), unless a platform says so: between
products of 16 bits alone the error is no larger than that of the scores themselves (:func:`of_narrow_products`).

Masks are not always infinite: -1e30 and the most negative number are usual, and a tile may hold nothing else.  An error of
``2^-24 * 1e30`` would leave a row of them no weight, or infinite ones.  So each row has its own factor: ``log2 e``, or 1 where
its maximum is as large as :data:`STEEP`.  There the difference to the maximum is exact, and so large, if it is any, that no
factor matters.  Scores that are a product and a constant alone have the constant: they hold no mask but -inf.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from portakern.dtypes import DTYPES
from portakern.ir.core import Op
from portakern.ir.invariants import with_invariants_hoisted
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Binary, Broadcast, Compare, Const, Dot, Fma, Kernel, Mask, Reduce, Select, Unary, tile_type

rules = Rules()
fusing = Rules()

LOG2_E = math.log2(math.e)

STEEP = float(1 << 27)
"""From here on neighbouring numbers of f32 are 16 apart (8 below), of which a power has no weight beside 1; below, the error in
an exponent is at most 8, which weights of 16 bits and their sums have room for."""


def may_scale_first(kernel: Kernel) -> bool:
    """Whether exponents may be scaled before they are shifted: in attention whose weights have 16 bits and are divided by their
    own sum, which nobody else asks for.

    Where that is not so lowering makes rows of -inf alone NaN by ``top - top``, and that is what is looked for; an operator's
    own difference of that kind only costs the speed.
    """
    ops = list(kernel.body.walk())
    narrow = all(DTYPES[tile_type(op.lhs).dtype].bits == 16 for op in ops if isinstance(op, Dot))
    asked = any(isinstance(op, Binary) and op.fn == "sub" and op.lhs is op.rhs and len(tile_type(op).dims) == 1 for op in ops)
    return kernel.family == "attention" and narrow and not asked


def of_narrow_products(kernel: Kernel) -> bool:
    """Whether ``kernel`` only multiplies operands of 16 bits, and exponentials stand between its products.

    Those that it shifts are of sums of products, whose own rounding is as large as what an earlier scale costs, and are rounded
    to 16 bits before they are multiplied.
    """
    dots = [op for op in kernel.body.walk() if isinstance(op, Dot)]
    return kernel.family in ("attention", "chain") and all(DTYPES[tile_type(op.lhs).dtype].bits == 16 for op in dots)


def by_powers_of_two(kernel: Kernel, fused: bool = False, may: Callable[[Kernel], bool] = may_scale_first) -> Kernel:
    """``kernel`` with its exponentials of f32 as powers of two, where they ``may`` be.

    With ``fused``, each one's multiply-add is one operation.

    Compilers may not fuse on their own (docs/lowering.md, "What may be fused"), so what should be is written.
    """
    if not may(kernel):
        return kernel
    made = canonicalise(kernel, rules)
    made = canonicalise(made, fusing) if fused else made
    return canonicalise(with_invariants_hoisted(made)) if kernel.family == "chain" else made


def _scaled(op: Op) -> tuple[Op, float] | None:
    """``x, s`` of ``x * s`` with a positive finite constant."""
    if not isinstance(op, Binary) or op.fn != "mul" or tile_type(op).dtype != "f32":
        return None
    for x, s in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if isinstance(s, Const) and 0 < s.value < math.inf:
            return x, float(s.value)
    return None


def _times(x: Op, s: float) -> Op:
    return Binary("mul", x, _f32(s))


def _f32(value: float) -> Const:
    """``value`` as f32 has it."""
    return Const(struct.unpack("f", struct.pack("f", value))[0], "f32")


@rules.on(Select)
def masked_then_scaled(op: Select) -> Op | None:
    found = _scaled(op.yes)
    if found is None or not isinstance(op.no, Const) or op.no.value != -math.inf or tile_type(found[0]).dims == ():
        return None
    return _times(Select(op.condition, found[0], op.no), found[1])


@rules.on(Mask)
def ended_then_scaled(op: Mask) -> Op | None:
    found = _scaled(op.x)
    return _times(Mask(found[0], op.axis, op.value), found[1]) if found and op.value == -math.inf else None


@rules.on(Reduce)
def largest_then_scaled(op: Reduce) -> Op | None:
    found = _scaled(op.x)
    return _times(Reduce("max", found[0], op.axis), found[1]) if found and op.fn == "max" else None


@rules.on(Unary)
def power_of_two(op: Unary) -> Op | None:
    """Of whole tiles less a value for each row.  The rows' own factors are powers of a difference times ``log2 e``: exactly 1
    where nothing changes."""
    if op.fn != "exp" or not isinstance(op.x, Binary) or op.x.fn != "sub" or tile_type(op).dtype != "f32":
        return None
    if len(tile_type(op).dims) == 1:
        return Unary("exp2", _times(op.x, LOG2_E))
    x, row = op.x.lhs, op.x.rhs
    if not isinstance(row, Broadcast) or not tile_type(row.x).dims:
        return None
    if (scaled := _scaled(x)) is not None and _is_product(scaled[0]):
        value, scale = scaled
        return Unary("exp2", Binary("sub", _times(value, scale * LOG2_E), Broadcast(_times(row.x, LOG2_E), row.dims)))
    factor = _factor(row.x)
    shift = Broadcast(Binary("mul", row.x, factor), row.dims)
    return Unary("exp2", Binary("sub", Binary("mul", x, Broadcast(factor, row.dims)), shift))


def _is_product(op: Op) -> bool:
    """Whether ``op`` is a matrix product, masked by nothing but -inf."""
    while True:
        match op:
            case Mask(value=value, x=x) if value == -math.inf:
                op = x
            case Select(yes=yes, no=Const(value=value)) if value == -math.inf:
                op = yes
            case _:
                return isinstance(op, Dot)


def _factor(top: Op) -> Op:
    """What the exponents of a row with the maximum ``top`` are multiplied by."""
    dims = tile_type(top).dims

    def each(value: float) -> Op:
        return Broadcast(_f32(value), dims)

    return Select(Compare("lt", Unary("abs", top), each(STEEP)), each(LOG2_E), each(1.0))


@fusing.on(Unary)
def shifted_at_once(op: Unary) -> Op | None:
    """``exp2(x * s - r * t)`` with ``r * t`` of each row: the product with ``-t`` is rounded as that with ``t`` is."""
    if op.fn != "exp2" or not isinstance(op.x, Binary) or op.x.fn != "sub":
        return None
    x, row = op.x.lhs, op.x.rhs
    if not isinstance(row, Broadcast):
        return None
    if isinstance(x, Binary) and x.fn == "mul" and isinstance(x.rhs, Broadcast) and _by_rows(row.x, x.rhs.x):
        return Unary("exp2", Fma(x.lhs, x.rhs, Broadcast(Unary("neg", row.x), row.dims)))
    scaled, shift = _scaled(x), _scaled(row.x)
    if scaled is None or shift is None:
        return None
    value, scale = scaled
    return Unary("exp2", Fma(value, Const(scale, "f32"), Broadcast(_times(shift[0], -shift[1]), row.dims)))


def _by_rows(shift: Op, factor: Op) -> bool:
    """Whether ``shift`` is a product with the ``factor`` that each row has of its own."""
    return isinstance(shift, Binary) and shift.fn == "mul" and shift.rhs is factor and isinstance(factor, Select)
