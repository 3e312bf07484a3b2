"""A tensor program cut down to a part of one output: what the oracle can afford where the whole would take minutes.

The part is a box, a range of indices along each dim.  Walking backwards, every operation is asked for the box of it that
is needed; a sum needs all of the dims it sums over, an elementwise operation the same box of its operands.  The result is
a smaller program and the boxes of the inputs that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from portakern.ir import tensor as t
from portakern.ir.core import Block, ManyType, Op, Result, Yield
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type, verify_tensor_program

Box = tuple[tuple[int, int], ...]
"""(first, one past the last) index of each dim."""


@dataclass(frozen=True)
class Restricted:
    """``program`` gives the part ``box`` of one output from the parts ``inputs`` of the inputs."""

    program: TensorProgram
    output: str
    box: Box
    inputs: Mapping[str, Box]


def restrict(program: TensorProgram, output: str, box: Sequence[tuple[int, int]]) -> Restricted:
    """The part of ``program``, whose dims are bound, that computes ``box`` of ``output``."""
    result = program.results[program.outputs.index(output)]
    needed: dict[Op, Box] = {result: tuple(box)}
    for op in reversed(program.body.ops):
        if op in needed and not isinstance(op, Yield):
            own, operands = demand(op, needed[op])
            needed[op] = own
            for operand, part in zip(op.operands, operands, strict=True):
                needed[operand] = hull(needed[operand], part) if operand in needed else part
    small: dict[Op, Op] = {}
    body: list[Op] = []
    for a in program.args:
        needed.setdefault(a, tuple((0, min(1, n)) for n in _shape(a)))  # an input that is not read keeps its place
        small[a] = replace(a, of=TensorType(sizes(needed[a]), tensor_type(a).dtype))
    for op in program.body.ops:
        if op in needed and not isinstance(op, Yield):
            made = _rebuilt(op, needed, small, body)
            body.append(made)
            small[op] = made
    final = _part(small[result], needed[result], tuple(box), body)
    body.append(Yield((final,)))
    args = tuple(small[a] for a in program.args)
    cut = replace(program, body=Block(args, tuple(body)), outputs=(output,))
    verify_tensor_program(cut)
    return Restricted(cut, output, tuple(box), {a.name: needed[a] for a in program.args})


def sizes(box: Box) -> tuple[int, ...]:
    return tuple(hi - lo for lo, hi in box)


def cut(array: Any, box: Box) -> Any:
    """The part of an array."""
    return array[tuple(slice(lo, hi) for lo, hi in box)]


def hull(a: Box, b: Box) -> Box:
    return tuple((min(p[0], q[0]), max(p[1], q[1])) for p, q in zip(a, b, strict=True))


def _shape(op: Op) -> tuple[int, ...]:
    of = op.type.types[0] if isinstance(op.type, ManyType) else op.type
    assert isinstance(of, TensorType)
    return static(of.shape)


def _full(op: Op) -> Box:
    return tuple((0, n) for n in _shape(op))


def _widened(op: Op, box: Box, axes: Sequence[int]) -> Box:
    """``box`` of ``op`` with all of the dims ``axes``."""
    return tuple((0, n) if i in axes else part for i, (n, part) in enumerate(zip(_shape(op), box, strict=True)))


# ---- what an operation needs ---------------------------------------------------------------------------------------------

Demand = tuple[Box, list[Box]]


def demand(op: Op, box: Box) -> Demand:
    """(the box of ``op`` that will be computed, which holds ``box``; the box needed of each operand)."""
    rule = DEMANDS.get(type(op))
    return rule(op, box) if rule is not None else (_full(op), [_full(o) for o in op.operands])


def _map(op: t.Map, box: Box) -> Demand:
    return box, [box if _shape(a) else () for a in op.args]


def _same(op: Any, box: Box) -> Demand:
    return box, [box]


def _expand(op: t.Expand, box: Box) -> Demand:
    have = _shape(op.x)
    return box, [tuple(box[d] if n == static(op.shape)[d] else (0, 1) for n, d in zip(have, op.dims, strict=True))]


def _reshape(op: t.Reshape, box: Box) -> Demand:
    """Dims that become others are cut to a run of elements that is a box on both sides."""
    before, after = _shape(op.x), _shape(op)
    if 0 in before or any(hi <= lo for lo, hi in box):
        return _full(op), [_full(op.x)]
    own: list[tuple[int, int]] = []
    given: list[tuple[int, int]] = []
    for ins, outs in _groups(before, after):
        part = box[len(own) : len(own) + len(outs)]
        run = _run_of(outs, part)
        grown: tuple[int, int] | None = None
        while grown != run:
            grown = run
            for dims in (outs, ins):
                run = _run_of(dims, _box_of(dims, run))
        own += _box_of(outs, run)
        given += _box_of(ins, run)
    return tuple(own), [tuple(given)]


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """The fewest dims on either side that hold the same elements, in order; dims of one element go with those before them."""
    found: list[tuple[Sequence[int], Sequence[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        m, n = min(i + 1, len(before)), min(j + 1, len(after))
        while (a := prod(before[i:m])) != (b := prod(after[j:n])):
            m, n = (m + 1, n) if a < b else (m, n + 1)
        if m == len(before) or n == len(after):
            m, n = (len(before), len(after)) if prod(before[m:]) == prod(after[n:]) == 1 else (m, n)
        found.append((before[i:m], after[j:n]))
        i, j = m, n
    return found


def _box_of(dims: Sequence[int], run: tuple[int, int]) -> Box:
    """The smallest box that holds a run of elements and is one itself: one index along the first dims, all of the last."""
    begin, end = run
    found: list[tuple[int, int]] = []
    for i in range(len(dims)):
        stride = prod(dims[i + 1 :])
        lo, hi = begin // stride, -(-end // stride)
        found.append((lo, hi))
        if hi - lo > 1:
            return (*found, *((0, m) for m in dims[i + 1 :]))
        begin, end = begin - lo * stride, end - lo * stride
    return tuple(found)


def _run_of(dims: Sequence[int], box: Box) -> tuple[int, int]:
    """From the first element of a box to its last one."""
    first = last = 0
    for n, (lo, hi) in zip(dims, box, strict=True):
        first, last = first * n + lo, last * n + hi - 1
    return first, last + 1


def _transpose(op: t.Transpose, box: Box) -> Demand:
    parts = dict(zip(op.order, box, strict=True))
    return box, [tuple(parts[i] for i in range(len(box)))]


def _slice(op: t.Slice, box: Box) -> Demand:
    starts = static(op.starts)
    return box, [tuple((s + lo * n, s + max(hi - 1, lo) * n + (hi > lo)) for (lo, hi), s, n in
                       zip(box, starts, op.steps, strict=True))]  # fmt: skip


def _pad(op: t.PadWith, box: Box) -> Demand:
    padded = [i for i, (a, b) in enumerate(zip(op.low, op.high, strict=True)) if a or b]
    own = _widened(op, box, padded)
    return own, [tuple((0, n) if i in padded else own[i] for i, n in enumerate(_shape(op.x)))]


def _concat(op: t.Concat, box: Box) -> Demand:
    own = _widened(op, box, [op.axis])
    return own, [_widened(p, own, [op.axis]) for p in op.parts]


def _flip(op: t.Flip, box: Box) -> Demand:
    own = _widened(op, box, op.axes)
    return own, [own]


def _fold(op: t.Fold, box: Box) -> Demand:
    rest = iter(box)
    return box, [tuple((0, n) if i in op.axes else next(rest) for i, n in enumerate(_shape(op.x)))]


def _arg_fold(op: t.ArgFold, box: Box) -> Demand:
    rest = iter(box)
    return box, [tuple((0, n) if i == op.axis else next(rest) for i, n in enumerate(_shape(op.x)))]


def _segment_fold(op: t.SegmentFold, box: Box) -> Demand:
    """Some segments: their offsets, and all that these may mark."""
    first, last = box[op.axis]
    return box, [_widened(op.x, box, [op.axis]), ((first, last + 1),)]


def _along(op: Any, box: Box) -> Demand:
    """What runs along one axis: all of it, and the box of the other dims."""
    own = _widened(op, box, [op.axis])
    return own, [_widened(op.x, own, [op.axis])]


def _associative_scan(op: t.AssociativeScan, box: Box) -> Demand:
    own = _widened(op, box, [op.axis])
    return own, [own] * len(op.xs)


def _result(op: Result, box: Box) -> Demand:
    """One of several results is there for the box that its operation is computed for; a loop gives all of them whole."""
    if isinstance(op.source, t.Recur):
        return _full(op), [()]
    own, _ = demand(op.source, box)
    return own, [own]


def _recur(op: t.Recur, box: Box) -> Demand:
    return (), [_full(o) for o in op.operands]


def _contract(op: t.Contract, box: Box) -> Demand:
    left, right = list(_full(op.lhs)), list(_full(op.rhs))
    for part, i, j in zip(box, op.lhs_batch, op.rhs_batch, strict=False):
        left[i] = right[j] = part
    rest = box[len(op.lhs_batch) :]
    for part, i in zip(rest, op.lhs_free, strict=False):
        left[i] = part
    for part, j in zip(rest[len(op.lhs_free) :], op.rhs_free, strict=True):
        right[j] = part
    return box, [tuple(left), tuple(right)]


def _segment_contract(op: t.SegmentContract, box: Box) -> Demand:
    """Some columns: which rows are of which group is said by their numbers."""
    own = _widened(op, box, [0])
    return own, [_full(op.lhs), (*_full(op.rhs)[:2], box[1]), _full(op.groups)]


@dataclass(frozen=True)
class _Met:
    """What the windows of some positions meet along a dim: elements ``lo`` to ``hi``, and so many before and after its ends."""

    lo: int
    hi: int
    low: int
    high: int


def _met(positions: tuple[int, int], size: int, window: int, stride: int, low: int, high: int, dilation: int) -> _Met | None:
    """``None`` where all of the dim is taken: no positions, or none that meets an element."""
    first, last = positions[0] * stride - low, (positions[1] - 1) * stride - low + dilation * (window - 1) + 1
    found = _Met(max(first, 0), min(last, size), max(-first, 0), max(last - size, 0))
    return found if positions[1] > positions[0] and found.hi > found.lo else None


def _met_going_back(positions: tuple[int, int], size: int, window: int, stride: int, low: int, high: int, dilation: int
                    ) -> _Met | None:  # fmt: skip
    """The same for a transposed convolution: element i adds to positions i * stride - low and on, a window far."""
    reach = dilation * (window - 1) + 1
    # No fewer elements than reach the first and the last position, lest positions be left over.
    lo = max(0, min(-(-(positions[0] + low - reach + 1) // stride), (positions[0] + low) // stride))
    hi = min(size, max(-(-(positions[1] + low - reach) // stride), (positions[1] - 1 + low) // stride) + 1)
    found = _Met(lo, hi, positions[0] + low - lo * stride, (hi - 1) * stride + reach - low - positions[1])
    return found if positions[1] > positions[0] and hi > lo else None


def _met_by_convolution(op: t.Convolve, box: Box) -> list[_Met | None]:
    met = _met_going_back if op.transposed else _met
    return [met(box[1 + i], _shape(op.x)[1 + i], _shape(op.w)[i], op.strides[i], op.low[i], op.high[i], op.dilation[i])
            for i in range(len(box) - 2)]  # fmt: skip


def _convolve(op: t.Convolve, box: Box) -> Demand:
    met = _met_by_convolution(op, box)
    own = list(_widened(op, box, [1 + i for i, m in enumerate(met) if m is None]))
    x, w = list(_full(op.x)), list(_full(op.w))
    x[0] = own[0]
    x[1:-1] = [have if m is None else (m.lo, m.hi) for have, m in zip(x[1:-1], met, strict=True)]
    if op.groups == 1:
        w[-1] = own[-1]
    else:
        own[-1] = (0, _shape(op)[-1])
    return tuple(own), [tuple(x), tuple(w)]


def _met_by_windows(op: t.Windows, box: Box) -> list[_Met | None]:
    low, high = op.low or (0,) * len(op.dims), op.high or (0,) * len(op.dims)
    entries = zip(op.dims, op.window, op.strides, low, high, op.dilation, strict=True)
    return [_met(box[d], _shape(op.x)[d], *rest) for d, *rest in entries]


def _windows(op: t.Windows, box: Box) -> Demand:
    """Some positions, each with its whole window."""
    met = _met_by_windows(op, box)
    rank = len(_shape(op.x))
    whole = [*(d for d, m in zip(op.dims, met, strict=True) if m is None), *range(rank, len(box))]
    own = _widened(op, box, whole)
    x = list(own[:rank])
    for d, m in zip(op.dims, met, strict=True):
        x[d] = (0, _shape(op.x)[d]) if m is None else (m.lo, m.hi)
    return own, [tuple(x)]


def _ends(met: Sequence[_Met | None], low: Sequence[int], high: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """How far windows reach beyond what is left of their dims."""
    return {"low": tuple(a if m is None else m.low for m, a in zip(met, low, strict=True)),
            "high": tuple(b if m is None else m.high for m, b in zip(met, high, strict=True))}  # fmt: skip


def _gather(op: t.Gather, box: Box) -> Demand:
    if op.zipped:
        return box, [_widened(op.x, box, [op.axis]), box]
    rank = len(_shape(op.indices))
    x = (*box[: op.axis], (0, _shape(op.x)[op.axis]), *box[op.axis + rank :])
    return box, [x, box[op.axis : op.axis + rank]]


def _iota(op: t.Iota, box: Box) -> Demand:
    return box, []


DEMANDS: dict[type[Op], Callable[[Any, Box], Demand]] = {
    t.Map: _map, t.Convert: _same, t.BitConvert: _same, t.Expand: _expand, t.Reshape: _reshape, t.Transpose: _transpose,
    t.Slice: _slice, t.PadWith: _pad, t.Concat: _concat, t.Flip: _flip, t.Fold: _fold, t.ArgFold: _arg_fold,
    t.SegmentFold: _segment_fold, t.Cumulate: _along, t.AssociativeScan: _associative_scan, t.Recur: _recur, t.Sort: _along,
    t.Contract: _contract, t.SegmentContract: _segment_contract, t.Convolve: _convolve, t.Windows: _windows, t.Gather: _gather,
    t.Iota: _iota, Result: _result,
}  # fmt: skip

# ---- the smaller program -------------------------------------------------------------------------------------------------


def _rebuilt(op: Op, needed: Mapping[Op, Box], small: Mapping[Op, Op], body: list[Op]) -> Op:
    """``op`` for its box, on the parts of its operands that it needs."""
    own = needed[op]
    _, wanted = demand(op, own)
    operands = iter([_part(small[o], needed[o], box, body) for o, box in zip(op.operands, wanted, strict=True)])
    new = {}
    for name, role in op.roles.items():
        if role == "operands":
            new[name] = tuple(next(operands) for _ in getattr(op, name))
        elif role == "operand" or (role == "optional" and getattr(op, name) is not None):
            new[name] = next(operands)
    match op:
        case t.Iota():
            return _iota_part(op, own, body)
        case t.Expand() | t.Reshape():
            new["shape"] = sizes(own)
        case t.Convolve():
            new |= _ends(_met_by_convolution(op, own), op.low, op.high)
        case t.Windows() if op.low:
            new |= _ends(_met_by_windows(op, own), op.low, op.high)
        case t.Slice():
            new["starts"] = (0,) * len(own)
            new["stops"] = tuple((hi - lo - 1) * n + 1 if hi > lo else 0 for (lo, hi), n in zip(own, op.steps, strict=True))
    return replace(op, **new) if new else op


def _iota_part(op: t.Iota, box: Box, body: list[Op]) -> Op:
    made = replace(op, shape=sizes(box))
    first = box[op.axis][0]
    if not first:
        return made
    offset = t.Literal(first, op.dtype)
    body += [made, offset]
    return t.Map("add", (made, offset))


def _part(op: Op, have: Box, want: Box, body: list[Op]) -> Op:
    """The part ``want`` of a value that is there for ``have``."""
    if have == want or isinstance(op.type, ManyType):
        return op
    starts = tuple(a - b for (a, _), (b, _) in zip(want, have, strict=True))
    stops = tuple(a - b for (_, a), (b, _) in zip(want, have, strict=True))
    made = t.Slice(op, starts, stops, (1,) * len(want))
    body.append(made)
    return made


__all__ = ["Box", "Restricted", "cut", "restrict"]
