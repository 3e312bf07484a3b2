"""Integer vector arithmetic, bit operations, moves and selects (native/lanes/vector_integer.cpp)."""

from __future__ import annotations

from .form import Form, form

MODIFIERS = "clamp dpp sdwa"

INDEXED = {1: "gpr_idx(SRC0)", 8: "gpr_idx(DST)", 9: "gpr_idx(SRC0,DST)"}
"""Which operands of v_mov_b32 are numbered at run time, by the bits of s_set_gpr_idx_on (CDNA3 ISA, "VGPR indexing")."""

_UNARY = "mov_b32 not_b32 bfrev_b32 ffbh_u32 ffbl_b32 ffbh_i32 clz_i32_u32 ctz_i32_b32 cls_i32 prng_b32"
_BINARY = """and_b32 or_b32 xor_b32 xnor_b32 lshlrev_b32 lshrrev_b32 ashrrev_i32 bfm_b32 bcnt_u32_b32 min_i32 max_i32 min_u32
    max_u32 mul_lo_u32 mul_hi_u32 mul_hi_i32 mul_u32_u24 mul_hi_u32_u24 mul_i32_i24 mul_hi_i32_i24 add_u32 sub_u32 subrev_u32
    add_i32 sub_i32 add_nc_u32 sub_nc_u32 subrev_nc_u32 add_nc_i32 sub_nc_i32 mbcnt_lo_u32_b32 mbcnt_hi_u32_b32"""
_TERNARY = """add3_u32 add_lshl_u32 lshl_add_u32 lshl_or_b32 and_or_b32 or3_b32 xor3_b32 xad_u32 bfi_b32 bfe_u32 bfe_i32
    perm_b32 min3_i32 max3_i32 med3_i32 min3_u32 max3_u32 med3_u32 minmax_i32 maxmin_i32 minmax_u32
    maxmin_u32 sad_u32 sad_u8 sad_u16 sad_hi_u8 msad_u8 lerp_u8 mad_u32_u24 mad_i32_i24"""


def each(names: str, words: str, modifiers: str = "", **options: object) -> dict[str, Form]:
    """One form for many mnemonics, without their ``v_``."""
    return {f"v_{name}": form(words, modifiers=modifiers, **options) for name in names.split()}  # type: ignore[arg-type]


FORMS = {
    "v_nop": form(),
    **each(_UNARY, "d s", MODIFIERS),
    **each(_BINARY, "d s s", MODIFIERS),
    **each(_TERNARY, "d s s s", "clamp dpp"),
    **{f"v_align{unit}_b32": form("d s s s:b16", modifiers="clamp dpp op_sel") for unit in ("bit", "byte")},
    "v_movrels_b32": form("d v", handler="v_movrel", own_taint=True, implicit="m0", extra=1),
    "v_movreld_b32": form("d s", handler="v_movrel", own_taint=True, implicit="m0", extra=8),
    **{f"v_mov_b32 {mode}": form("d s", handler="v_mov_indexed", own_taint=True, implicit="m0", extra=bits)
       for bits, mode in INDEXED.items()},
    **each("mad_u32_u16 mad_i32_i16", "d s:b16 s:b16 s", "clamp op_sel dpp"),
    "v_bitop3_b32": form("d s s s", modifiers="bitop3"),
    **each("accvgpr_read_b32 accvgpr_write_b32 accvgpr_mov_b32", "d s"),
    **each("add_co_u32 sub_co_u32 subrev_co_u32", "d dm s s", MODIFIERS),
    **each("addc_co_u32 subb_co_u32 subbrev_co_u32 add_co_ci_u32 sub_co_ci_u32 subrev_co_ci_u32", "d dm s s m", MODIFIERS),
    "v_cndmask_b32": form("d:f32 s:f32 s:f32 m", modifiers="dpp sdwa", own_taint=True),
    "v_mov_b64": form("d:b64 s:b64", modifiers="dpp"),
    **each("lshlrev_b64 lshrrev_b64 ashrrev_i64", "d:b64 s s:b64"),
    "v_lshl_add_u64": form("d:b64 s:b64 s s:b64"),
    **each("mad_u64_u32 mad_i64_i32 mad_co_u64_u32 mad_co_i64_i32", "d:b64 dm s s s:b64", "clamp"),
}
