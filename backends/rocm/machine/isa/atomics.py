"""Atomic operations on memory and on LDS."""

from __future__ import annotations

from .form import Form, form

_UPDATES = {  # gfx11's and gfx12's name: (names of gfx9, dwords of the data)
    "add_u32": (("add",), 1), "sub_u32": (("sub",), 1), "min_i32": (("smin",), 1), "max_i32": (("smax",), 1),
    "min_u32": (("umin",), 1), "max_u32": (("umax",), 1), "and_b32": (("and",), 1), "or_b32": (("or",), 1),
    "xor_b32": (("xor",), 1), "swap_b32": (("swap",), 1), "inc_u32": (("inc",), 1), "dec_u32": (("dec",), 1),
    "add_u64": (("add_x2",), 2), "swap_b64": (("swap_x2",), 2), "add_f32": ((), 1), "add_f64": ((), 2), "pk_add_f16": ((), 1),
    "pk_add_bf16": ((), 1), "min_f64": ((), 2), "max_f64": ((), 2), "min_num_f32": (("min_f32",), 1),
    "max_num_f32": (("max_f32",), 1), "cmpswap_b32": (("cmpswap",), 2), "cmpswap_b64": (("cmpswap_x2",), 4),
}  # fmt: skip
_LOCAL = "add_u32 sub_u32 min_i32 max_i32 min_u32 max_u32 and_b32 or_b32 xor_b32 add_f32 pk_add_f16 pk_add_bf16"


def _space(space: str, unit: str, address: str, last: str) -> dict[str, Form]:
    """A destination stands first where the old value is asked for."""
    found: dict[str, Form] = {}
    for name, (older, dwords) in _UPDATES.items():
        result = dwords // 2 if name.startswith("cmpswap") else dwords
        words = f"v:{dwords} {address} {last}" if space == "buffer" else f"d:{result}? {address} v:{dwords} {last}"
        entry = form(words, unit, f"{space}_atomic_{name}", "offset offen cache" if space == "buffer" else "offset cache",
                     own_taint=True)  # fmt: skip
        for spelled in (name, *older):
            found[f"{space}_atomic_{spelled}"] = entry
    return found


def _local() -> dict[str, Form]:
    found: dict[str, Form] = {}
    for name in _LOCAL.split():
        found[f"ds_{name}"] = form("v v", "lds", f"ds_{name}", "offset", own_taint=True)
        verb, _, kind = name.rpartition("_")
        found[f"ds_{verb}_rtn_{kind}"] = form("d v v", "lds", f"ds_{name}", "offset", own_taint=True)
    return found


FORMS = {
    **_space("global", "vmem", "va:any", "sa:b64"),
    **_space("flat", "flat", "v:2", ""),
    **_space("buffer", "vmem", "va:1", "sc:4 sc"),
    **_local(),
}
