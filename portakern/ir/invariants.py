"""What is the same at every step of a loop of a tile kernel, computed before the loop."""

from __future__ import annotations

from dataclasses import replace

from portakern.ir.core import Block, Op, Yield
from portakern.ir.tile import For, Kernel, Load, TileType


def with_invariants_hoisted(kernel: Kernel) -> Kernel:
    """``kernel`` with the operations of its loops that are the same at every step before the loop.  Those of two loops that are
    alike are two operations still."""
    return replace(kernel, body=Block(kernel.body.args, tuple(_hoisted(kernel.body, {}))))


def _hoisted(block: Block, env: dict[Op, Op]) -> list[Op]:
    out: list[Op] = []
    for old in block.ops:
        op = old.remap(lambda o: env.get(o, o), lambda region: region)
        if isinstance(op, For):
            varying: set[Op] = set(op.body.args)
            inside: list[Op] = []
            for inner in _hoisted(op.body, env):
                if _varies(inner, op.axis, varying):
                    varying.add(inner)
                    inside.append(inner)
                else:
                    out.append(inner)
            op = replace(op, body=Block(op.body.args, tuple(inside)))
        env[old] = op
        out.append(op)
    return out


def _varies(op: Op, axis: str, varying: set[Op]) -> bool:
    if not op.pure or isinstance(op, For | Yield) or any(o in varying for o in op.operands):
        return True
    axes = {a for i in op.indices for a in i.axes} if isinstance(op, Load) else {getattr(op, "axis", "")}
    return axis in axes or (isinstance(op.type, TileType) and axis in op.type.axes)
