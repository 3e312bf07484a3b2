"""Integer scalars of grid indices and sizes as text."""

from __future__ import annotations

from collections.abc import Mapping

from portakern.ir.core import Op
from portakern.ir.tile import Binary, Cast, Const, Coord, Extent, Start

from ..syntax import operations
from ..syntax.expressions import SUM, PlacedExpr
from .blocks import Span


def scalar_text(op: Op, spans: Mapping[str, Span]) -> PlacedExpr | None:
    """An integer scalar of grid indices and sizes as text that both kernels and index maps understand."""
    if isinstance(op, Const):
        return operations.number(op.value, op.dtype)
    if isinstance(op, Extent):
        return PlacedExpr(str(op.size), None, 0 if isinstance(op.size, int) and op.size >= 0 else SUM)
    if isinstance(op, Start) or (isinstance(op, Coord) and not op.dims):
        text = spans[op.axis].start if op.axis in spans else op.axis
        return PlacedExpr(text, None, 0 if text.isidentifier() or text.isdigit() else 3)
    if isinstance(op, Cast) and op.dtype in ("i32", "i64"):
        return scalar_text(op.x, spans)
    if isinstance(op, Binary):
        left, right = scalar_text(op.lhs, spans), scalar_text(op.rhs, spans)
        return operations.binary(op.fn, left, right, "i32") if left and right else None
    return None
