"""Pairs of products that share an operand and meet elementwise, as ``silu(x @ g) * (x @ u)``: one walk makes both.

Each by itself would store its result for the other to read.  Together they load the shared operand once and have both sums
where they meet; a block has half as many columns of each.
"""

from __future__ import annotations

from collections.abc import Mapping

from portakern.ir.core import Op
from portakern.ir.tensor import Contract, Convert, Expand, Map, Reshape, Slice, TensorProgram, Transpose, tensor_type
from portakern.lower.uses import needed, users_of

Pair = tuple[Contract, Contract]


def pairs_of(program: TensorProgram) -> list[Pair]:
    """The pairs of ``program``, each product in one of them at most."""
    sharing: dict[object, list[Contract]] = {}
    for op in program.body.ops:
        if not isinstance(op, Contract):
            continue
        for number, o in enumerate(op.operands):
            sharing.setdefault((number, _seen(o)), []).append(op)
    several = [products for products in sharing.values() if len(products) > 1]
    users = users_of(program) if several else {}
    found: list[Pair] = []
    taken: set[Op] = set()
    for products in several:
        for n, first in enumerate(products):
            others = (p for p in products[n + 1 :] if not {p, first} & taken and _alike(first, p))
            meeting = (p for p in others if not behind(first, users).isdisjoint(behind(p, users)))
            second = next((p for p in meeting if first not in needed((p,))), None)
            if second is not None:
                found.append((first, second))
                taken |= {first, second}
    return found


def _alike(a: Contract, b: Contract) -> bool:
    """Whether two products differ in one operand alone, another array of the same shape."""
    same = sum(_seen(x) == _seen(y) for x, y in ((a.lhs, b.lhs), (a.rhs, b.rhs)))
    kinds = [(*map(tensor_type, op.operands), op.lhs_batch, op.rhs_batch, op.lhs_axes, op.rhs_axes, op.dtype, op.precision)
             for op in (a, b)]  # fmt: skip
    return same == 1 and kinds[0] == kinds[1]


def _seen(op: Op) -> tuple[object, ...]:
    """A value and the moves through which it is seen: those of two products are alike, not the same."""
    moves: list[object] = []
    while isinstance(op, Reshape | Transpose | Expand | Convert | Slice):
        moves += [type(op), *(getattr(op, name) for name, role in op.roles.items() if role == "attribute")]
        op = op.x
    return op, *moves


def behind(op: Op, users: Mapping[Op, list[Op]]) -> set[Op]:
    """The elementwise work on ``op``, however it is transposed."""
    found = set[Op]()
    frontier: list[Op] = [op]
    while frontier:
        value = frontier.pop()
        for user in users.get(value, ()):
            alike = isinstance(user, Map | Convert) and tensor_type(user).shape == tensor_type(value).shape
            if user not in found and (alike or isinstance(user, Transpose)):
                found.add(user)
                frontier.append(user)
    return found

