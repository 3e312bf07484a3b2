"""How dtypes are spelled in OpenCL C.

In registers f16 and bf16 values are held as float, small integers as int, and bool as int: 0 or 1 for one value, 0 or -1
in each lane of a vector (what comparisons of vectors give and ``select`` takes).
"""

from __future__ import annotations

import math
import re

from portakern.emit.clike.names import KEYWORDS
from portakern.ir.functions import BINARY, UNARY

MEMORY = {
    "f64": "double", "f32": "float", "f16": "half", "bf16": "ushort", "i64": "long", "i32": "int", "i16": "short",
    "i8": "char", "u64": "ulong", "u32": "uint", "u16": "ushort", "u8": "uchar", "bool": "uchar",
}  # fmt: skip
"""The element type of a buffer.  bf16 has no type in OpenCL C: its bits are the upper half of a float's."""

REGISTER = {
    "f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32", "i64": "i64", "i32": "i32", "i16": "i32", "i8": "i32",
    "u64": "u64", "u32": "u32", "u16": "i32", "u8": "i32", "bool": "i32",
}  # fmt: skip
"""The dtype a value is held in."""

C_TYPE = {"f64": "double", "f32": "float", "i64": "long", "i32": "int", "u64": "ulong", "u32": "uint"}
SUPPORTED = frozenset(MEMORY)

_WORDS = """
auto break case char const continue default do double else enum extern float for goto half if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while kernel global local
constant private generic uniform pipe bool uchar ushort uint ulong size_t complex imaginary true false infinity nan quad
select clamp rint fabs step mix any
all dot cross length distance normalize fma mad barrier index sum_of event_t sampler_t image1d_t image2d_t
main pk std sycl ptrdiff_t NULL NAN INFINITY INT_MIN INT_MAX LONG_MIN LONG_MAX FLT_MAX DBL_MAX
"""
_FAMILIES = re.compile(r"__.*|u?int\d+_t|(u?(char|short|int|long)|float|double|half)\d+|(get|convert|as)_.*|v(load|store)_?.*")
_RESERVED = KEYWORDS | UNARY.keys() | BINARY.keys() | frozenset(_WORDS.split())


def reserved(name: str) -> bool:
    """Whether ``name`` is a keyword of OpenCL C or C++, or a function or type that a value might be called after."""
    return name in _RESERVED or _FAMILIES.fullmatch(name) is not None


def own(name: str) -> str:
    """What an open dim of this name is called in the text."""
    return f"{name}_" if reserved(name) else name


def held(dtype: str, lanes: int = 1) -> str:
    """The C type of a value: ``float``, ``float16``, ..."""
    return C_TYPE[REGISTER[dtype]] + (str(lanes) if lanes > 1 else "")


def constant(value: float | int | bool, dtype: str) -> str:
    kind = REGISTER[dtype]
    if dtype == "bool":
        return "1" if value else "0"
    if kind in ("f32", "f64"):
        number = float(value)
        if math.isnan(number):
            return "NAN"
        if math.isinf(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        if kind == "f32" and 0 < abs(number) < 1e-37:
            return number.hex() + "f"
        return repr(number) + ("f" if kind == "f32" else "")
    if kind == "i32" and value == -(2**31):
        return "INT_MIN"
    if kind == "i64" and value == -(2**63):
        return "LONG_MIN"
    return str(int(value)) + {"i64": "L", "u32": "u", "u64": "ul"}.get(kind, "")


IDENTITY: dict[str, dict[str, float | int | bool]] = {
    "sum": dict.fromkeys(("f32", "f64", "i32", "i64", "u32", "u64"), 0),
    "prod": dict.fromkeys(("f32", "f64", "i32", "i64", "u32", "u64"), 1),
    "max": {"f32": -math.inf, "f64": -math.inf, "i32": -(2**31), "i64": -(2**63), "u32": 0, "u64": 0},
    "min": {"f32": math.inf, "f64": math.inf, "i32": 2**31 - 1, "i64": 2**63 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1},
}
"""What a reduction of nothing gives."""
