"""Which products are computed again by everything that uses them, in place of being stored: scores of an attention, say.

In product -> elementwise -> product the middle may be far larger than what it is computed from, and what becomes of it:
scores of S queries and S keys have S x S elements, of inputs with S x D.  A kernel that reduces one axis of the middle can make
it tile by tile and never store it.  It spends 2 K operations to save the bytes of an element, so this pays where products are
short; and it walks the reduced axis in each block, so there must be blocks enough along the others.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.ir.core import Arg, Op
from portakern.ir.size import Size, product
from portakern.ir.tensor import Contract, Convert, Expand, Fold, Map, Reshape, TensorProgram, Transpose, tensor_type
from portakern.lower.classes import AxisClass, Classes, is_thin
from portakern.lower.domain import real

OPERATIONS_PER_BYTE = 64
"""Operations that a consumer may spend for each byte that it does not read: below what matrix units of GPUs do meanwhile (an
H200 200), above what vector units do (14 in f32), whose memory is saved all the same."""

LONGEST_WALK = 32
"""How many elements a walk may have for each one that is kept: a long walk by few blocks leaves a device idle."""

WIDEST = 256
"""Features of a result, which one tile covers."""

OPEN = 1 << 12
"""What an open dim counts as."""

Users = Mapping[Op, Sequence[Op]]


@dataclass(frozen=True)
class Use:
    """An operation that reduces the middle, as its operand ``number``."""

    op: Contract | Fold
    number: int


def recomputed(program: TensorProgram, classes: Classes, users: Users) -> set[Op]:
    """The products that nobody stores."""
    found: set[Op] = set()
    for op in program.body.ops:
        if isinstance(op, Contract) and _pays(op) and not inner_products(op, found):
            uses = _uses(op, program, users)
            if any(isinstance(u.op, Contract) for u in uses) and all(_can_walk(op, u, classes) for u in uses):
                found.add(op)
    return found


def computed_several_times(program: TensorProgram, classes: Classes, users: Users) -> bool:
    """Whether a product that nobody stores is part of several others; that of an attention is part of one."""
    return any(isinstance(op, Contract) and sum(isinstance(u.op, Contract) for u in _uses(op, program, users)) > 1
               for op in recomputed(program, classes, users))  # fmt: skip


def inner_products(op: Op, among: Container[Op]) -> list[Contract]:
    """The products in ``among`` that operands of ``op`` are computed from, with elementwise work alone on the way."""
    found: dict[Contract, None] = {}
    seen: set[Op] = set()
    frontier = list(reversed(op.operands))
    while frontier:
        o = frontier.pop()
        if o in seen or isinstance(o, Arg):
            continue
        seen.add(o)
        if isinstance(o, Contract) and o in among:
            found.setdefault(o)
        elif _is_elementwise(o):
            frontier += reversed(o.operands)
    return list(found)


def products_of_chain(stage: TensorProgram) -> tuple[list[Contract], list[Contract | Fold]]:
    """The products of a stage that others are made of, and what is made of them."""
    anchors = [op for op in stage.body.ops if isinstance(op, Contract | Fold)]
    products = {op for op in anchors if isinstance(op, Contract)}
    inside = {c for op in anchors for c in inner_products(op, products)}
    return [op for op in anchors if isinstance(op, Contract) and op in inside], [op for op in anchors if op not in inside]


def _is_elementwise(op: Op) -> bool:
    return isinstance(op, Map | Convert | Transpose | Expand) or (isinstance(op, Reshape) and is_thin(op))


def _pays(op: Contract) -> bool:
    """Whether a value of ``op`` costs less to compute than to read, and it is larger than its operands are together."""
    shape = tensor_type(op.lhs).shape
    if len(op.lhs_axes) != 1 or not isinstance(depth := shape[op.lhs_axes[0]], int):
        return False
    rows = _count(shape[d] for d in op.lhs_free)
    columns = _count(tensor_type(op.rhs).shape[d] for d in op.rhs_free)
    blocks = _count(shape[d] for d in op.lhs_batch)
    short, long = sorted((rows, columns))
    return (0 < depth * (rows + columns) < rows * columns and 2 * depth <= OPERATIONS_PER_BYTE * DTYPES[op.dtype].bytes
            and long <= LONGEST_WALK * short * blocks and DTYPES[op.dtype].is_float)  # fmt: skip


def _count(sizes: Iterator[Size]) -> int:
    return int(product(tuple(n if isinstance(n, int) else OPEN for n in sizes)))  # type: ignore[arg-type]


def _uses(op: Contract, program: TensorProgram, users: Users) -> list[Use]:
    """All that is made of ``op``; nothing where some of it needs the whole array."""
    found: dict[Use, None] = {}
    seen: set[Op] = set()
    frontier: list[Op] = [op]
    while frontier:
        value = frontier.pop()
        if value in program.results:
            return []
        for user in users.get(value, ()):
            if isinstance(user, Contract | Fold):
                found |= {Use(user, n): None for n, o in enumerate(user.operands) if o is value}
            elif not _is_elementwise(user) or isinstance(user, Expand):
                return []
            elif user not in seen:
                seen.add(user)
                frontier.append(user)
    return list(found) if len({u.op for u in found}) == len(found) else []  # no product of the middle with itself


def _can_walk(op: Contract, use: Use, classes: Classes) -> bool:
    """Whether ``use`` reduces some axes of the middle, all of which it has, and a tile covers the features of its result."""
    middle, mine = set(real(classes.of(op))), set(real(classes.of_operand(use.op, use.number)))
    reduced = reduced_axes(use.op, classes)
    if mine != middle or not reduced <= middle or tile_of_middle([op], [use.op], classes) is None:
        return False
    if isinstance(use.op, Fold):
        return True
    features = features_of(use.op, 1 - use.number, classes)
    return (len(features) == 1 and all(isinstance(c.extent, int) and c.extent <= WIDEST for c in features)
            and features.isdisjoint(middle) and DTYPES[use.op.dtype].is_float)  # fmt: skip


def tile_of_middle(inner: Sequence[Contract], outer: Sequence[Contract | Fold], classes: Classes
                   ) -> tuple[AxisClass, AxisClass] | None:  # fmt: skip
    """The axis of the middle whose rows a block keeps, and the one that it walks: ``None`` where no two give products of
    matrices.

    An inner product must have them in two operands, as i and j of ``ick,jk->icj``, where i and c would be products of vectors;
    and no result may have the kept one in both operands, as i of ``ij,ijz->iz``.  What is gone through one by one beside them
    must not be what lies together in memory, as c of ``kic,kjd->ijcd`` when rows of i are kept and d is walked.
    """
    walked, free = reduced_axes(outer[0], classes), real(classes.of(inner[0])[len(inner[0].lhs_batch) :])
    products = [op for op in outer if isinstance(op, Contract)]
    last = {axes[-1] for op in inner for i in (0, 1) if (axes := real(classes.of_operand(op, i)))}
    for m in reversed([c for c in free if c not in walked]):
        for n in reversed([c for c in free if c in walked]):
            sides = all(_has(op, m, n, classes) or _has(op, n, m, classes) for op in inner)
            rows = all(m in features_of(op, 0, classes) | features_of(op, 1, classes) for op in products)
            if sides and rows and last.isdisjoint({*free} - {m, n}):
                return m, n
    return None


def _has(op: Contract, left: AxisClass, right: AxisClass, classes: Classes) -> bool:
    return left in features_of(op, 0, classes) and right in features_of(op, 1, classes)


def reduced_axes(op: Contract | Fold, classes: Classes) -> set[AxisClass]:
    """What ``op`` sums over."""
    axes = op.lhs_axes if isinstance(op, Contract) else op.axes
    return set(real(classes.of_operand(op, 0)[a] for a in axes))


def features_of(op: Contract, number: int, classes: Classes) -> set[AxisClass]:
    """The axes of the result that operand ``number`` alone has."""
    free = (op.lhs_free, op.rhs_free)[number]
    return set(real(classes.of_operand(op, number)[d] for d in free))
