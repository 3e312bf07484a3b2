"""Products of which one operand is a vector, as sums: the tiles of a product would be empty but for one row or column.

A matrix times a vector reads every element of the matrix once and is done when memory is, as reductions of rows are: these walk
the matrix as it lies, in parts where its rows are few and long.  Units that multiply matrices of 16 bits take such a product
at the rate of memory as it is, so theirs stay, but for the product of two vectors, which has one tile, and windows of few
channels, which lie nowhere as a matrix.  Where a language has
no such units, a tile of rows costs as much for one row as for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.ir.core import Op
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.size import Size, product
from portakern.ir.tensor import Contract, Convert, Expand, Fold, Map, Reshape, TensorProgram, Transpose, Windows, tensor_type
from portakern.lower.classes import unshared
from portakern.lower.kernel import always
from portakern.lower.split import Stage

rules = Rules()

Units = Callable[[str], bool]
Multiplies = Callable[[str, str], bool]


def as_rows(stage: Stage, names: Mapping[str, tuple[str, ...]], units: Units = always) -> Stage:
    """``stage``, of the family ``rows`` if its only product is of a vector, and not one of several that are summed, or if both
    of a pair are: one walk sums both.  ``names`` are those of the dims of arrays, ``units`` says of a dtype of 16 bits
    whether there are any that multiply it."""
    ops = stage.program.body.ops
    products = [op for op in ops if isinstance(op, Contract)]
    if stage.family not in ("contraction", "pair") or stage.apart or not all(is_thin_product(op, units) for op in products):
        return stage
    if any(isinstance(op, Fold) for op in ops):
        return stage
    return replace(stage, program=unshared(canonicalise(stage.program, rules), names), family="rows")


def is_thin_product(op: Contract, units: Units = always) -> bool:
    lhs, rhs = tensor_type(op.lhs), tensor_type(op.rhs)
    alone = [product(tuple(x.shape[i] for i in free)) == 1 for x, free in ((lhs, op.lhs_free), (rhs, op.rhs_free))]
    by_units = DTYPES[lhs.dtype].bits < 32 and DTYPES[lhs.dtype].is_float and units(lhs.dtype)
    return all(alone) or (any(alone) and (not by_units or _of_taps_alone(op)))


def _of_taps_alone(op: Contract) -> bool:
    """Whether what is summed are windows of few channels: they overlap, so that no matrix of them lies in memory."""
    for x, axes in ((op.lhs, op.lhs_axes), (op.rhs, op.rhs_axes)):
        if isinstance(x, Windows):
            shape = tensor_type(x).shape
            taps = len(shape) - len(x.window)
            return all(shape[i] == 1 for i in axes if i < taps) and x.strides[-1] < JOINED
    return False


JOINED = 16
"""Elements between windows from which on they are taken for channels, which lie beside each other in a window."""


def without_products(program: TensorProgram, multiplies: Multiplies) -> TensorProgram:
    """``program`` with the products of integers that nothing ``multiplies`` as sums: slow, and as exact."""
    def lacks(op: Op) -> bool:
        dtype = tensor_type(op.lhs).dtype if isinstance(op, Contract) else ""
        return isinstance(op, Contract) and not DTYPES[dtype].is_float and not multiplies(dtype, op.dtype)

    if not any(map(lacks, program.body.walk())):
        return program
    sums = Rules()
    sums.on(Contract)(lambda op: sum_of_products(op) if lacks(op) else None)
    return canonicalise(program, sums)


@rules.on(Contract)
def sum_of_products(op: Contract) -> Op:
    """Products in the dtype that they are summed in."""
    dtype = op.dtype if DTYPES[op.dtype].bits >= 32 else "f32"
    batch, left, right, summed = len(op.lhs_batch), len(op.lhs_free), len(op.rhs_free), len(op.lhs_axes)
    lhs = _ordered(op.lhs, (*op.lhs_batch, *op.lhs_free, *op.lhs_axes), dtype)
    rhs = _ordered(op.rhs, (*op.rhs_batch, *op.rhs_free, *op.rhs_axes), dtype)
    free = batch + left + right
    shape: tuple[Size, ...] = (*tensor_type(op).shape, *(tensor_type(op.lhs).shape[i] for i in op.lhs_axes))
    walked = tuple(range(free, free + summed))
    left_dims, right_dims = range(batch + left), (*range(batch), *range(batch + left, free))
    whole = Expand(lhs, shape, (*left_dims, *walked)), Expand(rhs, shape, (*right_dims, *walked))
    every, ones = Map("mul", whole), all(s == 1 for s in shape[free:])
    return _cast((Reshape(every, shape[:free]) if walked else every) if ones else Fold("sum", every, walked), op.dtype)


def _ordered(x: Op, order: tuple[int, ...], dtype: str) -> Op:
    return _cast(x if order == tuple(range(len(order))) else Transpose(x, order), dtype)


def _cast(x: Op, dtype: str) -> Op:
    return x if tensor_type(x).dtype == dtype else Convert(x, dtype)
