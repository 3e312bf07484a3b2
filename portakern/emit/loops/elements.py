"""What operations on whole tiles are where loops go over single elements: what they hand on, read, and are called."""

from __future__ import annotations

from portakern.emit.running import Running
from portakern.ir.core import Arg, Op
from portakern.ir.tile import (
    Binary,
    Bitcast,
    Broadcast,
    Cast,
    Compare,
    Const,
    Coord,
    Dot,
    Extent,
    Kernel,
    Load,
    Mask,
    Permute,
    Reduce,
    Select,
    Start,
    Store,
    TileType,
    Unary,
    buffer_type,
    tile_type,
)  # fmt: skip

Bound = frozenset[str]
"""The axes that loops around a list of operations walk."""

NARROW = ("f16", "bf16")
ELEMENTWISE = (Unary, Binary, Compare, Select, Cast, Bitcast)


def source(op: Op) -> Op:
    """The operation whose value ``op`` hands on: a broadcast, permutation or mask changes nothing for one element that
    is inside the extent, and 16-bit floats are held as f32 already."""
    while True:
        if isinstance(op, Broadcast | Permute | Mask) or (isinstance(op, Cast) and _same_register(op)):
            op = op.x
        else:
            return op


def _same_register(cast: Cast) -> bool:
    old = tile_type(cast.x).dtype
    return old == cast.dtype or (old in NARROW and cast.dtype == "f32")


def is_leaf(op: Op) -> bool:
    """Values that are written where they are used: constants, coordinates, arguments."""
    return isinstance(op, Const | Extent | Start | Coord | Arg)


def stored_value(store: Store) -> Op:
    """What a store writes: a cast to a 16-bit float directly before it is the store's own rounding."""
    value = store.value
    while isinstance(value, Broadcast | Permute | Mask):
        value = value.x
    if isinstance(value, Cast) and value.dtype in NARROW and tile_type(value.x).dtype == "f32":
        value = value.x
    return source(value)


def axes_of(op: Op) -> tuple[str, ...]:
    return op.type.axes if isinstance(op.type, TileType) else ()


def unbound(op: Op, bound: Bound) -> bool:
    """Whether a value still has an axis to walk."""
    return any(a not in bound for a in axes_of(op))


def lead_axis(kernel: Kernel, access: Load | Store) -> str | None:
    """The axis along which neighbouring elements of ``access`` lie side by side in memory."""
    have = buffer_type(access.buffer)
    for index, stride in zip(access.indices, have.element_strides, strict=True):
        if stride == 1 and index.terms:
            last = index.terms[-1]
            return last.axis if (last.scale, last.div, last.mod) == (1, 1, 0) else None
    return None


def read_by(op: Op) -> tuple[Op, ...]:
    """What an operation reads; the operands of a product are packed where they are defined."""
    if isinstance(op, Dot):
        return (op.acc,)
    return (*op.operands, stored_value(op)) if isinstance(op, Store) else op.operands


def hint_of(op: Op) -> str:
    """What a value is called."""
    match op:
        case Load():
            return str(getattr(op.buffer, "name", "tile"))
        case Reduce():
            return {"sum": "total", "max": "top", "min": "bottom", "prod": "product"}.get(op.fn, op.fn)
        case Running(fn):
            return f"running_{fn}"
        case Unary(fn):
            return {"exp": "e", "not": "inverse", "rsqrt": "scale", "sqrt": "root"}.get(fn, fn)
        case Binary(fn):
            return {"add": "sum", "sub": "diff", "mul": "scaled", "div": "ratio", "max": "larger", "min": "smaller",
                    "and": "both", "or": "either", "xor": "odd"}.get(fn, fn)
        case Cast():
            return hint_of(source(op.x))
        case Select():
            return "chosen"
        case Arg():
            return op.name
    return "value"
