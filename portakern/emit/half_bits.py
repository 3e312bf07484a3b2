"""The bits of 16-bit floats where a language computes with them as f32: the conversions of bit patterns, written out."""

from __future__ import annotations

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Binary, Bitcast, Cast, Compare, Const, Kernel, Select, tile_type

HALF_FLOATS = ("f16", "bf16")


def with_half_bits(kernel: Kernel) -> Kernel:
    """``kernel`` in which no 16-bit float is read as something else, nor something else as one."""
    return canonicalise(kernel, _RULES)


_RULES = Rules()


@_RULES.on(Bitcast)
def through_f32(op: Bitcast) -> Op | None:
    old = tile_type(op.x).dtype
    if old in HALF_FLOATS:
        bits = (_bits_of_f16 if old == "f16" else _bits_of_bf16)(Bitcast(Cast(op.x, "f32"), "i32"))
        return Bitcast(Cast(bits, "i16"), op.dtype)
    if op.dtype in HALF_FLOATS:
        bits = _both("and", Cast(op.x, "i32"), 0xFFFF)
        return Cast((_f16_of if op.dtype == "f16" else _bf16_of)(bits), op.dtype)
    if op.dtype == old:
        return op.x
    both_small = {old, op.dtype} in ({"i16", "u16"}, {"i8", "u8"})  # held in 32 bits, and wrapped to those they have
    return Cast(op.x, op.dtype) if both_small else None


def _both(fn: str, x: Op, value: int) -> Op:
    return Binary(fn, x, Const(value, "i32"))


def _bits_of_bf16(bits: Op) -> Op:
    return _both("shr", bits, 16)


def _bf16_of(bits: Op) -> Op:
    return Bitcast(_both("shl", bits, 16), "f32")


def _bits_of_f16(bits: Op) -> Op:
    """From those of the f32 of that value.  Adding 0.5 moves the fraction of a subnormal number to the last bits."""
    magnitude = _both("and", bits, 0x7FFFFFFF)
    moved = Binary("add", Bitcast(magnitude, "f32"), Const(0.5, "f32"))
    small = _both("sub", Bitcast(moved, "i32"), 0x3F000000)
    normal = _both("shr", _both("sub", magnitude, 0x38000000), 13)
    special = _both("or", _both("and", _both("shr", magnitude, 13), 0x3FF), 0x7C00)
    finite = Select(Compare("lt", magnitude, Const(0x38800000, "i32")), small, normal)
    found = Select(Compare("ge", magnitude, Const(0x7F800000, "i32")), special, finite)
    return Binary("or", found, _both("and", _both("shr", bits, 16), 0x8000))


def _f16_of(bits: Op) -> Op:
    """As f32: exponent and fraction in their place, and the bias corrected by a product, which is right for subnormals too."""
    magnitude = _both("shl", _both("and", bits, 0x7FFF), 13)
    finite = Binary("mul", Bitcast(magnitude, "f32"), Const(2.0**112, "f32"))
    special = Bitcast(_both("or", magnitude, 0x7F800000), "f32")
    value = Select(Compare("eq", _both("and", bits, 0x7C00), Const(0x7C00, "i32")), special, finite)
    negative = Compare("ne", _both("and", bits, 0x8000), Const(0, "i32"))
    return Select(negative, Binary("mul", value, Const(-1.0, "f32")), value)
