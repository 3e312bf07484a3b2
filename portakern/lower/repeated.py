"""Products whose one operand is the same for several of the batches: these are rows of the other operand.

Heads of queries that share keys are written as batches whose keys are repeated.  As rows of one matrix they load the keys once.
"""

from __future__ import annotations

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.tensor import Contract, Convert, Expand, Reshape, Transpose, tensor_type
from portakern.lower.joining import product_before_joining_batches

rules = Rules()


@rules.on(Contract)
def batches_that_repeat(op: Contract) -> Op | None:
    """The last batch first; one at a time."""
    for n in reversed(range(len(op.lhs_batch))):
        left, right = (is_repeated(x, dims[n]) for x, dims in ((op.lhs, op.lhs_batch), (op.rhs, op.rhs_batch)))
        if left != right:
            return _as_rows(op, n, left)
    return None


@rules.on(Contract)
def joined_batches_that_repeat(op: Contract) -> Op | None:
    """Where a reshape joins them with others."""
    apart = product_before_joining_batches(op)
    if not isinstance(apart, Reshape) or not isinstance(apart.x, Contract) or batches_that_repeat(apart.x) is None:
        return None
    return apart


def _as_rows(op: Contract, n: int, left: bool) -> Op:
    """``op`` with batch ``n``, for which one side is repeated, a free dim of the other side."""
    lhs_batch, rhs_batch = (dims[:n] + dims[n + 1 :] for dims in (op.lhs_batch, op.rhs_batch))
    gone = (op.lhs_batch if left else op.rhs_batch)[n]
    once = without(op.lhs if left else op.rhs, gone)

    def moved(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d - (d > gone) for d in dims)

    lhs, rhs = (once, op.rhs) if left else (op.lhs, once)
    made = Contract(lhs, rhs, moved(lhs_batch) if left else lhs_batch, rhs_batch if left else moved(rhs_batch),
                    moved(op.lhs_axes) if left else op.lhs_axes, op.rhs_axes if left else moved(op.rhs_axes),
                    op.dtype, op.precision, loc=op.loc)  # fmt: skip
    # The dims of the result as they were: batches, free dims of the left side, free dims of the right one.
    other = made.rhs_free if left else made.lhs_free
    place = len(lhs_batch) + (len(made.lhs_free) if left else 0) + other.index((op.rhs_batch if left else op.lhs_batch)[n])
    order = [d for d in range(tensor_type(made).rank) if d != place]
    order.insert(n, place)
    return made if order == sorted(order) else Transpose(made, tuple(order))


def is_repeated(op: Op, dim: int) -> bool:
    """Whether ``op`` is the same all along ``dim``, which has several elements."""
    match op:
        case Transpose(x=x, order=order):
            return is_repeated(x, order[dim])
        case Convert(x=x):
            return is_repeated(x, dim)
        case Expand(x=x, shape=shape, dims=dims) if shape[dim] != 1:
            if dim not in dims or tensor_type(x).shape[dims.index(dim)] == 1:
                return True
            return is_repeated(x, dims.index(dim))
    return False


def without(op: Op, dim: int) -> Op:
    """``op`` without ``dim``, along which it is the same."""
    match op:
        case Transpose(x=x, order=order):
            gone = order[dim]
            return Transpose(without(x, gone), tuple(d - (d > gone) for d in order if d != gone))
        case Convert(x=x, dtype=dtype):
            return Convert(without(x, dim), dtype, loc=op.loc)
        case Expand(x=x, shape=shape, dims=dims):
            left = tuple(n for d, n in enumerate(shape) if d != dim)
            if dim in dims:
                own, have = dims.index(dim), tensor_type(x).shape
                one = tuple(n for d, n in enumerate(have) if d != own)
                x = Reshape(x, one) if have[own] == 1 else without(x, own)
            return Expand(x, left, tuple(d - (d > dim) for d in dims if d != dim))
    raise AssertionError(op)
