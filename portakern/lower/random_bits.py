"""Random bits in terms of what every language has: Philox on 64-bit integers, for each element by itself."""

from __future__ import annotations

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.ir.tensor import Convert, DimSize, Expand, Iota, Literal, Map, RandomBits, tensor_type

rules = Rules()

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


def _number(shape: tuple[Size, ...]) -> Op:
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
