"""64-bit integers on hardware that has none: inputs of which only the sense matters are taken as saturated i32.

An i64 input that is only compared with numbers of 32 bits or coordinates, limited by them, chosen by a condition, and cast to
i32 (labels of classes, say, or offsets) gives the same results when everything outside of 32 bits is moved to the nearest
number inside.
"""

from __future__ import annotations

from dataclasses import replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program
from portakern.ir.tile import (
    Binary,
    Broadcast,
    BufferType,
    Cast,
    Compare,
    Const,
    Coord,
    Extent,
    Kernel,
    Load,
    Mask,
    Permute,
    Select,
    Start,
    TileType,
    buffer_type,
)

LIMIT = 2**31 - 1
_HANDED_ON = (Load, Select, Broadcast, Mask, Permute)


def saturated(program: Program) -> tuple[str, ...]:
    """Names of the i64 inputs of ``program`` that may be taken as i32; none where anything else is computed in i64."""
    wide = tuple(a.name for a in program.arrays if a.dtype == "i64")
    if not wide or any(a.role != "input" or not isinstance(a.type, BufferType) for a in program.arrays if a.dtype == "i64"):
        return ()
    return wide if all(_harmless(op) for k in program.kernels for op in k.body.walk()) else ()


def _harmless(op: Op) -> bool:
    if isinstance(op, Compare | Cast) and any(_wide(o) for o in op.operands):
        # At the ends of the range a saturated number could be mistaken for another.
        return _in_range(op.lhs) or _in_range(op.rhs) if isinstance(op, Compare) else op.dtype == "i32"
    if any(_wide(o) for o in op.operands) and not _wide(op):
        # Coordinates: no array on a device has as many rows as a saturated one.
        return isinstance(op, Load) and all(not isinstance(n, int) or n < LIMIT for n in buffer_type(op.buffer).shape)
    limited = isinstance(op, Binary) and op.fn in ("min", "max")
    return not _wide(op) or isinstance(op, _HANDED_ON) or limited or _in_range(op)


def _wide(op: Op) -> bool:
    return isinstance(op.type, TileType) and op.type.dtype == "i64"


def _in_range(op: Op) -> bool:
    """Whether ``op`` is a number, or coordinates, inside of 32 bits."""
    if isinstance(op, Broadcast | Permute):
        return _in_range(op.x)
    if isinstance(op, Coord | Start):
        return True
    value = op.value if isinstance(op, Const) else op.size if isinstance(op, Extent) else None
    return isinstance(value, int) and abs(value) < LIMIT


def narrowed(program: Program) -> Program:
    """``program`` with the inputs that :func:`saturated` names, and all that is computed of them, in i32."""
    names = saturated(program)
    if not names:
        return program
    return replace(program, arrays=tuple(_array(a) if a.name in names else a for a in program.arrays),
                   kernels=tuple(_kernel(k) for k in program.kernels))  # fmt: skip


def _array(array: Array) -> Array:
    assert isinstance(array.type, BufferType)
    return replace(array, type=replace(array.type, dtype="i32"))


def _kernel(kernel: Kernel) -> Kernel:
    env: dict[Op, Op] = {}

    def argument(arg: Op) -> Op:
        assert isinstance(arg, Arg)
        new = Arg(arg.name, replace(arg.of, dtype="i32")) if getattr(arg.of, "dtype", "") == "i64" else arg  # type: ignore[type-var]
        env[arg] = new
        return new

    def block(old: Block) -> Block:
        args = tuple(argument(a) for a in old.args)
        ops: list[Op] = []
        for op in old.ops:
            if isinstance(op, Const | Coord | Extent | Start) and op.dtype == "i64":
                new: Op = replace(op, dtype="i32")
            elif isinstance(op, Cast) and _wide(op.x):
                env[op] = env[op.x]
                continue
            else:
                new = op.remap(lambda o: env.get(o, o), block)
            env[op] = new
            ops.append(new)
        return Block(args, tuple(ops))

    return replace(kernel, body=block(kernel.body))
