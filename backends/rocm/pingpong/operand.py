"""An operand of a product on its way from memory to LDS."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.emit.clike.terms import PlanTerm


@dataclass(frozen=True)
class StagedOperand:
    """An operand of the product on its way from memory to LDS.

    ``side`` is rows (the left operand) or cols.  ``origin`` is its first element for this tile at depth 0, ``stride`` how far
    apart its rows in memory are, ``left`` how much of its free dim exists from there on.  ``parts`` is how many
    waves share one half of it, ``line`` how many bytes neighbouring chunks of a line of LDS have, ``copies`` how many copies a
    wave starts for one half.  ``feed`` and ``reader`` name what copies it to LDS and what reads it from there.
    """

    name: str
    side: str
    dtype: str
    rows: int
    cols: int
    straight: bool
    origin: PlanTerm
    stride: PlanTerm
    left: PlanTerm
    parts: int
    copies: int
    feed: str
    reader: str

    @property
    def free(self) -> int:
        return self.rows if self.straight else self.cols

    @property
    def slot_bytes(self) -> int:
        return self.rows * self.cols * DTYPES[self.dtype].bytes

    def __str__(self) -> str:
        depth = "along the lines" if self.straight else "across the lines"
        return (
            f"slab {self.name}: {self.dtype} [{self.rows}, {self.cols}] of LDS, XOR-swizzled, depth {depth}, 2 slots of "
            f"{self.slot_bytes} bytes in two halves; from [{self.origin}] stride {self.stride} left {self.left}"
        )
