"""Who uses the values of a program, and what values are computed from."""

from __future__ import annotations

from collections.abc import Container, Iterable

from portakern.ir.core import Op
from portakern.ir.tensor import TensorProgram


def users_of(program: TensorProgram) -> dict[Op, list[Op]]:
    """Who uses each value of ``program``, in order; what gives the results is a user."""
    users: dict[Op, list[Op]] = {}
    for op in program.body.ops:
        for o in dict.fromkeys(op.operands):
            users.setdefault(o, []).append(op)
    return users


def needed(results: Iterable[Op], arrays: Container[Op] = ()) -> list[Op]:
    """What ``results`` are computed from up to arguments and ``arrays``, each after its operands."""
    order: dict[Op, None] = {}
    frontier = [(op, False) for op in reversed(list(results))]
    while frontier:
        op, ready = frontier.pop()
        if ready:
            order.setdefault(op)
        elif op not in order:
            below = () if op in arrays else op.operands
            frontier += [(op, True), *((o, False) for o in reversed(below) if o not in order)]
    return list(order)
