"""What values are called in the text of a kernel."""

from __future__ import annotations

import math

from portakern.emit.running import Running
from portakern.ir.core import Arg, Op, Result, sources
from portakern.ir.tile import (
    ArgReduce,
    Binary,
    Broadcast,
    Cast,
    Compare,
    Dot,
    For,
    Load,
    Mask,
    Permute,
    Reduce,
    Select,
    Unary,
    tile_type,
)

from ..planning.constants import filled_with
from ..planning.joined_rows import Repeated
from ..planning.kernel_plan import PallasKernelPlan
from ..planning.taps import TapLoop
from ..planning.whole_lines import Turned
from ..syntax import operations


def hint(op: Op) -> str:
    """A name for a value: its buffer's, the reduction's, or its function's."""
    match op:
        case Load(buffer=Arg(name=name)):
            return name
        case Cast(x=x) | Broadcast(x=x) | Permute(x=x) | Mask(x=x) | Repeated(x=x):
            return hint(x)
        case Turned(x=x):
            return f"turned_{hint(x)}"
        case Reduce(fn=fn, x=x):
            return f"{'row' if len(tile_type(x).dims) < 2 or tile_type(x).axes[1] == op.axis else 'col'}_{fn}"
        case Running(fn=fn):
            return f"running_{fn}"
        case Dot():
            return "product"
        case Unary(fn="exp" | "exp2"):
            return "e" if len(tile_type(op).dims) > 1 else "scale"
        case Compare():
            return "mask"
        case Unary(fn="not") | Binary(fn="and" | "or" | "xor") if tile_type(op).dtype == "bool":
            return "mask"
        case Unary(fn=fn, x=x):
            return operations.NAMES.get(fn) or f"{fn}_{_leaf(x) or 'value'}"
        case Binary(fn=fn):
            return operations.NAMES.get(fn, fn)
        case Select() if tile_type(op).dtype == "bool":
            return "mask"
        case Select(yes=yes, no=no) if (fill := filled_with(no)) is not None:
            leaf = _leaf(yes)
            return f"masked_{leaf}" if leaf and fill.value not in (math.inf, -math.inf) else "masked"
        case Select(condition=Compare(fn="eq", lhs=x)) if x in op.operands:
            return "shift"  # what is subtracted before an exponential, where that is no infinity
        case Select():
            return "selected"
        case Arg(name=name):
            return name
        case Result(source=TapLoop()):
            return "product"
        case Result(source=ArgReduce(fn=fn), index=index):
            return (f"{fn}imum", f"arg{fn}")[index]
    return "value"


def _leaf(op: Op) -> str:
    """The name of what a value is computed from first: an array, a carried value, a reduction; empty where it has none."""
    for found in sources(op, lambda o: (o.yes, o.no) if isinstance(o, Select) else o.operands):
        match found:
            case Load() | Reduce() | Running() | Dot() | Arg():
                return hint(found)
            case Result(source=For() as loop, index=index):
                return hint(loop.body.args[index])
    return ""


def read_names(plan: PallasKernelPlan) -> tuple[str, ...]:
    """The reference of each read: the buffer's name, numbered where a kernel reads it in several ways."""
    names: dict[object, str] = {}
    for access in plan.passed:
        name, n = access.source, 1
        while f"{name}_ref" in names.values():
            n += 1
            name = f"{access.source}{'_' if access.source[-1].isdigit() else ''}{n}"
        names[access.passed] = f"{name}_ref"
    return tuple(names[access.passed] for access in plan.reads)


def fresh(wanted: str, taken: set[str]) -> str:
    """``wanted``, numbered where it is taken; the name is taken then."""
    name, n = wanted, 1
    while name in taken:
        n += 1
        name = f"{wanted}_{n}"
    taken.add(name)
    return name
