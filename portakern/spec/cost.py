"""What an operator must cost on any machine: arithmetic operations and the bytes of its inputs and outputs.

A multiply-add counts as 2 operations, everything else (additions, comparisons, selections, ``exp``) as 1 per element;
moves, views and conversions count as none.  Bytes are compulsory traffic: every input read and every output written
once; of an input that elements are only picked from by indices, as many as are picked.  A causal mask does not lower the
count: the operator says what is computed on whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Op, Yield, yielded
from portakern.ir.rewrite import live
from portakern.ir.size import Size, exact, product
from portakern.ir.tensor import TensorProgram, tensor_type


@dataclass(frozen=True)
class Cost:
    """Operations and bytes; expressions of the dims that are open."""

    flops: Size
    read_bytes: Size
    written_bytes: Size

    @property
    def bytes(self) -> Size:
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float | None:
        """Operations per byte; ``None`` while a dim is open or where nothing is moved."""
        if not isinstance(self.flops, int) or not isinstance(self.bytes, int) or self.bytes == 0:
            return None
        return self.flops / self.bytes


def cost(program: TensorProgram) -> Cost:
    """The cost of ``program``."""
    results = dict.fromkeys(program.results)
    return Cost(_flops(program.body), _bytes(program.args, _picked(program)), _bytes(tuple(results)))


def _flops(block: Block) -> Size:
    total: Size = 0
    for op in block.ops:
        if type(op) in COUNTS:
            total = total + COUNTS[type(op)](op)
    return total


def _bytes(values: tuple[Op, ...] | tuple[Arg, ...], picked: Mapping[Op, Size] | None = None) -> Size:
    total: Size = 0
    for v in values:
        of = tensor_type(v)
        total = total + (picked or {}).get(v, product(of.shape)) * DTYPES[of.dtype].bytes
    return total


def _picked(program: TensorProgram) -> dict[Op, Size]:
    """How many elements are read of the arguments that gathers alone read, perhaps through views."""
    users: dict[Op, list[Op]] = {}
    for op in program.body.ops:
        for o in dict.fromkeys(op.operands):
            users.setdefault(o, []).append(op)

    def of(op: Op) -> Size | None:
        total: Size = 0
        for user in users.get(op, ()):
            if isinstance(user, t.Gather) and user.x is op and user.indices is not op:
                total = total + _elements(user)
            elif isinstance(user, VIEWS) and (inner := of(user)) is not None:
                total = total + inner
            else:
                return None
        return total if users.get(op) else None

    found: dict[Op, Size] = {}
    for arg in program.args:
        count, whole = of(arg), product(tensor_type(arg).shape)
        if count is not None:
            found[arg] = min(count, whole) if isinstance(count, int) and isinstance(whole, int) else count
    return found


VIEWS = (t.Reshape, t.Transpose, t.Slice, t.Flip, t.Convert)


def _elements(op: Op) -> Size:
    return product(tensor_type(op).shape)


def _map(op: t.Map) -> Size:
    return _elements(op) if tensor_type(op).shape else 0  # arithmetic on scalars is done once, if at all


def _contract(op: t.Contract) -> Size:
    shape = tensor_type(op.lhs).shape
    return 2 * (_elements(op) * product(tuple(shape[i] for i in op.lhs_axes)))


def _convolve(op: t.Convolve) -> Size:
    """Per element of the result, or of the operand in the gradient form: the taps times the channels of its group."""
    taps = product(tensor_type(op.w).shape[:-1])
    if not op.transposed:
        return 2 * (_elements(op) * taps)
    *window, _, outputs = tensor_type(op.w).shape
    return 2 * (_elements(op.x) * product((*window, exact(outputs, op.groups))))


def _associative_scan(op: t.AssociativeScan) -> Size:
    """What its function computes for this one of its results, once for every element."""
    needed = live([*op.join.ops[:-1], Yield((yielded(op.join)[op.number],))])
    return _elements(op) * sum(isinstance(x, t.Map) for x in needed)


def _window(op: t.WindowFold) -> Size:
    return _elements(op) * product(op.window)


def _halvings(size: Size) -> int:
    """How many comparisons put an element to its place among ``size`` in order; of an open dim, among a million."""
    return max(1, (size if isinstance(size, int) else 1 << 20).bit_length() - 1)


COUNTS: dict[type[Op], Callable[..., Size]] = {
    t.Map: _map,
    t.Fold: lambda op: _elements(op.x),
    t.SegmentFold: lambda op: _elements(op.x),
    t.ArgFold: lambda op: _elements(op.x),
    t.Cumulate: _elements,
    t.AssociativeScan: _associative_scan,
    t.Recur: lambda op: _flops(op.step) * op.length,
    t.WindowFold: _window,
    t.Contract: _contract,
    t.SegmentContract: lambda op: 2 * (_elements(op) * tensor_type(op.lhs).shape[1]),
    t.Convolve: _convolve,
    t.Scatter: lambda op: _elements(op.updates),
    t.Sort: lambda op: _elements(op.x) * _halvings(op.count or tensor_type(op.x).shape[op.axis]),
}

__all__ = ["Cost", "cost"]
