"""Pairs of products that share an operand and meet elementwise, as ``silu(x @ g) * (x @ u)``: one walk makes both.

Each by itself would store its result for the other to read.  Together they load the shared operand once and have both sums where
they meet; a block has half as many columns of each.
"""

from __future__ import annotations

from collections.abc import Mapping

from portakern.ir.core import Op
from portakern.ir.tensor import Contract, Convert, Map, TensorProgram, tensor_type

Pair = tuple[Contract, Contract]


def pairs_of(program: TensorProgram) -> list[Pair]:
    """The pairs of ``program``, each product in one of them at most."""
    products = [op for op in program.body.ops if isinstance(op, Contract)]
    if len(products) < 2:
        return []
    users: dict[Op, list[Op]] = {}
    for op in program.body.ops:
        for o in dict.fromkeys(op.operands):
            users.setdefault(o, []).append(op)
    found: list[Pair] = []
    taken: set[Op] = set()
    for n, first in enumerate(products):
        alike = (p for p in products[n + 1 :] if p not in taken and _alike(first, p)) if first not in taken else ()
        for second in alike:
            if not _behind(first, users).isdisjoint(_behind(second, users)):
                found.append((first, second))
                taken |= {first, second}
                break
    return found


def _alike(a: Contract, b: Contract) -> bool:
    """Whether two products differ in one operand alone, another array of the same shape."""
    same = sum(x is y for x, y in ((a.lhs, b.lhs), (a.rhs, b.rhs)))
    kinds = [(*map(tensor_type, op.operands), op.lhs_batch, op.rhs_batch, op.lhs_axes, op.rhs_axes, op.dtype, op.precision)
             for op in (a, b)]  # fmt: skip
    return same == 1 and kinds[0] == kinds[1]


def _behind(op: Contract, users: Mapping[Op, list[Op]]) -> set[Op]:
    """The elementwise work on ``op``, in its own shape."""
    shape, found = tensor_type(op).shape, set[Op]()
    frontier: list[Op] = [op]
    while frontier:
        for user in users.get(frontier.pop(), ()):
            if isinstance(user, Map | Convert) and user not in found and tensor_type(user).shape == shape:
                found.add(user)
                frontier.append(user)
    return found

