"""64-bit integers on hardware that has none: arrays of them are arrays of i32 in kernels.

An i64 input is taken as a saturated i32: what lies outside of 32 bits is moved to the nearest number inside.  That gives the
same results where such numbers are limited, compared with others, or used as coordinates.  An i64 output is stored as the i32
that it was widened from.  An i64 scalar of which kernels take its two words alone (a seed) is two scalars of i32.  Where more
than 32 bits matter, all arrays are pairs of words (:mod:`.word_pairs`); where that cannot be said either, nothing is narrowed
and the emitter reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program
from portakern.ir.tile import (
    Binary,
    Broadcast,
    BufferType,
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
    buffer_type,
    tile_type,
)

from .word_pairs import in_pairs
from .words import Words, in_words

LIMIT = 2**31 - 1

Range = tuple[int, int]
WHOLE: Range = (-LIMIT - 1, LIMIT)


@dataclass(frozen=True)
class _Ends:
    """Whether numbers at either end of 32 bits are what they say, and not others beyond it."""

    low: bool
    high: bool

    def both(self, other: _Ends) -> _Ends:
        return _Ends(self.low and other.low, self.high and other.high)


EXACT, SATURATED = _Ends(True, True), _Ends(False, False)


@dataclass(frozen=True)
class Narrowed:
    """``program`` with i32 in the place of i64.  ``limits`` are the inputs that are i64 outside of it, with the range that they
    are to be limited to, ``widened`` such outputs, ``words`` such scalars and inputs, with the names of their lower and upper
    words, and ``joined`` such outputs that are put together of words."""

    program: Program
    limits: Mapping[str, Range]
    widened: frozenset[str]
    words: Mapping[str, Words]
    joined: Mapping[str, Words] = field(default_factory=dict)


def narrowed(program: Program) -> Narrowed:
    """``program`` without i64; as it is where more than 32 bits may be needed."""
    program, words = in_words(program)
    wide = [a for a in program.arrays if a.dtype == "i64"]
    inputs = frozenset(a.name for a in wide if a.role == "input")
    holds = all(isinstance(a.type, BufferType) and _holds(a.init) for a in wide)
    if not holds or not all(_fits(k, inputs) for k in program.kernels):
        return _by_pairs(program, words)
    limits = {name: _limits(program, name) for name in inputs}
    small = replace(program, arrays=tuple(_array(a) if a in wide else a for a in program.arrays),
                    kernels=tuple(_kernel(k, limits) for k in program.kernels))  # fmt: skip
    return Narrowed(small, limits, frozenset(a.name for a in wide if a.role == "output"), words)


def _by_pairs(program: Program, words: Mapping[str, Words]) -> Narrowed:
    """``program`` in pairs of words where it has such a form."""
    taken = {*program.sizes, *(a.name for a in program.arrays)}
    if (found := in_pairs(program, taken)) is None:
        return Narrowed(program, {}, frozenset(), words)
    made, pairs = found
    roles = {a.name: a.role for a in program.arrays}
    given = {name: both for name, both in pairs.items() if roles[name] in ("input", "scalar")}
    joined = {name: both for name, both in pairs.items() if roles[name] == "output"}
    return Narrowed(made, {}, frozenset(), {**words, **given}, joined)


def _holds(value: float | None) -> bool:
    """Whether a number is one of 32 bits."""
    return value is None or -LIMIT - 1 <= value <= LIMIT


def _fits(kernel: Kernel, inputs: frozenset[str]) -> bool:
    """Whether ``kernel``, whose arguments ``inputs`` are saturated, computes the same in 32 bits."""
    ends: dict[Op, _Ends | None] = {}
    for op in kernel.body.walk():
        if _wide(op):
            ends[op] = _ends(op, ends, inputs)
            if ends[op] is None:
                return False
        elif not _takes(op, ends):
            return False
    return True


def _wide(op: Op) -> bool:
    return isinstance(op.type, TileType) and op.type.dtype == "i64"


def _ends(op: Op, ends: dict[Op, _Ends | None], inputs: frozenset[str]) -> _Ends | None:
    """What the ends of ``op`` are once it is i32; ``None`` where it may be another number in between."""
    known = [ends.get(o) for o in op.operands if _wide(o)]
    if any(e is None for e in known):
        return None
    parts = [e for e in known if e is not None]
    match op:
        case Cast(x=x):
            return EXACT if isinstance(x.type, TileType) and x.type.dtype in ("i32", "i16", "i8", "u8", "bool") else None
        case Const(value=value):
            return EXACT if _holds(value) else None
        case Coord() | Extent() | Start():
            return EXACT if _in_range(op) else None
        case Load(buffer=Arg(name=name), pad=pad) if _holds(pad) and (not parts or _coordinates(op)):
            return SATURATED if name in inputs else EXACT
        case Mask(value=value):
            return parts[0] if _holds(value) else None
        case Broadcast() | Permute():
            return parts[0]
        case Select():
            return parts[0].both(parts[1])
        case Binary(fn="max"):
            return _Ends(parts[0].low or parts[1].low, parts[0].high and parts[1].high)
        case Binary(fn="min"):
            return _Ends(parts[0].low and parts[1].low, parts[0].high or parts[1].high)
    return None


def _takes(op: Op, ends: dict[Op, _Ends | None]) -> bool:
    """Whether ``op``, which is no i64, gives the same of i32."""
    used = [ends.get(o) for o in op.operands if _wide(o)]
    if not used:
        return True
    exact = all(e == EXACT for e in used)
    match op:
        case Compare():
            return exact or _in_range(op.lhs) or _in_range(op.rhs)
        case Load():
            return _coordinates(op)
        case Store():
            return exact and buffer_type(op.buffer).dtype == "i64" and op.mode != "add"
        case Cast():
            return exact
    return False


def _coordinates(op: Load) -> bool:
    """Whether a saturated coordinate is outside of the array: none on a device has as many rows."""
    return all(not isinstance(n, int) or n < LIMIT for n in buffer_type(op.buffer).shape)


def _in_range(op: Op) -> bool:
    """Whether ``op`` is a number, or coordinates, inside of 32 bits: what is saturated cannot be mistaken for it."""
    if isinstance(op, Broadcast | Permute):
        return _in_range(op.x)
    if isinstance(op, Coord | Start):
        return True
    value = op.value if isinstance(op, Const) else op.size if isinstance(op, Extent) else None
    return isinstance(value, int) and abs(value) < LIMIT


# ---- in 32 bits -------------------------------------------------------------------------------------------------------


def _array(array: Array) -> Array:
    assert isinstance(array.type, BufferType)
    return replace(array, type=replace(array.type, dtype="i32"))


def _kernel(kernel: Kernel, limits: Mapping[str, Range]) -> Kernel:
    env: dict[Op, Op] = {}

    def argument(arg: Op) -> Op:
        assert isinstance(arg, Arg)
        new = Arg(arg.name, replace(arg.of, dtype="i32")) if getattr(arg.of, "dtype", "") == "i64" else arg  # type: ignore[type-var]
        env[arg] = new
        return new

    def block(old: Block) -> Block:
        args = tuple(argument(a) for a in old.args)
        ops: list[Op] = []
        for op in old.ops:
            if (same := _unchanged(op, limits)) is not None:
                env[op] = env[same]
                continue
            small = replace(op, dtype="i32") if isinstance(op, _TYPED) and op.dtype == "i64" else op
            env[op] = small.remap(lambda o: env.get(o, o), block)
            ops.append(env[op])
        return Block(args, tuple(ops))

    return replace(kernel, body=block(kernel.body))


_TYPED = Const | Coord | Extent | Start | Cast


def _unchanged(op: Op, limits: Mapping[str, Range]) -> Op | None:
    """The operand that ``op`` is itself once both are i32 and inputs are limited: casts from one to the other, and limits."""
    match op:
        case Cast(x=x) if {op.dtype, tile_type(x).dtype} == {"i32", "i64"}:
            return x
        case Binary(fn="max", lhs=Load(buffer=Arg(name=name)) as x, rhs=Const(value=low)) if _wide(op):
            return x if name in limits and low == limits[name][0] else None
        case Binary(fn="min", lhs=Binary() as x, rhs=Const(value=high)) if (load := _unchanged(x, limits)) is not None:
            assert isinstance(load, Load) and isinstance(load.buffer, Arg)
            return x if high == limits[load.buffer.name][1] else None
    return None


def _limits(program: Program, name: str) -> Range:
    """To what all kernels limit the input ``name`` before anything else; the whole of 32 bits where one does not."""
    found = {r for k in program.kernels for r in _limits_in(k, name)}
    return found.pop() if len(found) == 1 else WHOLE


def _limits_in(kernel: Kernel, name: str) -> Iterator[Range]:
    users: dict[Op, list[Op]] = {}
    for op in kernel.body.walk():
        for o in dict.fromkeys(op.operands):
            users.setdefault(o, []).append(op)
    for op, uses in list(users.items()):
        if not (isinstance(op, Load) and isinstance(op.buffer, Arg) and op.buffer.name == name):
            continue
        for above in uses:
            for inside in users.get(above, [above]):
                yield _range(op, above, inside)


def _range(load: Load, above: Op, inside: Op) -> Range:
    """The range that ``inside`` is limited to by itself and ``above``, which takes ``load``."""
    match above, inside:
        case Binary(fn="max", rhs=Const(value=int(low))), Binary(fn="min", rhs=Const(value=int(high))):
            if above.lhs is load and inside.lhs is above and (load.pad is None or low <= load.pad <= high):
                return low, high
    return WHOLE
