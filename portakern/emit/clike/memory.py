"""Addresses: the index grammar of loads and stores as C text, 64-bit from the buffer's start to the tile's origin."""

from __future__ import annotations

import re

from portakern.emit.clike.expressions import ATOM, Text, apply, constant
from portakern.emit.clike.names import reserved
from portakern.emit.clike.plan import Access
from portakern.ir import tile as t
from portakern.ir.size import Size, Sym

_ZERO = ("0", "int64_t(0)")
ADD, MULTIPLY = "12|{0} + {1}", "13|{0} * {1}"


def size_name(size: str) -> str:
    """The parameter of an open dim: called as the dim is, unless C++ has taken that name."""
    return f"{size}_" if reserved(size) else size


def size_text(size: Size) -> Text:
    """A size as C text; open dims are 64-bit parameters of the same name."""
    if isinstance(size, int):
        return Text(str(size), ATOM if size >= 0 else 15)
    text = re.sub(r"[A-Za-z_]\w*", lambda found: size_name(found[0]), str(size).replace("//", "/"))
    if text.isidentifier():
        return Text(text)
    assert isinstance(size, Sym)
    return Text(text, 12 if len(size.terms) > 1 else 13 if not text.startswith("-") else 12)


def add(left: Text, right: Text) -> Text:
    """The sum, zeros left out."""
    if left in _ZERO or right in _ZERO:
        return left if right in _ZERO else right
    if right.startswith("-") and right.precedence == 15:
        return Text(f"{left} - {right[1:]}", 12)
    return Text(f"{left if left.precedence >= 12 else f'({left})'} + {right if right.precedence >= 12 else f'({right})'}", 12)


def multiply(left: Text, right: Text) -> Text:
    if "0" in (left, right):
        return Text("0")
    if left == "1" or right == "1":
        return left if right == "1" else right
    return apply(MULTIPLY, left, right)


class Addresses:
    """Address text for one kernel.  ``start`` gives the name of the first coordinate of each axis's tile ("0" where it is
    always 0) and ``left`` the text of how many coordinates remain from there."""

    def __init__(self, kernel: t.Kernel) -> None:
        self.kernel = kernel
        self.start: dict[str, Text] = {}
        self.used_left: set[str] = set()
        self.left_name: dict[str, str] = {}

    def size(self, size: Size) -> Text:
        return size_text(size)

    def left(self, axis: str, inline: bool = False) -> Text:
        """How many coordinates of ``axis`` remain from the tile's first one, clamped to 32 bits."""
        extent, start = self.kernel.axis[axis].extent, self.start[axis]
        if start == "0" and isinstance(extent, int):
            return Text(str(extent))
        if inline:
            return Text(f"pk::left({self.size(extent)}, {start})")
        self.used_left.add(axis)
        return Text(self.left_name[axis])

    def coordinate(self, index: t.Index) -> Text:
        """The coordinate of the tile's first element along one dim of the buffer."""
        total = Text("0")
        for term in index.terms:
            base = self.start[term.axis]
            if base != "0":
                base = base if term.div == 1 else apply("13|{0} / {1}", base, Text(str(term.div)))
                base = base if not term.mod else apply("13|{0} % {1}", base, Text(str(term.mod)))
                total = add(total, multiply(base, self.size(term.scale)))
        return add(total, self.size(index.offset))

    def access(self, op: t.Load | t.Store, buffer: str, dims: t.Dims, inline_left: frozenset[str] = frozenset()) -> Access:
        """The access of ``op`` for a tile of ``dims``; what is left along the axes ``inline_left`` is spelled out."""
        have = t.buffer_type(op.buffer)
        strides = have.element_strides
        origin = Text(buffer)
        for index, stride in zip(op.indices, strides, strict=True):
            origin = add(origin, multiply(self.coordinate(index), self.size(stride)))
        steps: list[str] = []
        for axis, _ in dims:
            total: Size = 0
            for index, stride in zip(op.indices, strides, strict=True):
                for term in index.terms:
                    if term.axis == axis:
                        total = total + stride * term.scale if isinstance(stride, Sym) else total + term.scale * stride
            steps.append(str(self.size(total)))
        over = reaching_out(self.kernel, op)
        pad = ""
        if isinstance(op, t.Load) and op.pad is not None:
            pad = constant(op.pad, have.dtype if have.dtype in ("f64", "bool") or _whole(have.dtype) else "f32")
        if not any(axis in over for axis, _ in dims):
            return Access(origin, tuple(steps))
        left = tuple(self.left(axis, axis in inline_left) if axis in over else str(n) for axis, n in dims)
        return Access(origin, tuple(steps), left, pad)


def reaching_out(kernel: t.Kernel, op: t.Load | t.Store) -> frozenset[str]:
    """The axes along which the tile of ``op`` needs a bounds check.

    A coordinate inside its axis's extent is inside the buffer (see the rules), so what is left is counted along the axis.
    A load may read what lies in the buffer beyond an axis; a store never writes there.
    """
    if isinstance(op, t.Store):
        return frozenset(a for index in op.indices for a in index.axes if kernel.axis[a].ragged)
    return frozenset(a for a in kernel.may_overrun(op) if kernel.axis[a].ragged)


def _whole(dtype: str) -> bool:
    return dtype[0] in "iu"
