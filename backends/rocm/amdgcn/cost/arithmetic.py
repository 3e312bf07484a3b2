"""What integer instructions compute, on whole arrays of lanes or on single numbers alike: values from 0 to 2**32 - 1 (or
2**64 - 1), in numpy's 64-bit integers or Python's.  Floats are left out: no address or loop count is computed in them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Value = Any  # an int, or an int64 array of one number per lane
Operation = Callable[..., Value]

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def signed(a: Value, bits: int = 32) -> Value:
    return a - ((a >> (bits - 1) & 1) << bits)


def _mul_hi(a: Value, b: Value) -> Value:
    low = (a & 0xFFFF) * (b & 0xFFFF)
    middle = (a >> 16) * (b & 0xFFFF) + (low >> 16)
    return (a >> 16) * (b >> 16) + (middle >> 16) + (((middle & 0xFFFF) + (a & 0xFFFF) * (b >> 16)) >> 16)


def _bfe(a: Value, offset: Value, width: Value) -> Value:
    return (a >> (offset & 31)) & ((1 << (width & 31)) - 1)


def _bfe_signed(a: Value, offset: Value, width: Value) -> Value:
    w = width & 31
    field = _bfe(a, offset, width)
    top = (field >> np.maximum(w - 1, 0)) & 1 if isinstance(field, np.ndarray) else (field >> max(w - 1, 0)) & 1
    return field - (top << w)


def _bitop3(a: Value, b: Value, c: Value, table: int) -> Value:
    found = a & 0
    for n in range(8):
        if table >> n & 1:
            x, y, z = (v if n >> k & 1 else ~v for v, k in ((a, 2), (b, 1), (c, 0)))
            found = found | (x & y & z)
    return found & M32


def _reversed(a: Value) -> Value:
    found = a & 0
    for n in range(32):
        found = found | (a >> n & 1) << 31 - n
    return found


def _least(a: Value, b: Value) -> Value:
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def _most(a: Value, b: Value) -> Value:
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def _float(a: Value) -> Value:
    return np.asarray(a, np.int64).astype(np.uint32).view(np.float32)


def _bits(a: Value) -> Value:
    return np.asarray(a, np.float32).view(np.uint32).astype(np.int64)


def _reciprocal(a: Value) -> Value:
    with np.errstate(divide="ignore"):
        return _bits(np.float32(1) / _float(a))


def _whole(a: Value) -> Value:
    with np.errstate(invalid="ignore"):
        return np.clip(np.nan_to_num(_float(a).astype(np.float64)), 0, M32).astype(np.int64)


def _signed_pair(of: Callable[[Value, Value], Value]) -> Operation:
    return lambda a, b: of(signed(a), signed(b))


VECTOR: dict[str, Operation] = {
    "v_mov_b32": lambda a: a,
    "v_bfrev_b32": _reversed,
    "v_accvgpr_read_b32": lambda a: a,
    "v_accvgpr_write_b32": lambda a: a,
    "v_accvgpr_mov_b32": lambda a: a,
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: signed(b) >> (a & 31),
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_not_b32": lambda a: ~a,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_and_or_b32": lambda a, b, c: (a & b) | c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & 31),
    "v_lshl_or_b32": lambda a, b, c: (a << (b & 31)) | c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": _mul_hi,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mul_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24),
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_min_u32": _least,
    "v_max_u32": _most,
    "v_mad_i32_i24": lambda a, b, c: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24) + c,
    "v_min_i32": _signed_pair(_least),
    "v_max_i32": _signed_pair(_most),
    "v_bfe_u32": _bfe,
    "v_bfe_i32": _bfe_signed,
    "v_bfi_b32": lambda a, b, c: (a & b) | (~a & c),
    "v_bitop3_b32": _bitop3,
    "v_alignbit_b32": lambda a, b, c: ((a << 32) | b) >> (c & 31),
    "v_cvt_u32_u16": lambda a: a & 0xFFFF,
    # Division of integers goes by way of a float reciprocal, and is then corrected.
    "v_cvt_f32_u32": lambda a: _bits(np.asarray(a).astype(np.float32)),
    "v_rcp_iflag_f32": _reciprocal,
    "v_rcp_f32": _reciprocal,
    "v_mul_f32": lambda a, b: _bits(_float(a) * _float(b)),
    "v_cvt_u32_f32": _whole,
}
"""32 bits; results are cut to them."""

VECTOR64: dict[str, tuple[str, Operation]] = {
    "v_lshl_add_u64": ("dsd", lambda a, b, c: (a << (b & 7)) + c),
    "v_lshlrev_b64": ("sd", lambda a, b: b << (a & 63)),
    "v_lshrrev_b64": ("sd", lambda a, b: b >> (a & 63)),
    "v_mov_b64": ("d", lambda a: a),
    "v_mad_u64_u32": ("ssd", lambda a, b, c: a * b + c),
    "v_ashrrev_i64": ("sd", lambda a, b: signed(b, 64) >> (a & 63)),
    "v_pk_mov_b32": ("dd", lambda a, b: (a & M32) | (b >> 32 << 32)),
}
"""64-bit results; the letters say which sources are single and which are double."""

SCALAR: dict[str, Operation] = {
    "s_mov_b32": lambda a: a,
    "s_movk_i32": lambda a: signed(a & 0xFFFF, 16),
    "s_add_u32": lambda a, b: a + b,
    "s_add_i32": lambda a, b: a + b,
    "s_sub_u32": lambda a, b: a - b,
    "s_sub_i32": lambda a, b: a - b,
    "s_mul_i32": lambda a, b: a * b,
    "s_mul_hi_u32": lambda a, b: a * b >> 32,
    "s_mul_hi_i32": lambda a, b: signed(a) * signed(b) >> 32,
    "s_lshl_b32": lambda a, b: a << (b & 31),
    "s_lshr_b32": lambda a, b: a >> (b & 31),
    "s_ashr_i32": lambda a, b: signed(a) >> (b & 31),
    "s_and_b32": lambda a, b: a & b,
    "s_or_b32": lambda a, b: a | b,
    "s_xor_b32": lambda a, b: a ^ b,
    "s_andn2_b32": lambda a, b: a & ~b,
    "s_orn2_b32": lambda a, b: a | ~b,
    "s_nor_b32": lambda a, b: ~(a | b),
    "s_nand_b32": lambda a, b: ~(a & b),
    "s_not_b32": lambda a: ~a,
    "s_min_u32": min,
    "s_max_u32": max,
    "s_min_i32": _signed_pair(min),
    "s_max_i32": _signed_pair(max),
    "s_abs_i32": lambda a: abs(signed(a)),
    "s_bfe_u32": lambda a, b: _bfe(a, b, b >> 16 & 31 | (b >> 16 & 0x20)),
    "s_bfe_i32": lambda a, b: _bfe_signed(a, b, b >> 16),
    "s_lshl1_add_u32": lambda a, b: (a << 1) + b,
    "s_lshl2_add_u32": lambda a, b: (a << 2) + b,
    "s_lshl3_add_u32": lambda a, b: (a << 3) + b,
    "s_lshl4_add_u32": lambda a, b: (a << 4) + b,
    "s_sext_i32_i16": lambda a: signed(a & 0xFFFF, 16),
    "s_sext_i32_i8": lambda a: signed(a & 0xFF, 8),
    "s_brev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
}

SCALAR64: dict[str, Operation] = {
    "s_mov_b64": lambda a: a,
    "s_lshl_b64": lambda a, b: a << (b & 63),
    "s_lshr_b64": lambda a, b: a >> (b & 63),
    "s_ashr_i64": lambda a, b: signed(a, 64) >> (b & 63),
    "s_and_b64": lambda a, b: a & b,
    "s_or_b64": lambda a, b: a | b,
    "s_xor_b64": lambda a, b: a ^ b,
    "s_andn2_b64": lambda a, b: a & ~b,
    "s_orn2_b64": lambda a, b: a | ~b,
    "s_nor_b64": lambda a, b: ~(a | b),
    "s_not_b64": lambda a: ~a,
    "s_add_nc_u64": lambda a, b: a + b,
    "s_sub_nc_u64": lambda a, b: a - b,
    "s_mul_u64": lambda a, b: a * b,
}

COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}

SETS_SCC = frozenset(
    [
        "s_add_u32",
        "s_add_i32",
        "s_sub_u32",
        "s_sub_i32",
        "s_addc_u32",
        "s_subb_u32",
        "s_lshl_b32",
        "s_lshr_b32",
        "s_ashr_i32",
        "s_and_b32",
        "s_or_b32",
        "s_xor_b32",
        "s_andn2_b32",
        "s_orn2_b32",
        "s_nor_b32",
        "s_nand_b32",
        "s_not_b32",
        "s_min_u32",
        "s_max_u32",
        "s_min_i32",
        "s_max_i32",
        "s_abs_i32",
        "s_bfe_u32",
        "s_bfe_i32",
        "s_lshl1_add_u32",
        "s_lshl2_add_u32",
        "s_lshl3_add_u32",
        "s_lshl4_add_u32",
        "s_lshl_b64",
        "s_lshr_b64",
        "s_ashr_i64",
        "s_and_b64",
        "s_or_b64",
        "s_xor_b64",
        "s_andn2_b64",
        "s_orn2_b64",
        "s_nor_b64",
        "s_not_b64",
        "s_addk_i32",
    ]
)
"""Beside compares.  Additions set it to the carry or overflow, the others to whether the result is not zero."""
