"""What stands in the way of keeping operands of a walk as strips (``include/pk/strip.h``)."""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.emit.clike.layouts import dims_of
from portakern.emit.clike.terms import PlanTerm, size_term
from portakern.ir import tile as t
from portakern.ir.size import Size, divides

_VECTOR = 8
_REACH = 1 << 31


class Obstacle(Exception):
    """Why a walk is not what was asked."""


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise Obstacle(otherwise)


def features_of(kernel: t.Kernel, load: t.Load, rows: int) -> PlanTerm:
    """How many features there are, where rows of memory are whole vectors, ``rows`` of which offsets reach.

    Raises :class:`Obstacle` where they are not.
    """
    have, name = t.buffer_type(load.buffer), str(getattr(load.buffer, "name", "an operand"))
    row, col = (axis for axis, _ in dims_of(load))
    by_axis: dict[str | None, tuple[Size, Size]] = {
        i.plain: (n, s) for i, n, s in zip(load.indices, have.shape, have.element_strides, strict=True)
    }
    others = [i for i in load.indices if i.plain not in (row, col)]
    plain = {row, col} <= by_axis.keys() and all({row, col}.isdisjoint(i.axes) and i.gather < 0 for i in others)
    need(plain, f"{name} is not read by plain coordinates")
    (lines, stride), (features, one) = by_axis[row], by_axis[col]
    walked = (kernel.axis[row].extent, kernel.axis[col].extent)
    need(walked == (lines, features), f"not all of {name} is walked")
    contiguous = one == 1 and isinstance(features, int) and features % _VECTOR == 0 and have.align % 16 == 0
    aligned = all(divides(_VECTOR, s) for i, s in zip(load.indices, have.element_strides, strict=True) if i.plain != col)
    need(contiguous and aligned, f"the rows of {name} are not whole vectors of {_VECTOR}")
    near = isinstance(stride, int) and rows * stride * DTYPES[have.dtype].bytes < _REACH
    need(near, f"the rows of {name} lie too far apart")
    return size_term(features)
