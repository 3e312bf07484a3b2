"""Conversions (native/lanes/convert.cpp)."""

from __future__ import annotations

from .form import form
from .vector_integer import each

MODIFIERS = "clamp omod dpp sdwa op_sel"

FORMS = {
    **each("cvt_f32_i32 cvt_f32_u32 cvt_f32_ubyte0 cvt_f32_ubyte1 cvt_f32_ubyte2 cvt_f32_ubyte3", "d:f32 s", MODIFIERS),
    **each(
        "cvt_i32_f32 cvt_u32_f32 cvt_flr_i32_f32 cvt_rpi_i32_f32 cvt_floor_i32_f32 cvt_nearest_i32_f32", "d s:f32", MODIFIERS
    ),
    **each("cvt_i32_i16 cvt_u32_u16", "d s:b16", MODIFIERS),
    **each("cvt_f16_f32", "d:f16 s:f32", MODIFIERS),
    **each("cvt_f32_f16", "d:f32 s:f16", MODIFIERS),
    **each("cvt_f32_bf16", "d:f32 s:bf16", MODIFIERS),
    **each("cvt_f16_u16 cvt_f16_i16", "d:f16 s:b16", MODIFIERS),
    **each("cvt_u16_f16 cvt_i16_f16", "d:b16 s:f16", MODIFIERS),
    **each("cvt_pk_u16_u32 cvt_pk_i16_i32", "d s s", "dpp"),
    **each(
        """cvt_pk_i16_f32 cvt_pk_u16_f32 cvt_pk_norm_i16_f32 cvt_pk_norm_u16_f32 cvt_pknorm_i16_f32 cvt_pknorm_u16_f32
           cvt_pk_rtz_f16_f32 cvt_pkrtz_f16_f32 cvt_pk_bf16_f32 cvt_pk_f16_f32""",
        "d s:f32 s:f32",
        "dpp",
    ),
    "v_cvt_pk_u8_f32": form("d s:f32 s s"),
    **each("cvt_pk_fp8_f32 cvt_pk_bf8_f32", "d s:f32 s:f32", "op_sel"),
    # One byte of the destination is written, the others stay: op_sel, or byte_sel on gfx12.
    **each("cvt_sr_fp8_f32 cvt_sr_bf8_f32", "d s:f32 s", "op_sel byte_sel"),
    **each("cvt_f32_fp8 cvt_f32_bf8", "d:f32 s", "sdwa byte_sel clamp omod"),
    **each("cvt_pk_f32_fp8 cvt_pk_f32_bf8", "d:2 s:b16", "sdwa op_sel clamp omod"),
    **each("cvt_f64_f32", "d:f64 s:f32"),
    **each("cvt_f64_i32 cvt_f64_u32", "d:f64 s"),
    **each("cvt_scalef32_pk_f32_fp8 cvt_scalef32_pk_f32_bf8 cvt_scalef32_pk_f32_fp4", "d:2 s s", "op_sel"),
    **each(
        """cvt_scalef32_pk_f16_fp8 cvt_scalef32_pk_f16_bf8 cvt_scalef32_pk_f16_fp4 cvt_scalef32_pk_bf16_fp8
           cvt_scalef32_pk_bf16_bf8 cvt_scalef32_pk_bf16_fp4""",
        "d s s",
        "op_sel",
    ),
    **each("cvt_f32_f64", "d:f32 s:f64", "clamp omod"),
    **each("cvt_i32_f64 cvt_u32_f64", "d s:f64", "clamp"),
}
