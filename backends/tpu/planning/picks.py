"""Rows that indices pick, and walks whose bounds are read: both from scalar memory, to which their arrays are prefetched.

No instruction of a TensorCore loads elements of HBM one by one.  But which block a grid step fetches may be looked up: an
array of indices goes ahead of the grid (``PrefetchScalarGridSpec``), and every step fetches the block of its own one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portakern.ir.core import Arg, Op
from portakern.ir.size import Size
from portakern.ir.tile import (
    Binary,
    Broadcast,
    BufferType,
    Cast,
    Compare,
    For,
    Kernel,
    Load,
    Select,
    Start,
    Term,
    begins_inside,
    buffer_type,
    ends_inside,
)

from ..syntax import operations
from ..syntax.expressions import SUM, PlacedExpr, call, infix
from .blocks import Span
from .scalars import scalar_text


def loads_of_indices(kernel: Kernel) -> tuple[tuple[str, ...], frozenset[Op]]:
    """The arrays of indices by which ``kernel`` picks or bounds its walks, and the operations that are read from scalar memory:
    those that nothing else reads, and single elements of these arrays."""
    users: dict[Op, list[Op]] = {}
    picking: dict[Op, None] = {}
    for op in kernel.body.walk():
        for o in op.operands:
            users.setdefault(o, []).append(op)
        picking.update(dict.fromkeys(_picks(op)))
    below = list(picking)
    for op in below:
        below += [o for o in op.operands if not isinstance(o.type, BufferType) and o not in below]
    alone: set[Op] = set()
    for op in reversed(list(kernel.body.walk())):
        if op in below and all(u in alone or op in _picks(u) for u in users.get(op, ())):
            alone.add(op)
    loads = {op: op.buffer.name for op in below if isinstance(op, Load) and isinstance(op.buffer, Arg)}
    return tuple(dict.fromkeys(loads.values())), frozenset(alone).union(op for op in loads if not op.dims)


def _picks(op: Op) -> tuple[Op, ...]:
    """What ``op`` needs as a number before its blocks are there."""
    match op:
        case Load(gathers=gathers):
            return gathers
        case For(lo=lo, hi=hi):
            return tuple(x for x in (lo, hi) if x is not None)
    return ()


def reference(array: str) -> str:
    """The name of an array of indices in scalar memory."""
    return f"{array}_smem"


LONGEST = 4096
"""Operations that the text of a coordinate may have: an index map has no names for what it uses twice, so that forty steps of
a search would be written out 2^40 times."""


def picked_text(op: Op, spans: Mapping[str, Span]) -> PlacedExpr | None:
    """The coordinate that ``op`` is, as text for kernels and index maps; ``None`` where there is no rule for it."""
    return _picked(op, spans) if _written_out(op, {}) <= LONGEST else None


def _written_out(op: Op, known: dict[Op, int]) -> int:
    """How many operations the text of ``op`` has."""
    if op not in known:
        known[op] = 1 + sum(_written_out(o, known) for o in op.operands if not isinstance(o.type, BufferType))
    return known[op]


def _picked(op: Op, spans: Mapping[str, Span]) -> PlacedExpr | None:
    match op:
        case Load(dims=()):
            return _loaded(op, spans)
        case Broadcast(x=x, dims=()):
            return _picked(x, spans)
        case Cast(x=x, dtype="i32" | "i64"):
            return _picked(x, spans)
        case Binary(fn=fn, lhs=lhs, rhs=rhs) | Compare(fn=fn, lhs=lhs, rhs=rhs):
            a, b = _picked(lhs, spans), _picked(rhs, spans)
            return operations.binary(fn, a, b, "i32") if a and b else None
        case Select(condition=condition, yes=yes, no=no):
            parts = [_picked(x, spans) for x in (condition, yes, no)]
            return call("jnp.where", *(p for p in parts if p)) if all(parts) else None
    return scalar_text(op, spans)


def _loaded(op: Load, spans: Mapping[str, Span]) -> PlacedExpr | None:
    """An element of an array of indices, which lies in scalar memory as one line."""
    assert isinstance(op.buffer, Arg)
    have, inside = buffer_type(op.buffer), None
    total: PlacedExpr | None = None
    for index, size, stride in zip(op.indices, have.shape, have.element_strides, strict=True):
        parts = [_term(t, spans) for t in index.terms]
        parts += [_size(index.offset)] if index.offset != 0 else []
        if index.gather >= 0:
            gather = op.gathers[index.gather]
            at = _picked(gather, spans)
            if at is None or have.dtype not in ("i32", "i64"):
                return None
            if not _lies_inside(gather, size, spans):
                more = found_text(gather, size, spans)
                inside = more if inside is None else infix("&", inside, more)
                at = call("jnp.clip", at, PlacedExpr("0"), infix("-", _size(size), PlacedExpr("1")))
            parts.append(at)
        for part in parts:
            part = part if stride == 1 else infix("*", part, _size(stride))
            total = part if total is None else infix("+", total, part)
    found = PlacedExpr(f"{reference(op.buffer.name)}[{total.text if total else 0}]")
    return found if inside is None else call("jnp.where", inside, found, PlacedExpr(str(int(op.pad or 0))))


def _lies_inside(op: Op, size: Size, spans: Mapping[str, Span]) -> bool:
    """Whether a coordinate is known to be one of a dim of ``size``: where a block starts, say."""
    if isinstance(op, Start):
        return spans[op.axis].axis.extent == size
    return begins_inside(op) and ends_inside(op, size - 1)


def _term(term: Term, spans: Mapping[str, Span]) -> PlacedExpr:
    span = spans[term.axis]
    found = PlacedExpr(span.start, None, 0 if span.start.isidentifier() or span.start.isdigit() else SUM)
    found = found if term.div == 1 else infix("//", found, _size(term.div))
    found = found if not term.mod else infix("%", found, _size(term.mod))
    return found if term.scale == 1 else infix("*", found, _size(term.scale))


def _size(size: Size) -> PlacedExpr:
    return PlacedExpr(str(size), None, 0 if str(size).isidentifier() or str(size).isdigit() else SUM)


def found_text(op: Op, size: Size, spans: Mapping[str, Span]) -> PlacedExpr:
    """Whether the coordinate that ``op`` is lies inside a dim of ``size``."""
    x = picked_text(op, spans) or PlacedExpr("0")
    return infix("&", infix(">=", x, PlacedExpr("0")), infix("<", x, _size(size)))


def at(spans: Mapping[str, Span], coordinates: Mapping[str, str]) -> dict[str, Span]:
    """``spans`` that begin at other ``coordinates``, as index maps have them."""
    return {name: replace(span, begin=coordinates.get(name, span.begin)) for name, span in spans.items()}
