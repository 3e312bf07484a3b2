"""Vector arithmetic on 16 bits, packed and mixed, and dot products (native/lanes/vector_half.cpp, vector_packed.cpp).

An instruction that writes half a register does not count the register as a source: what it holds afterwards counts as
defined.
"""

from __future__ import annotations

from .form import form
from .vector_integer import each

MODIFIERS = "clamp omod dpp sdwa op_sel"
PACKED = "op_sel op_sel_hi neg_lo neg_hi clamp"

FORMS = {
    **each("floor_f16 ceil_f16 trunc_f16 rndne_f16 fract_f16 frexp_mant_f16", "d:f16 s:f16", MODIFIERS),
    "v_frexp_exp_i16_f16": form("d:b16 s:f16", modifiers=MODIFIERS),
    **each(
        """add_f16 sub_f16 subrev_f16 mul_f16 max_f16 min_f16 max_num_f16 min_num_f16 maximum_f16 minimum_f16""",
        "d:f16 s:f16 s:f16",
        MODIFIERS,
    ),
    **each("ldexp_f16", "d:f16 s:f16 s:b16", MODIFIERS),
    **each(
        """fma_f16 fmaak_f16 fmamk_f16 max3_f16 min3_f16 med3_f16 max3_num_f16 min3_num_f16 med3_num_f16 maximum3_f16
           minimum3_f16 maxmin_f16 minmax_f16 maxmin_num_f16 minmax_num_f16 maximumminimum_f16 minimummaximum_f16""",
        "d:f16 s:f16 s:f16 s:f16",
        "clamp omod dpp op_sel",
    ),
    "v_fmac_f16": form("+d:f16 s:f16 s:f16", modifiers="clamp omod dpp op_sel"),
    **each("mov_b16 not_b16 sat_pk_u8_i16", "d:b16 s:b16", "dpp sdwa op_sel"),
    **each(
        """and_b16 or_b16 xor_b16 lshlrev_b16 lshrrev_b16 ashrrev_i16 mul_lo_u16 min_u16 max_u16 min_i16 max_i16 add_u16
           sub_u16 subrev_u16 add_i16 sub_i16 add_nc_u16 sub_nc_u16 add_nc_i16 sub_nc_i16""",
        "d:b16 s:b16 s:b16",
        "clamp dpp sdwa op_sel",
    ),
    **each(
        "mad_u16 mad_i16 mad_legacy_u16 mad_legacy_i16 min3_u16 max3_u16 med3_u16 min3_i16 max3_i16 med3_i16",
        "d:b16 s:b16 s:b16 s:b16",
        "clamp dpp op_sel",
    ),
    "v_bitop3_b16": form("d:b16 s:b16 s:b16 s:b16", modifiers="bitop3 op_sel"),
    "v_cndmask_b16": form("d:f16 s:f16 s:f16 m", modifiers="dpp op_sel", own_taint=True),
    "v_pack_b32_f16": form("d s:f16 s:f16", modifiers="op_sel"),
    **each(
        "pk_add_f16 pk_mul_f16 pk_max_f16 pk_min_f16 pk_max_num_f16 pk_min_num_f16 pk_maximum_f16 pk_minimum_f16",
        "d:pk16 s:pk16 s:pk16",
        PACKED,
    ),
    **each("pk_fma_f16 pk_maximum3_f16 pk_minimum3_f16", "d:pk16 s:pk16 s:pk16 s:pk16", PACKED),
    **each(
        """pk_add_u16 pk_sub_u16 pk_add_i16 pk_sub_i16 pk_mul_lo_u16 pk_lshlrev_b16 pk_lshrrev_b16 pk_ashrrev_i16 pk_max_u16
           pk_min_u16 pk_max_i16 pk_min_i16""",
        "d:pk16 s:pk16 s:pk16",
        PACKED,
    ),
    **each("pk_mad_u16 pk_mad_i16", "d:pk16 s:pk16 s:pk16 s:pk16", PACKED),
    **each("pk_add_f32 pk_mul_f32", "d:2 s:2 s:2", PACKED),
    "v_pk_fma_f32": form("d:2 s:2 s:2 s:2", modifiers=PACKED),
    "v_pk_mov_b32": form("d:2 s:2 s:2", modifiers="op_sel op_sel_hi"),
    **each("fma_mix_f32 fma_mixlo_f16 fma_mixhi_f16", "d:f32 s:f32 s:f32 s:f32", PACKED + " mix"),
    **each("dot2_f32_f16 dot2_f32_bf16", "d:f32 s:pk16 s:pk16 s:f32", PACKED),
    "v_dot2_f16_f16": form("d:f16 s:pk16 s:pk16 s:f16", modifiers=PACKED),
    "v_dot2_bf16_bf16": form("d:bf16 s:pk16 s:pk16 s:bf16", modifiers=PACKED),
    **each("dot4_f32_fp8_fp8 dot4_f32_fp8_bf8 dot4_f32_bf8_fp8 dot4_f32_bf8_bf8", "d:f32 s s s:f32", "neg_lo neg_hi clamp"),
    **each("dot2c_f32_f16 dot2acc_f32_f16 dot2c_f32_bf16", "+d:f32 s:pk16 s:pk16", "dpp clamp"),
    **each(
        "dot2_i32_i16 dot2_u32_u16 dot4_i32_i8 dot4_u32_u8 dot8_i32_i4 dot8_u32_u4 dot4_i32_iu8 dot8_i32_iu4",
        "d s s s",
        "clamp neg_lo neg_hi op_sel op_sel_hi",
    ),
    **each("dot4c_i32_i8 dot8c_i32_i4 dot2c_i32_i16", "+d s s", "dpp clamp"),
}
