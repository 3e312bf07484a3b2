"""The element types of arrays and tiles, by their short names.

``rounding`` is the unit roundoff u of the format (half the gap between 1 and the next number above it), the constant
of the standard model of floating-point arithmetic (Higham, Accuracy and Stability of Numerical Algorithms, 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class DType:
    """``bits`` of storage; ``kind`` is ``float``, ``int``, ``uint`` or ``bool``; floats carry range and roundoff."""

    name: str
    kind: str
    bits: int
    rounding: float = 0.0
    largest: float = 0.0
    smallest: float = 0.0  # the smallest positive subnormal
    infinite: bool = True  # for floats: what is too large becomes an infinity, elsewhere NaN

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def long_name(self) -> str:
        """As numpy, ml_dtypes and torch spell it."""
        if self.kind == "bool":
            return "bool"
        if self.is_int:
            return f"{self.kind}{self.bits}"
        narrow = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn"}
        return narrow.get(self.name) or (f"float8_{self.name[2:]}" if self.bits == 8 else f"float{self.bits}")

    @property
    def fnuz(self) -> bool:
        """Whether there is one zero, and one NaN in place of the other."""
        return self.name.endswith("fnuz")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name


_ALL = (
    DType("f64", "float", 64, 2.0**-53, 1.7976931348623157e308, 2.0**-1074),
    DType("f32", "float", 32, 2.0**-24, 3.4028234663852886e38, 2.0**-149),
    DType("f16", "float", 16, 2.0**-11, 65504.0, 2.0**-24),
    DType("bf16", "float", 16, 2.0**-8, 3.3895313892515355e38, 2.0**-133),
    DType("f8e4m3", "float", 8, 2.0**-4, 448.0, 2.0**-9, infinite=False),  # OCP 8-bit floating point specification 1.0
    DType("f8e5m2", "float", 8, 2.0**-3, 57344.0, 2.0**-16),
    # One zero and one NaN, no infinities, a bias that is one larger (Noune et al., 8-bit Numerical Formats, arXiv:2206.02915).
    DType("f8e4m3fnuz", "float", 8, 2.0**-4, 240.0, 2.0**-10, infinite=False),
    DType("f8e5m2fnuz", "float", 8, 2.0**-3, 57344.0, 2.0**-17, infinite=False),
    DType("i64", "int", 64),
    DType("i32", "int", 32),
    DType("i16", "int", 16),
    DType("i8", "int", 8),
    DType("u64", "uint", 64),
    DType("u32", "uint", 32),
    DType("u16", "uint", 16),
    DType("u8", "uint", 8),
    DType("i4", "int", 4),  # two to a byte in arrays: portakern/spec/nibbles.py
    DType("u4", "uint", 4),
    DType("bool", "bool", 8),
)

DTYPES: dict[str, DType] = {d.name: d for d in _ALL}


f64, f32, f16, bf16 = (DTYPES[n] for n in ("f64", "f32", "f16", "bf16"))
f8e4m3, f8e5m2 = DTYPES["f8e4m3"], DTYPES["f8e5m2"]
f8e4m3fnuz, f8e5m2fnuz = DTYPES["f8e4m3fnuz"], DTYPES["f8e5m2fnuz"]
i64, i32, i16, i8 = (DTYPES[n] for n in ("i64", "i32", "i16", "i8"))
u64, u32, u16, u8 = (DTYPES[n] for n in ("u64", "u32", "u16", "u8"))
i4, u4 = DTYPES["i4"], DTYPES["u4"]
boolean = DTYPES["bool"]


def dtype(name: str) -> DType:
    """The dtype called ``name``; raises ``KeyError`` for an unknown one."""
    return DTYPES[name]


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of a portakern one; bf16, the 8-bit floats and integers of four bits (one to a byte
    there) come from ml_dtypes."""
    import numpy as np

    name = DTYPES[dtype].long_name
    if not name.startswith(("bfloat", "float8")) and DTYPES[dtype].bits >= 8:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))
