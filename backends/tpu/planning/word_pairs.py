"""64-bit integers on hardware that has none, of which all bits matter: each array of them is two arrays of i32, its words.

Kernels compute with pairs of words: bits and shifts word by word, sums with a carry, comparisons by the upper words first.  The
host takes arrays apart and puts results together.  Nothing here moves data, so what sorts, sums or multiplies has no pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program
from portakern.ir.rewrite import canonicalise
from portakern.ir.tile import (
    Binary,
    Broadcast,
    Cast,
    Compare,
    Const,
    Coord,
    Extent,
    Kernel,
    Load,
    Mask,
    Permute,
    Select,
    Start,
    Store,
    TileType,
    Unary,
    tile_type,
)

from .words import Words

Pair = tuple[Op, Op]
"""The lower and the upper word."""

SIGN = 2**31

_NARROW = ("i32", "i16", "i8", "u8", "bool")


class _NoPair(Exception):
    """An operation that has no form in words."""


def in_pairs(program: Program, taken: set[str]) -> tuple[Program, Mapping[str, Words]] | None:
    """``program`` with two arrays of i32 for each one of i64, and what they are called; ``None`` where something of i64 is
    computed that has no form in words."""
    if program.repeats:
        return None
    words: dict[str, Words] = {}
    for a in program.arrays:
        if a.dtype == "i64":
            low, high = _free(f"{a.name}_low", taken), _free(f"{a.name}_high", taken)
            taken |= {low, high}
            words[a.name] = low, high
    try:
        kernels = tuple(_of_pairs(k, words) for k in program.kernels)
    except _NoPair:
        return None
    arrays = tuple(b for a in program.arrays for b in (_apart(a, words[a.name]) if a.name in words else (a,)))
    return replace(program, arrays=arrays, kernels=kernels), words


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _apart(array: Array, names: Words) -> tuple[Array, Array]:
    low, high = (None, None) if array.init is None else _halves(int(array.init))
    kind = replace(array.type, dtype="i32")
    return replace(array, name=names[0], type=kind, init=low), replace(array, name=names[1], type=kind, init=high)


def _halves(value: int) -> tuple[int, int]:
    """Both words of a number, as signed ones."""
    return (value + SIGN) % (2 * SIGN) - SIGN, ((value >> 32) + SIGN) % (2 * SIGN) - SIGN


def _of_pairs(kernel: Kernel, words: Mapping[str, Words]) -> Kernel:
    pairs: dict[Op, Pair] = {}
    env: dict[Op, Op] = {}
    args: list[Op] = []
    for arg in kernel.args:
        if arg.name in words:
            kind = replace(arg.of, dtype="i32")  # type: ignore[type-var]
            pairs[arg] = Arg(words[arg.name][0], kind), Arg(words[arg.name][1], kind)
            args += pairs[arg]
        else:
            args.append(arg)
    if not pairs and not any(_wide(op) for op in kernel.body.walk()):
        return kernel

    def block(old: Block) -> Block:
        ops: list[Op] = []
        for op in old.ops:
            if _wide(op):
                pairs[op] = _pair(op, pairs, env)
                ops += pairs[op]
            elif isinstance(op, Store) and op.value in pairs:
                for value, buffer in zip(pairs[op.value], pairs[op.buffer], strict=True):
                    if op.mode != "set":
                        raise _NoPair
                    ops.append(replace(op, value=value, buffer=buffer))
            elif any(o in pairs for o in op.operands):
                env[op] = _narrowed(op, pairs)
                ops.append(env[op])
            elif op.regions and any(_wide(a) for r in op.regions for a in r.args):
                raise _NoPair
            else:
                env[op] = op.remap(lambda o: env.get(o, o), block)
                ops.append(env[op])
        return Block(old.args, tuple(ops))

    # What was made on the way to an operation is listed by the rewriter, in front of what takes it.
    return canonicalise(replace(kernel, body=block(Block(tuple(args), kernel.body.ops))))


def _wide(op: Op) -> bool:
    return isinstance(op.type, TileType) and op.type.dtype == "i64"


def _pair(op: Op, pairs: Mapping[Op, Pair], env: Mapping[Op, Op]) -> Pair:
    """Both words of ``op``, an i64."""

    def each(make: Callable[..., Op], *xs: Op) -> Pair:
        low, high = (make(*(pairs[x][n] for x in xs)) for n in range(2))
        return low, high

    match op:
        case Const(value=value):
            low, high = _halves(int(value))
            return Const(low, "i32"), Const(high, "i32")
        case Coord() | Extent() | Start():
            low = replace(op, dtype="i32")
            return low, _extended(low)
        case Cast(x=x) if tile_type(x).dtype in _NARROW:
            low = env.get(x, x)
            low = low if tile_type(low).dtype == "i32" else Cast(low, "i32", loc=op.loc)
            return low, _extended(low)
        case Load(buffer=buffer, pad=pad, gathers=gathers) if not any(g in pairs for g in gathers):
            found = tuple(env.get(g, g) for g in gathers)
            pads = (None, None) if pad is None else _halves(int(pad))
            low, high = (replace(op, buffer=b, pad=p, gathers=found) for b, p in zip(pairs[buffer], pads, strict=True))
            return low, high
        case Broadcast(x=x) | Permute(x=x):
            return each(lambda x: replace(op, x=x), x)
        case Mask(x=x, value=value):
            low, high = _halves(int(value))
            return replace(op, x=pairs[x][0], value=low), replace(op, x=pairs[x][1], value=high)
        case Select(condition=condition, yes=yes, no=no):
            return each(lambda a, b: Select(env.get(condition, condition), a, b, loc=op.loc), yes, no)
        case Unary(fn="not", x=x):
            return each(lambda x: Unary("not", x, loc=op.loc), x)
        case Unary(fn="neg", x=x):
            return _difference((Const(0, "i32"), Const(0, "i32")), pairs[x])
        case Binary(fn="and" | "or" | "xor", lhs=lhs, rhs=rhs):
            return each(lambda a, b: _bitwise(op.fn, a, b), lhs, rhs)
        case Binary(fn="add", lhs=lhs, rhs=rhs):
            return _sum(pairs[lhs], pairs[rhs])
        case Binary(fn="sub", lhs=lhs, rhs=rhs):
            return _difference(pairs[lhs], pairs[rhs])
        case Binary(fn="max" | "min", lhs=lhs, rhs=rhs):
            other = _less(pairs[lhs], pairs[rhs]) if op.fn == "max" else _less(pairs[rhs], pairs[lhs])
            return each(lambda x, y: Select(other, y, x, loc=op.loc), lhs, rhs)
        case Binary(fn="shl" | "shr", lhs=lhs, rhs=rhs) if (by := _number(rhs)) is not None and 0 <= by < 64:
            return _shifted(pairs[lhs], by) if op.fn == "shl" else _shifted_down(pairs[lhs], by)
    raise _NoPair


def _narrowed(op: Op, pairs: Mapping[Op, Pair]) -> Op:
    """``op``, which is no i64, of words."""
    match op:
        case Cast(x=x, dtype="bool"):
            return Compare("ne", Binary("or", *pairs[x]), Const(0, "i32"))
        case Cast(x=x, dtype="i32" | "i16" | "i8" | "u8" as dtype):
            return pairs[x][0] if dtype == "i32" else Cast(pairs[x][0], dtype, loc=op.loc)
        case Compare(fn=fn, lhs=lhs, rhs=rhs):
            a, b = pairs[lhs], pairs[rhs]
            if fn in ("eq", "ne"):
                low, high = (Compare(fn, x, y, loc=op.loc) for x, y in zip(a, b, strict=True))
                return Binary("and" if fn == "eq" else "or", low, high)
            less = _less(a, b) if fn in ("lt", "ge") else _less(b, a)
            return less if fn in ("lt", "gt") else Unary("not", less)
    raise _NoPair


def _bitwise(fn: str, a: Op, b: Op) -> Op:
    """``fn`` of two words; small numbers have upper words that change nothing."""
    a, b = (b, a) if isinstance(a, Const) else (a, b)
    nothing = {"and": -1, "or": 0, "xor": 0}[fn]
    return a if isinstance(b, Const) and b.value == nothing else Binary(fn, a, b)


def _number(op: Op) -> int | None:
    if isinstance(op, Broadcast):
        return _number(op.x)
    return int(op.value) if isinstance(op, Const) else None


def _extended(low: Op) -> Op:
    """The upper word of a number of 32 bits."""
    return Binary("shr", low, Const(31, "i32"))


def _below(a: Op, b: Op) -> Op:
    """Whether ``a`` is below ``b`` as numbers without a sign: with the upper bit turned they are in the same order."""
    return Compare("lt", _turned(a), _turned(b))


def _turned(x: Op) -> Op:
    if isinstance(x, Const):
        return Const(_halves(int(x.value) ^ -SIGN)[0], "i32")
    return Binary("xor", x, Const(-SIGN, "i32"))


def _less(a: Pair, b: Pair) -> Op:
    return Binary("or", Compare("lt", a[1], b[1]), Binary("and", Compare("eq", a[1], b[1]), _below(a[0], b[0])))


def _one_if(condition: Op) -> Op:
    return Select(condition, Const(1, "i32"), Const(0, "i32"))


def _sum(a: Pair, b: Pair) -> Pair:
    low = Binary("add", a[0], b[0])
    return low, Binary("add", Binary("add", a[1], b[1]), _one_if(_below(low, a[0])))


def _difference(a: Pair, b: Pair) -> Pair:
    return Binary("sub", a[0], b[0]), Binary("sub", Binary("sub", a[1], b[1]), _one_if(_below(a[0], b[0])))


def _shifted(x: Pair, by: int) -> Pair:
    if not by:
        return x
    if by >= 32:
        return Binary("and", x[0], Const(0, "i32")), _moved("shl", x[0], by - 32)
    return _moved("shl", x[0], by), Binary("or", _moved("shl", x[1], by), _upper(x[0], by))


def _shifted_down(x: Pair, by: int) -> Pair:
    if not by:
        return x
    sign = _extended(x[1])
    if by >= 32:
        return _moved("shr", x[1], by - 32), sign
    inside = Binary("and", _moved("shr", x[0], by), Const(2 ** (32 - by) - 1, "i32"))
    return Binary("or", inside, _moved("shl", x[1], 32 - by)), _moved("shr", x[1], by)


def _upper(x: Op, by: int) -> Op:
    """The upper ``by`` bits of ``x`` as a number."""
    return Binary("and", _moved("shr", x, 32 - by), Const(2**by - 1, "i32"))


def _moved(fn: str, x: Op, by: int) -> Op:
    return Binary(fn, x, Const(by, "i32")) if by else x


__all__ = ["in_pairs"]
