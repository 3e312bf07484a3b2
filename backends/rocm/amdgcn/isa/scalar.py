"""Scalar arithmetic: SOP1, SOP2, SOPK and SOPC."""

from __future__ import annotations

from .form import Form, form


def _scalar(words: str, handler: str = "", *, writes_exec: bool = False) -> Form:
    return form(words, "salu", handler, own_taint=True, writes_exec=writes_exec)


def _names(words: str, names: str) -> dict[str, Form]:
    return {f"s_{name}": _scalar(words) for name in names.split()}


_LOGIC = "and or xor andn2 orn2 nand nor xnor"
_SAVEEXEC = "and or xor andn1 andn2 orn1 orn2 nand nor xnor"
_NEWER = {"and_not1": "andn2", "or_not1": "orn2", "and_not0": "andn1", "or_not0": "orn1"}
"""RDNA 3 and later call them so (RDNA3 ISA)."""
_FLOATS = ("f32", "f16")
"""What the scalar unit of RDNA 4 computes with (RDNA4 ISA, SOP1, SOP2 and SOPC)."""

FORMS = {
    **{f"s_{n}_b32": _scalar("sd sc sc") for n in _LOGIC.split()},
    **{f"s_{n}_b64": _scalar("sd:b64 sc:b64 sc:b64") for n in _LOGIC.split()},
    **{f"s_{new}_b32": _scalar("sd sc sc", f"s_{old}_b32") for new, old in _NEWER.items() if new.endswith("1")},
    **{f"s_{new}_b64": _scalar("sd:b64 sc:b64 sc:b64", f"s_{old}_b64") for new, old in _NEWER.items() if new.endswith("1")},
    **{f"s_{n}_saveexec_b32": _scalar("sd sc", writes_exec=True) for n in _SAVEEXEC.split()},
    **{f"s_{n}_saveexec_b64": _scalar("sd:b64 sc:b64", writes_exec=True) for n in _SAVEEXEC.split()},
    **{f"s_{new}_saveexec_b32": _scalar("sd sc", f"s_{old}_saveexec_b32", writes_exec=True) for new, old in _NEWER.items()},
    **{
        f"s_{new}_saveexec_b64": _scalar("sd:b64 sc:b64", f"s_{old}_saveexec_b64", writes_exec=True)
        for new, old in _NEWER.items()
    },
    **_names("sd sc", "mov_b32 not_b32 brev_b32 bcnt0_i32_b32 bcnt1_i32_b32 ff1_i32_b32 flbit_i32_b32 sext_i32_i8 sext_i32_i16 "
             "abs_i32 cvt_f32_u32 cvt_f32_i32"),
    **{f"s_{n}": _scalar("sd:f32 sc:f32") for n in ["cvt_u32_f32", "cvt_i32_f32"]},
    **{f"s_{n}_{t}": _scalar(f"sd:{t} sc:{t}") for n in ["rndne", "trunc", "floor", "ceil"] for t in _FLOATS},
    **{f"s_cvt_{n}f32_f16": _scalar("sd:f32 sc:f16") for n in ("", "hi_")},
    "s_cvt_f16_f32": _scalar("sd:f16 sc:f32"),
    "s_cvt_pk_rtz_f16_f32": _scalar("sd sc:f32 sc:f32"),
    **_names("sd:b64 sc:b64", "mov_b64 not_b64 brev_b64"),
    "s_flbit_i32": _scalar("sd sc"),
    "s_flbit_i32_i64": _scalar("sd sc:b64"),
    "s_cls_i32": _scalar("sd sc", "s_flbit_i32"),
    "s_cls_i32_i64": _scalar("sd sc:b64", "s_flbit_i32_i64"),
    **_names("sd sc:b64", "bcnt0_i32_b64 bcnt1_i32_b64 ff1_i32_b64 flbit_i32_b64"),
    "s_ctz_i32_b32": _scalar("sd sc", "s_ff1_i32_b32"),
    "s_ctz_i32_b64": _scalar("sd sc:b64", "s_ff1_i32_b64"),
    "s_clz_i32_u32": _scalar("sd sc", "s_flbit_i32_b32"),
    "s_clz_i32_u64": _scalar("sd sc:b64", "s_flbit_i32_b64"),
    "s_cmov_b32": _scalar("+sd sc"),
    "s_cmov_b64": _scalar("+sd:b64 sc:b64"),
    "s_bitset0_b32": _scalar("+sd sc"),
    "s_bitset1_b32": _scalar("+sd sc"),
    **_names("sd sc sc",
             "add_u32 sub_u32 add_i32 sub_i32 addc_u32 subb_u32 min_i32 max_i32 min_u32 max_u32 cselect_b32 bfm_b32 "
             "mul_i32 mul_hi_u32 mul_hi_i32 bfe_u32 bfe_i32 absdiff_i32 lshl1_add_u32 lshl2_add_u32 lshl3_add_u32 "
             "lshl4_add_u32 pack_ll_b32_b16 pack_lh_b32_b16 pack_hl_b32_b16 pack_hh_b32_b16 lshl_b32 lshr_b32 ashr_i32"),
    **_names("sd:b64 sc:b64 sc:b64", "cselect_b64 add_nc_u64 sub_nc_u64 mul_u64"),
    **_names("sd:b64 sc:b64 sc", "lshl_b64 lshr_b64 ashr_i64 bfe_u64 bfe_i64"),
    "s_bfm_b64": _scalar("sd:b64 sc sc"),
    "s_add_co_u32": _scalar("sd sc sc", "s_add_u32"),
    "s_sub_co_u32": _scalar("sd sc sc", "s_sub_u32"),
    "s_add_co_i32": _scalar("sd sc sc", "s_add_i32"),
    "s_sub_co_i32": _scalar("sd sc sc", "s_sub_i32"),
    "s_add_co_ci_u32": _scalar("sd sc sc", "s_addc_u32"),
    "s_sub_co_ci_u32": _scalar("sd sc sc", "s_subb_u32"),
    "s_movk_i32": _scalar("sd sc:k16", "s_mov_b32"),
    "s_cmovk_i32": _scalar("+sd sc:k16", "s_cmov_b32"),
    "s_addk_i32": _scalar("+sd sc:k16", "s_add_i32"),
    "s_addk_co_i32": _scalar("+sd sc:k16", "s_add_i32"),
    "s_mulk_i32": _scalar("+sd sc:k16", "s_mul_i32"),
    **{f"s_cmp_{c}_{t}": _scalar("sc sc") for c in ("eq", "lg", "gt", "ge", "lt", "le") for t in ("i32", "u32")},
    **{f"s_cmpk_{c}_{t}": _scalar("sc sc:k16" if t == "i32" else "sc sc", f"s_cmp_{c}_{t}")
       for c in ("eq", "lg", "gt", "ge", "lt", "le") for t in ("i32", "u32")},
    **{f"s_cmp_{c}_u64": _scalar("sc:b64 sc:b64") for c in ("eq", "lg")},
    **{
        f"s_cmp_{c}_{t}": _scalar(f"sc:{t} sc:{t}")
        for c in ["lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"]
        for t in _FLOATS
    },
    **_names("sc sc", "bitcmp0_b32 bitcmp1_b32"),
    **_names("sc:b64 sc", "bitcmp0_b64 bitcmp1_b64"),
    **{
        f"s_{n}_{t}": _scalar(f"sd:{t} sc:{t} sc:{t}")
        for n in ["add", "sub", "mul", "minimum", "maximum", "min_num", "max_num"]
        for t in _FLOATS
    },
    **{f"s_fmac_{t}": _scalar(f"+sd:{t} sc:{t} sc:{t}") for t in _FLOATS},
    "s_fmaak_f32": _scalar("sd:f32 sc:f32 sc:f32 sc:f32"),
}  # fmt: skip
