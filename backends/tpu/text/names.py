"""What values are called in the text of a kernel."""

from __future__ import annotations

import math

from portakern.emit.running import Running
from portakern.ir.core import Arg, Op, Result
from portakern.ir.tile import (
    ArgReduce,
    Binary,
    Broadcast,
    Cast,
    Compare,
    Dot,
    Load,
    Mask,
    Permute,
    Reduce,
    Select,
    Unary,
    tile_type,
)

from ..planning.constants import filled_with
from ..planning.kernel_plan import KernelPlan
from ..syntax import operations


def hint(op: Op) -> str:
    """A name for a value: its buffer's, the reduction's, or its function's."""
    match op:
        case Load(buffer=Arg(name=name)):
            return name
        case Cast(x=x) | Broadcast(x=x) | Permute(x=x) | Mask(x=x):
            return hint(x)
        case Reduce(fn=fn, x=x):
            return f"{'row' if len(tile_type(x).dims) < 2 or tile_type(x).axes[1] == op.axis else 'col'}_{fn}"
        case Running(fn=fn):
            return f"running_{fn}"
        case Dot():
            return "product"
        case Unary(fn="exp" | "exp2"):
            return "e" if len(tile_type(op).dims) > 1 else "scale"
        case Unary(fn=fn) | Binary(fn=fn):
            return operations.NAMES.get(fn, f"{fn}_")
        case Compare():
            return "test"
        case Select(no=no) if (fill := filled_with(no)) is not None and fill.value in (math.inf, -math.inf):
            return "masked"
        case Select(condition=Compare(fn="eq", lhs=x)) if x in op.operands:
            return "shift"  # what is subtracted before an exponential, where that is no infinity
        case Select():
            return "chosen"
        case Arg(name=name):
            return name
        case Result(source=ArgReduce(), index=index):
            return ("best", "where")[index]
    return "value"


def read_names(plan: KernelPlan) -> tuple[str, ...]:
    """The reference of each read: the buffer's name, numbered where a kernel reads it in several ways."""
    names: list[str] = []
    for access in plan.reads:
        base, n = access.buffer, 1
        while f"{base}{n if n > 1 else ''}_ref" in names:
            n += 1
        names.append(f"{base}{n if n > 1 else ''}_ref")
    return tuple(names)


def fresh(wanted: str, taken: set[str]) -> str:
    """``wanted``, numbered where it is taken; the name is taken then."""
    name, n = wanted, 1
    while name in taken:
        n += 1
        name = f"{wanted}_{n}"
    taken.add(name)
    return name
