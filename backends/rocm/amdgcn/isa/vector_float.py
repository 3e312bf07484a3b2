"""Vector arithmetic on f32, f64 and transcendental functions (native/lanes/vector_float.cpp, vector_double.cpp,
transcendental.cpp, division.cpp)."""

from __future__ import annotations

from .form import form
from .vector_integer import each

MODIFIERS = "clamp omod dpp sdwa"

_UNARY = "floor ceil trunc rndne fract frexp_mant"
_BINARY = "add sub subrev mul mul_legacy mul_dx9_zero max min max_num min_num maximum minimum"
_TERNARY = """fma fma_dx9_zero fmaak fmamk max3 min3 med3 maxmin minmax max3_num min3_num med3_num maxmin_num minmax_num
    maximum3 minimum3 maximumminimum minimummaximum"""
_TRANSCENDENTAL = "exp log rcp rsq sqrt sin cos"


def _typed(names: str, kind: str) -> str:
    return " ".join(f"{name}_{kind}" for name in names.split())


FORMS = {
    **each(_typed(_UNARY, "f32"), "d:f32 s:f32", MODIFIERS),
    **each(_typed(_BINARY, "f32"), "d:f32 s:f32 s:f32", MODIFIERS),
    **each(_typed(_TERNARY, "f32"), "d:f32 s:f32 s:f32 s:f32", "clamp omod dpp"),
    **each("mad_f32 madak_f32 madmk_f32", "d:f32 s:f32 s:f32 s:f32", "clamp omod"),
    "v_mac_f32": form("+d:f32 s:f32 s:f32", modifiers="clamp omod dpp sdwa"),
    **each("fmac_f32 fmac_dx9_zero_f32", "+d:f32 s:f32 s:f32", "clamp omod dpp"),
    **each("ldexp_f32", "d:f32 s:f32 s", "clamp omod dpp"),
    "v_frexp_exp_i32_f32": form("d s:f32", modifiers="dpp sdwa"),
    **each(_typed(_TRANSCENDENTAL, "f32"), "d:f32 s:f32", MODIFIERS, unit="trans"),
    **each(_typed(_TRANSCENDENTAL, "f16"), "d:f16 s:f16", MODIFIERS + " op_sel", unit="trans"),
    **each("rcp_iflag_f32", "d:f32 s:f32", MODIFIERS, unit="trans"),
    **each(_typed("rcp rsq sqrt", "f64"), "d:f64 s:f64", "clamp omod", unit="trans"),
    **each(_typed("s_exp s_log s_rcp s_rsq s_sqrt", "f32"), "sd:f32 sc:f32", "clamp omod", unit="trans"),
    **each(_typed("s_exp s_log s_rcp s_rsq s_sqrt", "f16"), "sd:f16 sc:f16", "clamp omod", unit="trans"),
    "v_div_scale_f32": form("d:f32 dm s:f32 s:f32 s:f32", modifiers="clamp omod"),
    "v_div_scale_f64": form("d:f64 dm s:f64 s:f64 s:f64", modifiers="clamp omod"),
    "v_div_fmas_f32": form("d:f32 s:f32 s:f32 s:f32", modifiers="clamp omod", implicit="vcc"),
    "v_div_fmas_f64": form("d:f64 s:f64 s:f64 s:f64", modifiers="clamp omod", implicit="vcc"),
    "v_div_fixup_f32": form("d:f32 s:f32 s:f32 s:f32", modifiers="clamp omod"),
    "v_div_fixup_f64": form("d:f64 s:f64 s:f64 s:f64", modifiers="clamp omod"),
    "v_div_fixup_f16": form("d:f16 s:f16 s:f16 s:f16", modifiers="clamp op_sel"),
    **each(_typed("floor ceil trunc rndne fract frexp_mant", "f64"), "d:f64 s:f64", "clamp omod"),
    **each(_typed("add mul max min max_num min_num maximum minimum", "f64"), "d:f64 s:f64 s:f64", "clamp omod"),
    "v_fma_f64": form("d:f64 s:f64 s:f64 s:f64", modifiers="clamp omod"),
    "v_fmac_f64": form("+d:f64 s:f64 s:f64", modifiers="clamp omod"),
    "v_ldexp_f64": form("d:f64 s:f64 s", modifiers="clamp omod"),
    "v_frexp_exp_i32_f64": form("d s:f64"),
}
