"""Memory: scalar, global, flat, scratch and buffer accesses, and LDS."""

from __future__ import annotations

from .form import Form, form

_CACHED = "offset cache"

_LOADS = {  # gfx12's name: (older names, dwords)
    "load_u8": ("load_ubyte", 1), "load_i8": ("load_sbyte", 1), "load_u16": ("load_ushort", 1), "load_i16": ("load_sshort", 1),
    "load_b32": ("load_dword", 1), "load_b64": ("load_dwordx2", 2), "load_b96": ("load_dwordx3", 3),
    "load_b128": ("load_dwordx4", 4),
}  # fmt: skip
_HALVES = {
    "load_d16_u8": "load_ubyte_d16", "load_d16_i8": "load_sbyte_d16", "load_d16_b16": "load_short_d16",
    "load_d16_hi_u8": "load_ubyte_d16_hi", "load_d16_hi_i8": "load_sbyte_d16_hi", "load_d16_hi_b16": "load_short_d16_hi",
}  # fmt: skip
_STORES = {
    "store_b8": ("store_byte", 1), "store_b16": ("store_short", 1), "store_b32": ("store_dword", 1),
    "store_b64": ("store_dwordx2", 2), "store_b96": ("store_dwordx3", 3), "store_b128": ("store_dwordx4", 4),
    "store_d16_hi_b8": ("store_byte_d16_hi", 1), "store_d16_hi_b16": ("store_short_d16_hi", 1),
}  # fmt: skip


def _memory(words: str, handler: str, unit: str, modifiers: str = _CACHED) -> Form:
    return form(words, unit, handler, modifiers, own_taint=True)


def _space(space: str, unit: str, address: str, last: str, modifiers: str = _CACHED) -> dict[str, Form]:
    """All accesses of one address space; ``address`` and ``last`` are the words of the address operands."""
    found: dict[str, Form] = {}
    for name, (older, dwords) in _LOADS.items():
        found[name] = found[older] = _memory(f"d:{dwords} {address} {last}", f"{space}_{name}", unit, modifiers)
    for name, older in _HALVES.items():
        # Half of the register keeps its value, so it is read as well.
        found[name] = found[older] = _memory(f"d:1 {address} {last}", f"{space}_{name}", unit, modifiers)
    for name, (older, dwords) in _STORES.items():
        words = f"v:{dwords} {address} {last}" if space == "buffer" else f"{address} v:{dwords} {last}"
        found[name] = found[older] = _memory(words, f"{space}_{name}", unit, modifiers)
    return {f"{space}_{name}": entry for name, entry in found.items()}


def _copies(prefix: str, words: str, modifiers: str) -> dict[str, Form]:
    """To LDS without a register; M0 says where."""
    sizes = {"dword": "b32", "dwordx3": "b96", "dwordx4": "b128"}
    if prefix == "buffer":
        return {
            f"buffer_load_{old} lds": form(words, "vmem", f"buffer_load_lds_{new}", modifiers, own_taint=True, implicit="m0")
            for old, new in sizes.items()
        }
    return {
        f"{prefix}_load_lds_{old}": form(words, "vmem", f"{prefix}_load_lds_{new}", modifiers, own_taint=True, implicit="m0")
        for old, new in sizes.items()
    }


_SCALAR = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16, "b32": 1, "b64": 2, "b96": 3, "b128": 4,
           "b256": 8, "b512": 16}  # fmt: skip

_NARROW = {"u8": 1, "i8": 1 | 0x10, "u16": 2, "i16": 2 | 0x10}
"""Scalar loads of less than a dword (GFX12): their bytes, and 0x10 where the sign is extended."""

