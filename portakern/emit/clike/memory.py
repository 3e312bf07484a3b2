"""Addresses: the index grammar of loads and stores in C's terms, 64-bit from the buffer's start to the tile's origin."""

from __future__ import annotations

from portakern.emit.clike.expressions import constant
from portakern.emit.clike.plan import Access
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, add, call, divide, multiply, remainder, size_term, whole
from portakern.ir import tile as t
from portakern.ir.size import Size, Sym


class Addresses:
    """Addresses of one kernel.  ``start`` gives the first coordinate of each axis's tile (zero where it is always that) and
    ``left`` how many coordinates remain from there."""

    def __init__(self, kernel: t.Kernel) -> None:
        self.kernel = kernel
        self.start: dict[str, PlanTerm] = {}
        self.used_left: set[str] = set()
        self.left_name: dict[str, str] = {}

    def left(self, axis: str, inline: bool = False) -> PlanTerm:
        """How many coordinates of ``axis`` remain from the tile's first one, clamped to 32 bits."""
        extent, start = self.kernel.axis[axis].extent, self.start[axis]
        if start == ZERO and isinstance(extent, int):
            return whole(extent)
        if inline:
            return self.count_left(axis)
        self.used_left.add(axis)
        return Name(self.left_name[axis])

    def count_left(self, axis: str) -> PlanTerm:
        return call("left", "pk::left", size_term(self.kernel.axis[axis].extent), self.start[axis])

    def coordinate(self, index: t.Index) -> PlanTerm:
        """The coordinate of the tile's first element along one dim of the buffer."""
        total: PlanTerm = ZERO
        for term in index.terms:
            base = self.start[term.axis]
            if base != ZERO:
                base = base if term.div == 1 else divide(base, whole(term.div))
                base = base if not term.mod else remainder(base, whole(term.mod))
                total = add(total, multiply(base, size_term(term.scale)))
        return add(total, size_term(index.offset))

    def access(self, op: t.Load | t.Store, buffer: str, dims: t.Dims, inline_left: frozenset[str] = frozenset()) -> Access:
        """The access of ``op`` for a tile of ``dims``; what is left along the axes ``inline_left`` is spelled out."""
        have = t.buffer_type(op.buffer)
        strides = have.element_strides
        origin: PlanTerm = Name(buffer)
        for index, stride in zip(op.indices, strides, strict=True):
            origin = add(origin, multiply(self.coordinate(index), size_term(stride)))
        steps: list[PlanTerm] = []
        for axis, _ in dims:
            total: Size = 0
            for index, stride in zip(op.indices, strides, strict=True):
                for term in index.terms:
                    if term.axis == axis:
                        total = total + stride * term.scale if isinstance(stride, Sym) else total + term.scale * stride
            steps.append(size_term(total))
        over = reaching_out(self.kernel, op)
        gathers = op.gathers if isinstance(op, t.Load) else ()
        pad: PlanTerm | None = None
        if isinstance(op, t.Load) and (op.pad is not None or gathers):
            pad = constant(op.pad or 0, have.dtype if have.dtype in ("f64", "bool") or _whole(have.dtype) else "f32")
        if not any(axis in over for axis, _ in dims) and not gathers:
            return Access(origin, tuple(steps))
        left = tuple(self.left(axis, axis in inline_left) if axis in over else whole(n) for axis, n in dims)
        return Access(origin, tuple(steps), left, pad)


def reaching_out(kernel: t.Kernel, op: t.Load | t.Store) -> frozenset[str]:
    """The axes along which the tile of ``op`` needs a bounds check.

    A coordinate inside its axis's extent is inside the buffer (see the rules), so what is left is counted along the axis.
    A load may read what lies in the buffer beyond an axis; a store never writes there.  What is gathered for a coordinate
    beyond an axis would be read for nothing.
    """
    if isinstance(op, t.Load) and op.gathers:
        return frozenset(a for a, _ in op.dims if kernel.axis[a].ragged)
    if isinstance(op, t.Store):
        return frozenset(a for index in op.indices for a in index.axes if kernel.axis[a].ragged)
    return frozenset(a for a in kernel.may_overrun(op) if kernel.axis[a].ragged)


def _whole(dtype: str) -> bool:
    return dtype[0] in "iu"
