"""Atomic operations on memory and on LDS (native/atomics.hpp)."""

from __future__ import annotations

from .form import Form, form

_UPDATES = {  # gfx12's name: (names of gfx9 and others, dwords of the data)
    "add_u32": (("add",), 1), "sub_u32": (("sub",), 1), "min_i32": (("smin",), 1), "max_i32": (("smax",), 1),
    "min_u32": (("umin",), 1), "max_u32": (("umax",), 1), "and_b32": (("and",), 1), "or_b32": (("or",), 1),
    "xor_b32": (("xor",), 1), "swap_b32": (("swap",), 1), "inc_u32": (("inc",), 1), "dec_u32": (("dec",), 1),
    "sub_clamp_u32": (("csub_u32",), 1), "cond_sub_u32": ((), 1),
    "add_u64": (("add_x2",), 2), "sub_u64": (("sub_x2",), 2), "min_i64": (("smin_x2",), 2), "max_i64": (("smax_x2",), 2),
    "min_u64": (("umin_x2",), 2), "max_u64": (("umax_x2",), 2), "and_b64": (("and_x2",), 2), "or_b64": (("or_x2",), 2),
    "xor_b64": (("xor_x2",), 2), "swap_b64": (("swap_x2",), 2), "inc_u64": (("inc_x2",), 2), "dec_u64": (("dec_x2",), 2),
    "add_f32": ((), 1), "add_f64": ((), 2), "pk_add_f16": ((), 1), "pk_add_bf16": ((), 1), "min_f64": ((), 2),
    "max_f64": ((), 2), "min_num_f32": (("min_f32",), 1), "max_num_f32": (("max_f32",), 1), "cmpswap_b32": (("cmpswap",), 2),
    "cmpswap_b64": (("cmpswap_x2",), 4),
}  # fmt: skip
_LOCAL = """add_u32 sub_u32 rsub_u32 inc_u32 dec_u32 min_i32 max_i32 min_u32 max_u32 and_b32 or_b32 xor_b32 add_f32 pk_add_f16
    pk_add_bf16 min_num_f32 max_num_f32 add_u64 sub_u64 rsub_u64 inc_u64 dec_u64 min_i64 max_i64 min_u64 max_u64 and_b64 or_b64
    xor_b64 add_f64 min_f64 max_f64 sub_clamp_u32 cond_sub_u32"""
_OLDER = {"min_num_f32": "min_f32", "max_num_f32": "max_f32"}


def _space(space: str, unit: str, address: str, last: str) -> dict[str, Form]:
    """A destination stands first where the old value is asked for."""
    found: dict[str, Form] = {}
    for name, (older, dwords) in _UPDATES.items():
        result = dwords // 2 if name.startswith("cmpswap") else dwords
        entry = form(f"d:{result}? {address} v:{dwords} {last}", unit, f"{space}_atomic_{name}", "offset cache", own_taint=True)
        for spelled in (name, *older):
            found[f"{space}_atomic_{spelled}"] = entry
    return found


def _buffer() -> dict[str, Form]:
    """The data is where the old value goes, should a modifier ask for it."""
    found: dict[str, Form] = {}
    for name, (older, dwords) in _UPDATES.items():
        for data, ending in ((f"v:{dwords}", ""), (f"+d:{dwords}", " return")):
            words = f"{data} va:1 sc:4 sc"
            entry = form(words, "vmem", f"buffer_atomic_{name}", "offset offen idxen cache", own_taint=True)
            for spelled in (name, *older):
                found[f"buffer_atomic_{spelled}{ending}"] = entry
    return found


def _local_form(words: str, handler: str) -> Form:
    return form(words, "lds", handler, "offset", own_taint=True)


def _local() -> dict[str, Form]:
    found: dict[str, Form] = {}
    for name in _LOCAL.split():
        dwords = 2 if name.endswith("64") else 1
        for spelled in {name, _OLDER.get(name, name)}:
            verb, _, kind = spelled.rpartition("_")
            found[f"ds_{spelled}"] = _local_form(f"v v:{dwords}", f"ds_{name}")
            found[f"ds_{verb}_rtn_{kind}"] = _local_form(f"d:{dwords} v v:{dwords}", f"ds_{name}")
    for bits, dwords in ((32, 1), (64, 2)):
        for swap in ("wrxchg", "storexchg"):
            found[f"ds_{swap}_rtn_b{bits}"] = _local_form(f"d:{dwords} v v:{dwords}", f"ds_swap_b{bits}")
        for compare in ("cmpst", "cmpstore"):
            found[f"ds_{compare}_b{bits}"] = _local_form(f"v v:{dwords} v:{dwords}", "")
            found[f"ds_{compare}_rtn_b{bits}"] = _local_form(f"d:{dwords} v v:{dwords} v:{dwords}", f"ds_{compare}_b{bits}")
    return found


FORMS = {
    **_space("global", "vmem", "va:any", "sa:b64"),
    **_space("flat", "flat", "v:2", ""),
    **_buffer(),
    **_local(),
}