_LOCAL_LOADS = {
    "ds_load_u8": ("ds_read_u8", 1), "ds_load_i8": ("ds_read_i8", 1), "ds_load_u16": ("ds_read_u16", 1),
    "ds_load_i16": ("ds_read_i16", 1), "ds_load_b32": ("ds_read_b32", 1), "ds_load_b64": ("ds_read_b64", 2),
    "ds_load_b96": ("ds_read_b96", 3), "ds_load_b128": ("ds_read_b128", 4), "ds_load_u8_d16": ("ds_read_u8_d16", 1),
    "ds_load_u8_d16_hi": ("ds_read_u8_d16_hi", 1), "ds_load_i8_d16": ("ds_read_i8_d16", 1),
    "ds_load_i8_d16_hi": ("ds_read_i8_d16_hi", 1), "ds_load_u16_d16": ("ds_read_u16_d16", 1),
    "ds_load_u16_d16_hi": ("ds_read_u16_d16_hi", 1),
}  # fmt: skip
_LOCAL_STORES = {
    "ds_store_b8": ("ds_write_b8", 1), "ds_store_b16": ("ds_write_b16", 1), "ds_store_b32": ("ds_write_b32", 1),
    "ds_store_b64": ("ds_write_b64", 2), "ds_store_b96": ("ds_write_b96", 3), "ds_store_b128": ("ds_write_b128", 4),
    "ds_store_b8_d16_hi": ("ds_write_b8_d16_hi", 1), "ds_store_b16_d16_hi": ("ds_write_b16_d16_hi", 1),
}  # fmt: skip


def _local() -> dict[str, Form]:
    found: dict[str, Form] = {}
    for name, (older, dwords) in _LOCAL_LOADS.items():
        found[name] = found[older] = _memory(f"d:{dwords} v", name, "lds", "offset")
    for name, (older, dwords) in _LOCAL_STORES.items():
        found[name] = found[older] = _memory(f"v v:{dwords}", name, "lds", "offset")
    for bits, dwords in ((32, 1), (64, 2)):
        for stride, suffix, old_suffix in ((1, "", ""), (64, "_stride64", "st64")):
            unit = dwords * 4 * stride
            two = "offset0 offset1"
            load = form(f"d:{2 * dwords} v", "lds", f"ds_load_2addr_b{bits}", two, own_taint=True, offset_unit=unit)
            store = form(f"v v:{dwords} v:{dwords}", "lds", f"ds_store_2addr_b{bits}", two, own_taint=True, offset_unit=unit)
            found[f"ds_load_2addr{suffix}_b{bits}"] = found[f"ds_read2{old_suffix}_b{bits}"] = load
            found[f"ds_store_2addr{suffix}_b{bits}"] = found[f"ds_write2{old_suffix}_b{bits}"] = store
    return found


FORMS = {
    **{f"s_load_{n}": form(f"sd:{d} sc:b64 sc", "smem", "s_load", _CACHED, own_taint=True) for n, d in _SCALAR.items()},
    **{f"s_buffer_load_{n}": form(f"sd:{d} sc:4 sc", "smem", "s_buffer_load", _CACHED, own_taint=True)
       for n, d in _SCALAR.items()},
    **{f"s_{n}": form("sd:b64", "smem", "s_clock", own_taint=True) for n in ("memtime", "memrealtime")},
    **{f"s_load_{n}": form("sd:1 sc:b64 sc", "smem", "s_load", _CACHED, own_taint=True, extra=x) for n, x in _NARROW.items()},
    **{f"s_buffer_load_{n}": form("sd:1 sc:4 sc", "smem", "s_buffer_load", _CACHED, own_taint=True, extra=x)
       for n, x in _NARROW.items()},
    **_space("global", "vmem", "va:any", "sa:b64"),
    **_space("flat", "flat", "v:2", ""),
    **_space("scratch", "vmem", "va:1", "sa:b32"),
    **_space("buffer", "vmem", "va:1", "sc:4 sc", "offset offen cache"),
    **_copies("global", "va:any sa:b64", _CACHED),
    **_copies("buffer", "va:1 sc:4 sc", "offset offen cache lds"),
    **_local(),
    "ds_read_b64_tr_b16": form("d:2 v", "lds", "", "offset", own_taint=True),
    "ds_read_b64_tr_b8": form("d:2 v", "lds", "", "offset", own_taint=True),
    "ds_bpermute_b32": form("d v v", "lds", "", "offset", own_taint=True),
    "ds_permute_b32": form("d v v", "lds", "", "offset", own_taint=True),
    "ds_swizzle_b32": form("d v", "lds", "", "offset", own_taint=True),
}
