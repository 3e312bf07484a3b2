"""Random bits on devices that have no 64-bit integers: Philox on 32 bits that wrap round.

An unsigned number is kept as the i32 of the same bits, of which products, sums and the lower half wrap as the unsigned one's
do.  What the functions of :mod:`portakern.spec.random` do with the bits, which they take to i64 first, is said of the i32:
their upper bits as a number, and whether they are below a limit.
"""

from __future__ import annotations

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.size import Size, product
from portakern.ir.tensor import Convert, DimSize, Expand, Iota, Literal, Map, RandomBits, TensorProgram, tensor_type
from portakern.lower import saturation, small_integers
from portakern.lower.random_bits import MULTIPLIERS, WEYL

rules = Rules()

SIGN = 2**31


def without_wide_integers(program: TensorProgram) -> TensorProgram:
    """``program`` with what is known here of u32 and i64 said in i32; anything else stays as it is."""
    return canonicalise(saturation.limited(program), rules + small_integers.rules)


# ---- random bits ---------------------------------------------------------------------------------------------------------


@rules.on(RandomBits)
def philox(op: RandomBits) -> Op | None:
    """Ten rounds of Philox 4x32, as :func:`portakern.lower.random_bits.philox`."""
    count = product(op.shape)
    if 0 in op.shape or (isinstance(count, int) and count >= SIGN):
        return None
    number = _number(op.shape)
    keys = _key(op.seed)
    words: list[Op] = [_map("shr", number, 2), _whole(0), _whole(0), _whole(0)]
    for turn in range(10):
        (high0, low0), (high1, low1) = (_product(w, m) for w, m in zip((words[0], words[2]), MULTIPLIERS, strict=True))
        words = [_map("xor", _map("xor", high1, words[1]), keys[0]), low1,
                 _map("xor", _map("xor", high0, words[3]), keys[1]), low0]  # fmt: skip
        keys = [_map("add", k, w) for k, w in zip(keys, WEYL, strict=True)] if turn < 9 else keys
    lane = _map("and", number, 3)
    chosen = words[3]
    for which in (2, 1, 0):
        chosen = Map("select", (_map("eq", lane, which), words[which], chosen))
    return Convert(chosen if tensor_type(chosen).shape else Expand(chosen, op.shape, ()), "u32", loc=op.loc)


def _key(seed: Op) -> list[Op]:
    """The lower and the upper 32 bits of the seed."""
    if isinstance(seed, Literal):
        return [_whole(int(seed.value)), _whole(int(seed.value) >> 32)]
    if isinstance(seed, Convert) and tensor_type(seed.x).dtype == "i32":
        return [seed.x, _map("shr", seed.x, 31)]
    if isinstance(seed, Map) and seed.fn == "add":
        return _sum(*map(_key, seed.args))
    return [Convert(seed, "i32"), Convert(Map("shr", (seed, Literal(32, "i64"))), "i32")]


def _sum(one: list[Op], other: list[Op]) -> list[Op]:
    """The words of a sum, from those of its terms: a lower word that is less than a term's has wrapped round."""
    high = Map("add", (one[1], other[1]))
    if any(isinstance(low, Literal) and low.value == 0 for low in (one[0], other[0])):
        return [other[0] if isinstance(one[0], Literal) and one[0].value == 0 else one[0], high]
    low = Map("add", (one[0], other[0]))
    carry = Map("lt", (_map("xor", low, SIGN), _map("xor", one[0], SIGN)))
    return [low, Map("add", (high, Map("select", (carry, _whole(1), _whole(0)))))]


def _number(shape: tuple[Size, ...]) -> Op:
    """The row-major number of every element."""
    total: Op | None = None
    step: Size = 1
    for d in reversed(range(len(shape))):
        along: Op = Iota(shape, d)
        part = along if step == 1 else Map("mul", (along, DimSize(step, "i32")))
        total = part if total is None else Map("add", (total, part))
        step = step * shape[d]
    return _whole(0) if total is None else total


def _product(x: Op, factor: int) -> tuple[Op, Op]:
    """The upper and the lower 32 bits of the unsigned product."""
    upper, lower = _half(x, 16), _half(x, 0)
    outer, inner = _map("mul", upper, factor & 0xFFFF), _map("mul", lower, factor >> 16)
    middle = Map("add", (Map("add", (_half(_map("mul", lower, factor & 0xFFFF), 16), _half(outer, 0))), _half(inner, 0)))
    high = Map("add", (_map("mul", upper, factor >> 16), Map("add", (_half(outer, 16), _half(inner, 16)))))
    return Map("add", (high, _map("shr", middle, 16))), _map("mul", x, factor)


def _half(x: Op, by: int) -> Op:
    """16 bits of ``x`` as a number."""
    return _map("and", _map("shr", x, by) if by else x, 0xFFFF)


def _map(fn: str, x: Op, y: Op | int) -> Op:
    return Map(fn, (x, y if isinstance(y, Op) else _whole(y)))


def _whole(value: int) -> Literal:
    """The i32 of the bits of ``value``."""
    return Literal((value + SIGN) % (2 * SIGN) - SIGN, "i32")


# ---- what is done with them -----------------------------------------------------------------------------------------------


def _unsigned(op: Op) -> Op | None:
    """The i32 whose bits ``op``, an i64, is the unsigned number of."""
    if isinstance(op, Convert) and op.dtype == "i64" and isinstance(op.x, Convert) and op.x.dtype == "u32":
        return op.x.x if tensor_type(op.x.x).dtype == "i32" else None
    return None


@rules.on(Map)
def upper_bits(op: Map) -> Op | None:
    if op.fn != "shr" or (bits := _unsigned(op.args[0])) is None:
        return None
    by = op.args[1]
    if not isinstance(by, Literal) or not 0 < by.value < 32:
        return None
    by = int(by.value)
    return Convert(_map("and", _map("shr", bits, by), 2 ** (32 - by) - 1), "i64", loc=op.loc)


@rules.on(Convert)
def of_what_has_32_bits(op: Convert) -> Op | None:
    inner = op.x
    if isinstance(inner, Convert) and inner.dtype == "i64" and tensor_type(inner.x).dtype == "i32" and op.dtype == "f32":
        return Convert(inner.x, op.dtype, loc=op.loc)
    return None


@rules.on(Map)
def below_a_limit(op: Map) -> Op | None:
    """Numbers whose upper bit is turned are in the order of the unsigned ones."""
    if op.fn != "lt" or (bits := _unsigned(op.args[0])) is None or not isinstance(op.args[1], Literal):
        return None
    limit = int(op.args[1].value)
    if not 0 < limit < 2 * SIGN:
        return Expand(Literal(limit > 0, "bool"), tensor_type(op).shape, ())
    return Map("lt", (_map("xor", bits, SIGN), Literal(limit - SIGN, "i32")), loc=op.loc)
