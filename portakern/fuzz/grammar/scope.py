"""The operator being written: its inputs and statements, each of which is traced at once, so that its type is the language's.

A production adds statements with :meth:`FuzzScope.let`.  What the language refuses never gets in.  Operands are variables that
fit or else a fresh input that does, so that every production may come at any place: then a statement can be taken out of a
program, or the first one drawn earlier, without what follows meaning something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import portakern as pk
from portakern.dtypes import DTYPES
from portakern.errors import PortakernError
from portakern.fuzz.grammar.draws import Draw, chance, pick
from portakern.fuzz.grammar.ranges import NORMAL, Range, limits, of_input
from portakern.fuzz.grammar.sizes import Need
from portakern.ir.core import Arg
from portakern.ir.size import Size, Sym
from portakern.ir.tensor import TensorType
from portakern.spec.nibbles import in_memory, unpack
from portakern.spec.traced import Traced, recording

DIM_NAMES = "MNKBDEFGLPQRSTUVWXYZ"
FLOATS = ("f32", "bf16", "f16", "f64")
INTEGERS = ("i32", "i64", "i16", "i8", "u8")
MOST_DIMS = 5


_TOKEN = re.compile(r"_(\d+)_")


def tokens(text: str) -> list[int]:
    """Numbers of the variables that an expression speaks of."""
    return [int(n) for n in _TOKEN.findall(text)]


def renamed(text: str, names: Mapping[int, str]) -> str:
    """An expression with names in place of tokens."""
    return _TOKEN.sub(lambda m: names[int(m[1])], text)


class Refused(Exception):
    """A statement that does not get in; ``language`` says whether the operator language refused it."""

    def __init__(self, text: str, why: str, language: bool = False) -> None:
        super().__init__(f"{text}: {why}")
        self.language = language


@dataclass(frozen=True, eq=False)
class Var:
    """An input or the value of a statement.

    Args:
        number: its place among all.
        kind: ``input``, ``scalar``, ``param`` or ``local``.
        value: what the language makes of it, a Python value for a parameter.
        range: what it may be expected to hold.
        text: of a local its expression, which speaks of variables by their :attr:`token` (names are given when all is
            known), of an input the dtype of its own, of others their annotation.
        hint: a name it would like.
        production: what it was made by.
        below: what indices are filled with: numbers from 0 to below this, where it is not 0.
    """

    number: int
    kind: str
    value: Any
    range: Range
    text: str = ""
    hint: str = ""
    production: str = ""
    below: Size = 0

    @property
    def token(self) -> str:
        return f"_{self.number}_"

    def __str__(self) -> str:
        return self.token

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.value.shape

    @property
    def rank(self) -> int:
        return len(self.value.shape)

    @property
    def dtype(self) -> str:
        return self.value.type.dtype

    @property
    def is_number(self) -> bool:
        """Whether it may be computed with as it is: 8-bit floats are cast first."""
        return self.dtype in FLOATS

    @property
    def is_int(self) -> bool:
        return DTYPES[self.dtype].is_int


Accept = Callable[[Var], bool]


@dataclass
class FuzzScope:
    """What has been written so far.

    Args:
        draw: hypothesis' draw.
        dtype: the dtype of inputs without one of their own.
        weights: what the engine multiplies the weights of productions with.
        open: dims that are to be known at run time only, for what is lowered in another way then.
    """

    draw: Draw
    dtype: str
    weights: Mapping[str, float]
    vars: list[Var] = field(default_factory=list)
    dims: list[Sym] = field(default_factory=list)
    needs: dict[int, list[Need]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    open: set[Size] = field(default_factory=set)
    refused: list[Refused] = field(default_factory=list)
    production: str = ""

    # ---- statements

    def let(self, text: str, holds: Range, hint: str = "", needs: Sequence[Need] = ()) -> Var:
        """Writes ``hint = text``; raises :class:`Refused` where the language or the dtype's range has no room for it.

        Now and then an input of the same type is taken in its place.  Shrinking tries that for every statement: so what
        comes before it goes away, and what comes after it too, since an input is no output.
        """
        computed = chance(self.draw, 98)
        var = self.write(text, holds, hint, needs)
        if computed:
            return var
        self.vars.remove(var)
        self.needs.pop(var.number)
        own = "" if var.dtype == self.dtype else var.dtype
        return self._add("input", Traced(Arg(f"i{var.number}", var.value.type)), holds, own, hint)

    def write(self, text: str, holds: Range, hint: str = "", needs: Sequence[Need] = ()) -> Var:
        """:meth:`let` without the choice."""
        names = {v.token: v.value for v in self.vars}
        try:
            with recording():
                value = eval(text, {"pk": pk, **names})
        except PortakernError as error:
            raise Refused(text, str(error), language=True) from error
        if not isinstance(value, Traced) or len(value.shape) > MOST_DIMS:
            raise Refused(text, "no array, or one of many dims")
        if not holds.within(limits(value.type.dtype)):
            raise Refused(text, f"{holds} leaves {value.type.dtype}")
        var = self._add("local", value, holds, text, hint)
        self.needs[var.number] = list(needs)
        return var

    def _add(self, kind: str, value: Any, range: Range, text: str, hint: str = "", below: Size = 0) -> Var:
        var = Var(len(self.vars), kind, value, range, text, hint, self.production, below)
        self.vars.append(var)
        return var

    # ---- inputs

    def input(self, shape: Sequence[Size], dtype: str = "", hint: str = "", below: Size = 0) -> Var:
        """A fresh array of ``shape``, of the operator's dtype unless ``dtype`` is given; ``below`` bounds indices.

        Integers of four bits are what they are in math: i8 or u8, taken out of an array of bytes.
        """
        kind = dtype or self.dtype
        value = Traced(Arg(f"i{len(self.vars)}", in_memory(tuple(shape), kind)))
        if DTYPES[kind].bits < 8:
            with recording():
                value = unpack(value, kind, shape[-1])
        return self._add("input", value, of_input(kind), dtype, hint, below)

    def scalar(self, hint: str = "tau", dtype: str = "f32") -> Var:
        """A run-time number, an earlier one where there is one."""
        found = [v for v in self.vars if v.kind == "scalar" and v.dtype == dtype]
        if found and not chance(self.draw, 20):
            return found[0]
        value = Traced(Arg(f"i{len(self.vars)}", TensorType((), dtype)))
        return self._add("scalar", value, NORMAL if dtype == "f32" else of_input(dtype), f"pk.Scalar[pk.{dtype}]", hint)

    def param(self, value: float | int | bool, default: float | int | bool, hint: str) -> Var:
        """A compile-time parameter that is tried at ``value``."""
        range = Range(float(value), float(value))
        return self._add("param", value, range, f"{type(default).__name__} = {default!r}", hint)

    # ---- dims

    def fresh_dim(self) -> Sym:
        name = next(n for n in (*DIM_NAMES, *(f"{c}2" for c in DIM_NAMES)) if Sym.named(n) not in self.dims)
        self.dims.append(Sym.named(name))
        return self.dims[-1]

    def dim(self, taken: Sequence[Size] = ()) -> Size:
        """A dim for an input: one in use, a fresh one, a multiple of one, or a number."""
        known = [d for d in self.dims if d not in taken]
        kind = pick(self.draw, ("known", "fresh", "multiple", "number"), (50 if known else 0, 40, 6, 4))
        if kind == "known":
            return pick(self.draw, known)
        if kind == "number":
            return pick(self.draw, (2, 3, 4, 1, 7, 16, 33))
        base = self.fresh_dim() if kind == "fresh" or not known or chance(self.draw, 50) else pick(self.draw, known)
        return base * pick(self.draw, (2, 3, 4)) if kind == "multiple" else base

    def shape(self, ranks: Sequence[int] = (2, 1, 3, 4), weights: Sequence[float] = (60, 15, 20, 5)) -> tuple[Size, ...]:
        """The shape of a fresh input."""
        rank = pick(self.draw, ranks, weights[: len(ranks)])
        found: list[Size] = []
        for _ in range(rank):
            found.append(self.dim([] if chance(self.draw, 5) else found))
        return tuple(found)

    # ---- operands

    def operand(self, accept: Accept, fresh: Callable[[], Var]) -> Var:
        """A variable that ``accept`` takes, mostly one not used yet, or a ``fresh`` one; shrinks towards the first."""
        found = [v for v in self.vars if v.kind in ("input", "local") and accept(v)]
        if not found:
            return self._taken(fresh())
        weights = [10.0 if v.kind == "local" and v.number not in self.used else 2.0 for v in found]
        place = pick(self.draw, range(len(found) + 1), [*weights, 2.0])
        return self._taken(found[place] if place < len(found) else fresh())

    def _taken(self, v: Var) -> Var:
        self.used.add(v.number)
        return v

    def number(self, ranks: Sequence[int] = (2, 1, 3, 4), within: Range | None = None, dtype: str = "") -> Var:
        """A float array to compute with, whose rank is one of ``ranks`` and whose values are ``within`` a range."""

        def fits(v: Var) -> bool:
            right = v.dtype == dtype if dtype else v.is_number
            return right and v.rank in ranks and (within is None or v.range.within(within))

        return self.operand(fits, lambda: self.input(self.shape(ranks), dtype))

    def integer(self, ranks: Sequence[int] = (2, 1, 3), dtypes: Sequence[str] = INTEGERS) -> Var:
        def fresh() -> Var:
            return self.input(self.shape(ranks), pick(self.draw, dtypes))

        return self.operand(lambda v: v.dtype in dtypes and v.rank in ranks, fresh)

    def truth(self) -> Var:
        return self.operand(lambda v: v.dtype == "bool" and v.rank > 0, lambda: self.input(self.shape(), "bool"))

    def like(self, shape: Sequence[Size], dtype: str = "", hint: str = "", within: Range | None = None) -> Var:
        """An array of ``shape``: a float array, or one of ``dtype``."""

        def fits(v: Var) -> bool:
            right = v.dtype == dtype if dtype else v.is_number
            return right and v.shape == tuple(shape) and (within is None or v.range.within(within))

        return self.operand(fits, lambda: self.input(shape, dtype, hint))

    def axis(self, x: Var) -> int:
        """An axis of ``x``, from the last."""
        return x.rank - 1 - pick(self.draw, range(x.rank))
