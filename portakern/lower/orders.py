"""Sorts, scatters and random bits in terms of what every language has: comparisons, selections and reductions.

A sort ranks every element by how many come before it, and a scatter asks for every element of its result which updates are its
own.  Nothing is exchanged between threads and no order of memory matters, so results are the same bits on every target and in
every run; the price is work that grows with the square of a line.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir.core import Op, Result
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.ir.tensor import (
    Convert,
    DimSize,
    Expand,
    Fold,
    Iota,
    Literal,
    Map,
    PadWith,
    RandomBits,
    Scatter,
    Sort,
    Transpose,
    tensor_type,
)  # fmt: skip
from portakern.ir.tile import identity

rules = Rules()

Shape = tuple[Size, ...]


def _last(x: Op, axis: int) -> Op:
    """``x`` with ``axis`` moved last."""
    rank = tensor_type(x).rank
    return Transpose(x, (*(d for d in range(rank) if d != axis), axis))


def _back(x: Op, axis: int) -> Op:
    """``x`` with its last dim moved to ``axis``."""
    rank = tensor_type(x).rank
    return Transpose(x, (*range(axis), rank - 1, *range(axis, rank - 1)))


def _compared(x: Op) -> Op:
    """``x`` in a dtype that has an order and whose lowest value is below all others."""
    dtype = tensor_type(x).dtype
    if DTYPES[dtype].is_float:
        return x if DTYPES[dtype].bits >= 32 else Convert(x, "f32")
    return Convert(x, "i64" if DTYPES[dtype].bits >= 32 and dtype != "i32" else "i32")


# ---- sorting -------------------------------------------------------------------------------------------------------------


@rules.on(Result)
def sorted_by_rank(op: Result) -> Op | None:
    sort = op.source
    if not isinstance(sort, Sort):
        return None
    wanted = tensor_type(op)
    if 0 in wanted.shape:
        return Expand(Literal(0 if op.index else _lowest(wanted.dtype), wanted.dtype), wanted.shape, ())
    line = _last(sort.x, sort.axis)
    lead, size = tensor_type(line).shape[:-1], tensor_type(line).shape[-1]
    rank = _rank(_compared(line), sort.descending, op)
    count = sort.count or size
    shape = (*lead, count, size)
    n = len(lead)
    hit = Map("eq", (Expand(rank, shape, (*range(n), n + 1)), Iota(shape, n)), loc=op.loc)
    if op.index:
        picked: Op = Iota(shape, n + 1)
    else:
        picked = Expand(_compared(line), shape, (*range(n), n + 1))
    dtype = tensor_type(picked).dtype
    found = Fold("max", Map("select", (hit, picked, Literal(_lowest(dtype), dtype)), loc=op.loc), (n + 1,), loc=op.loc)
    return _back(Convert(found, wanted.dtype), sort.axis)


def _lowest(dtype: str) -> float | int | bool:
    return False if dtype == "bool" else identity("max", dtype)


def _rank(x: Op, descending: bool, like: Op) -> Op:
    """How many elements of its line come before each element of ``x``: smaller ones (NaN is the largest), of equal ones those
    before it."""
    *lead, size = tensor_type(x).shape
    n = len(lead)
    shape = (*lead, size, size)

    def ordered(of: Op) -> tuple[Op, Op]:
        """``of`` of the element that comes first and of the one that comes after it, where these are a pair."""
        mine, other = Expand(of, shape, tuple(range(n + 1))), Expand(of, shape, (*range(n), n + 1))
        return (mine, other) if descending else (other, mine)

    small, large = ordered(x)
    less = Map("lt", (small, large), loc=like.loc)
    equal = Map("eq", (small, large), loc=like.loc)
    if DTYPES[tensor_type(x).dtype].is_float:
        nan_small, nan_large = ordered(Map("isnan", (x,)))
        less = Map("or", (less, Map("and", (nan_large, Map("not", (nan_small,))))))
        equal = Map("or", (equal, Map("and", (nan_small, nan_large))))
    earlier = Map("lt", (Iota(shape, n + 1), Iota(shape, n)))
    before = Map("or", (less, Map("and", (equal, earlier))), loc=like.loc)
    ones = Map("select", (before, Literal(1, "i32"), Literal(0, "i32")))
    return Fold("sum", ones, (n + 1,), loc=like.loc)


# ---- scattering ----------------------------------------------------------------------------------------------------------


@rules.on(Scatter)
def gathered_by_owner(op: Scatter) -> Op | None:
    """Every element of the result takes what is meant for it."""
    x, indices, updates = (_last(o, op.axis) for o in _as_large(op))
    t, count = tensor_type(x), tensor_type(indices).shape[-1]
    if 0 in (*t.shape, count):
        return op.x
    n = t.rank - 1
    shape = (*t.shape, count)
    places = (*range(n), n + 1)
    index = Expand(_compared(indices), shape, places)
    hit = Map("eq", (index, Iota(shape, n, tensor_type(index).dtype)), loc=op.loc)
    if op.mode == "set":
        last = Fold("max", Map("select", (hit, Iota(shape, n + 1), Literal(-1, "i32")), loc=op.loc), (n + 1,), loc=op.loc)
        given = _compared(updates)
        lowest = Literal(_lowest(tensor_type(given).dtype), tensor_type(given).dtype)
        own = Map("eq", (Iota(shape, n + 1), Expand(last, shape, tuple(range(n + 1)))))
        value = Fold("max", Map("select", (own, Expand(given, shape, places), lowest)), (n + 1,), loc=op.loc)
        chosen = Map("select", (Map("ge", (last, Literal(0, "i32"))), Convert(value, t.dtype), x), loc=op.loc)
        return _back(chosen, op.axis)
    fn = {"add": "sum", "max": "max", "min": "min"}[op.mode]
    wide = t.dtype if DTYPES[t.dtype].bits >= 32 else "f32" if DTYPES[t.dtype].is_float else "i32"
    nothing = Literal(identity(fn, wide), wide)
    mine = Map("select", (hit, Expand(Convert(updates, wide), shape, places), nothing), loc=op.loc)
    both = Map(op.mode, (Convert(x, wide), Fold(fn, mine, (n + 1,), loc=op.loc)), loc=op.loc)
    return _back(Convert(both, t.dtype), op.axis)


def _as_large(op: Scatter) -> tuple[Op, Op, Op]:
    """The operands, with updates that go nowhere where there are none for lines of ``x``."""
    wanted, have = tensor_type(op.x).shape, tensor_type(op.indices).shape
    more = tuple(0 if d == op.axis else a - b for d, (a, b) in enumerate(zip(wanted, have, strict=True)))
    if not any(m != 0 for m in more):
        return op.x, op.indices, op.updates
    op.check(all(isinstance(m, int) and m >= 0 for m in more), f"updates of {have} do not go into {wanted}")
    none = tuple(0 for _ in more)
    high = tuple(int(m) for m in more)  # type: ignore[arg-type]
    zero = 0.0 if DTYPES[tensor_type(op.updates).dtype].is_float else 0
    return op.x, PadWith(op.indices, none, high, -1), PadWith(op.updates, none, high, zero)


# ---- random bits ---------------------------------------------------------------------------------------------------------

_LOW = 0xFFFFFFFF
MULTIPLIERS, WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
"""Constants of Philox 4x32 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011)."""


@rules.on(RandomBits)
def philox(op: RandomBits) -> Op | None:
    """Ten rounds of Philox 4x32 on 64-bit integers, for each element by itself: its number counts, the seed is the key."""
    if 0 in op.shape:
        return Expand(Literal(0, "u32"), op.shape, ())
    number = _number(op.shape)
    counter = _bits("shr", number, 2)
    seed = Convert(op.seed, "i64")
    keys = [_bits("and", seed, _LOW), _bits("and", _bits("shr", seed, 32), _LOW)]
    words: list[Op] = [_bits("and", counter, _LOW), _bits("shr", counter, 32), _whole(0), _whole(0)]
    for _ in range(10):
        (high0, low0), (high1, low1) = (_product(w, m) for w, m in zip((words[0], words[2]), MULTIPLIERS, strict=True))
        words = [_xor(_xor(high1, words[1]), keys[0]), low1, _xor(_xor(high0, words[3]), keys[1]), low0]
        keys = [_bits("and", Map("add", (k, _whole(w))), _LOW) for k, w in zip(keys, WEYL, strict=True)]
    lane = _bits("and", number, 3)
    chosen = words[3]
    for which in (2, 1, 0):
        chosen = Map("select", (Map("eq", (lane, _whole(which))), words[which], chosen))
    return Convert(chosen if tensor_type(chosen).shape else Expand(chosen, op.shape, ()), "u32", loc=op.loc)


@rules.on(Convert)
def through_32_bits(op: Convert) -> Op | None:
    """The lower half of an i64, said without u32, which not every language has."""
    half = op.x
    if op.dtype != "i64" or not isinstance(half, Convert) or half.dtype != "u32" or tensor_type(half.x).dtype != "i64":
        return None
    return _bits("and", half.x, _LOW)


def _number(shape: Shape) -> Op:
    """The row-major number of every element."""
    total: Op | None = None
    step: Size = 1
    for d in reversed(range(len(shape))):
        along = Iota(shape, d, "i64")
        part = along if step == 1 else Map("mul", (along, DimSize(step, "i64")))
        total = part if total is None else Map("add", (total, part))
        step = step * shape[d]
    return _whole(0) if total is None else total


def _whole(value: int) -> Literal:
    return Literal(value, "i64")


def _bits(fn: str, x: Op, value: int) -> Op:
    return Map(fn, (x, _whole(value)))


def _xor(a: Op, b: Op) -> Op:
    return Map("xor", (a, b))


def _product(x: Op, factor: int) -> tuple[Op, Op]:
    """High and low half of the product of two 32-bit numbers: no partial product has more than 49 bits."""
    upper, lower = _bits("mul", x, factor >> 16), _bits("mul", x, factor & 0xFFFF)
    high = _bits("shr", Map("add", (upper, _bits("shr", lower, 16))), 16)
    low = _bits("and", Map("add", (_bits("shl", _bits("and", upper, 0xFFFF), 16), lower)), _LOW)
    return high, low
