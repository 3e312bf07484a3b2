"""64-bit scalars on hardware that has none: one of which kernels take the two words alone, as a seed, is two scalars of i32."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Binary, Cast, Const, Kernel, TileType

I32, I64 = TileType((), "i32"), TileType((), "i64")

Words = tuple[str, str]
"""The names of the lower and of the upper 32 bits."""

WORDS = "words"
"""The option of a source that names its scalars of which the text takes both words, as uint32[2]."""


def in_words(program: Program) -> tuple[Program, dict[str, Words]]:
    """``program`` with two scalars of i32 in the place of each i64 one of which nothing but the words is taken."""
    wide = {a.name for a in program.arrays if a.type == I64 and a.role == "scalar"}
    taken = {*program.sizes, *(a.name for a in program.arrays)}
    words = {name: (_free(f"{name}_low", taken), _free(f"{name}_high", taken)) for name in sorted(wide)}
    if not words:
        return program, {}
    kernels = [_of_words(k, words) for k in program.kernels]
    whole = wide & {o.name for k in kernels for op in k.body.walk() for o in op.operands if isinstance(o, Arg)}
    if whole:
        return program, {}
    arrays = [b for a in program.arrays for b in _words_of(a, words)]
    return replace(program, arrays=tuple(arrays), kernels=tuple(kernels)), words


def _free(name: str, taken: Container[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _words_of(array: Array, words: Mapping[str, Words]) -> tuple[Array, ...]:
    return tuple(replace(array, name=w, type=I32) for w in words[array.name]) if array.name in words else (array,)


def _of_words(kernel: Kernel, words: Mapping[str, Words]) -> Kernel:
    """``kernel`` with arguments for both words of each scalar, which casts to them are."""
    pairs = {name: tuple(Arg(w, I32) for w in both) for name, both in words.items()}
    rules = Rules()

    @rules.on(Cast)
    def word(op: Cast) -> Op | None:
        match op:
            case Cast(x=Arg(name=name, of=of), dtype="i32") if of == I64:
                return pairs[name][0]
            case Cast(x=Binary(fn="shr", lhs=Arg(name=name, of=of), rhs=Const(value=32)), dtype="i32") if of == I64:
                return pairs[name][1]
        return None

    args = tuple(b for a in kernel.args for b in pairs.get(getattr(a, "name", ""), (a,)))
    return replace(kernel, body=Block(args, canonicalise(kernel, rules).body.ops))
