"""Expressions of a plan as trees: what they read can be asked and rewritten, and they become C text at the end alone.

A leaf is a name of the plan, a size, a literal, or a word of the platform (its block index, say).  Everything else applies a
template of the platform to operands, and says in ``fn`` what it means: a pass asks for ``add``, never for a plus sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from portakern.emit.clike.names import size_name
from portakern.ir.size import Size

ATOM = 16
"""The precedence of what needs no parentheses anywhere; C's operators have 1 to 15, 15 binds tightest."""

# Mixing these without parentheses is legal C and a trap for readers (and compilers warn).
_ALWAYS_WRAP = {4, 5, 6, 7, 8, 9, 10, 11}


@dataclass(frozen=True)
class PlanTerm:
    """Base of all expressions.  ``str`` of one is its C text."""

    @property
    def precedence(self) -> int:
        return ATOM

    @property
    def reads(self) -> frozenset[str]:
        """Names of the plan that it reads."""
        return frozenset()

    def parts(self) -> Iterator[PlanTerm]:
        """The term and all that it is made of."""
        yield self

    def rewritten(self, change: Callable[[PlanTerm], PlanTerm]) -> PlanTerm:
        """The term with every part, innermost first, as ``change`` gives it."""
        return change(self)

    def renamed(self, names: Mapping[str, str]) -> PlanTerm:
        """The term with other names."""
        return self.rewritten(lambda x: x.called(names) if isinstance(x, Name) else x)


@dataclass(frozen=True)
class Name(PlanTerm):
    """A variable, parameter or layout of the plan; ``whole.part`` is a part of one."""

    name: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.name.partition(".")[0]})

    def called(self, names: Mapping[str, str]) -> Name:
        whole, dot, part = self.name.partition(".")
        return Name(names.get(whole, whole) + dot + part)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class LiteralTerm(PlanTerm):
    """A number as the language writes it."""

    text: str

    @property
    def precedence(self) -> int:
        return 15 if self.text.startswith("-") else ATOM

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Word(PlanTerm):
    """What the platform gives every block or thread, as the index of the block."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class SizeTerm(PlanTerm):
    """A size with open dims, which are 64-bit parameters of the same names."""

    size: Size

    @cached_property
    def _text(self) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda found: size_name(found[0]), str(self.size).replace("//", "/"))

    @property
    def precedence(self) -> int:
        if isinstance(self.size, int) or self._text.isidentifier():
            return ATOM
        return 12 if len(self.size.terms) > 1 or self._text.startswith("-") else 13

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if isinstance(self.size, int) else frozenset(map(size_name, self.size.names))

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class Apply(PlanTerm):
    """``template`` filled with ``operands``; ``fn`` says what that computes.

    A template is C text with ``{0}``, ``{1}`` for operands; a leading number and bar give its precedence, without which it
    binds tightest, as calls do.  Calls of the vocabulary begin with ``pk::``.
    """

    fn: str
    template: str
    operands: tuple[PlanTerm, ...]

    @property
    def precedence(self) -> int:
        head, bar, _ = self.template.partition("|")
        return int(head) if bar and head.isdigit() else ATOM

    @property
    def word(self) -> str:
        """The word of the vocabulary that it calls; empty for what the language has by itself."""
        head, found, rest = self.template.partition("pk::")
        return rest.partition("(")[0].partition("<")[0] if found and not head else ""

    @cached_property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset().union(*(x.reads for x in self.operands))

    def parts(self) -> Iterator[PlanTerm]:
        yield self
        for x in self.operands:
            yield from x.parts()

    def rewritten(self, change: Callable[[PlanTerm], PlanTerm]) -> PlanTerm:
        return change(replace(self, operands=tuple(x.rewritten(change) for x in self.operands)))

    @cached_property
    def _text(self) -> str:
        own = self.precedence
        if own == ATOM:
            return self.template.format(*map(str, self.operands))
        body = self.template.partition("|")[2]
        return body.format(*(_wrapped(x, own, i) for i, x in enumerate(self.operands)))

    def __str__(self) -> str:
        return self._text


def _wrapped(x: PlanTerm, own: int, position: int) -> str:
    """The text of an operand, in parentheses only where C or a reader needs them."""
    inner, text = x.precedence, str(x)
    if own == 15 and text.startswith("-"):  # --x would be a decrement
        return f"({text})"
    right = position > 0 and own in (12, 13, 11)  # left-associative: a - (b - c), and a + (b + c) as it was written
    mixed = (inner in _ALWAYS_WRAP and own in _ALWAYS_WRAP) or (inner == own == 3 and position < 2)
    return f"({text})" if inner < own or (inner == own and right) or mixed else text


# ---- making and asking ---------------------------------------------------------------------------------------------------


def apply(template: str, *operands: PlanTerm, fn: str = "") -> Apply:
    return Apply(fn, template, operands)


def call(fn: str, word: str, *operands: PlanTerm) -> Apply:
    """``word(operands)``."""
    return Apply(fn, f"{word}({', '.join(f'{{{n}}}' for n in range(len(operands)))})", operands)


def whole(value: int) -> LiteralTerm:
    return LiteralTerm(str(value))


def size_term(size: Size) -> PlanTerm:
    return whole(size) if isinstance(size, int) else SizeTerm(size)


def number(x: PlanTerm) -> int | None:
    """The whole number that ``x`` is; ``None`` for everything else."""
    return int(x.text) if isinstance(x, LiteralTerm) and re.fullmatch(r"-?\d+", x.text) else None


def is_zero(x: PlanTerm) -> bool:
    """Whether ``x`` is a literal zero of any dtype."""
    return isinstance(x, LiteralTerm) and x.text in ("0", "0.0", "0.0f", "int64_t(0)")


ZERO, ONE = whole(0), whole(1)


def add(left: PlanTerm, right: PlanTerm) -> PlanTerm:
    """The sum of whole numbers, or of an address and one, zeros left out; sums on the right are taken apart."""
    if is_zero(left) or is_zero(right):
        return left if is_zero(right) else right
    if isinstance(right, LiteralTerm) and right.text.startswith("-"):
        return Apply("sub", "12|{0} - {1}", (left, LiteralTerm(right.text[1:])))
    if isinstance(right, Apply) and right.fn in ("add", "sub"):
        return replace(right, operands=(add(left, right.operands[0]), right.operands[1]))
    return Apply("add", "12|{0} + {1}", (left, right))


def multiply(left: PlanTerm, right: PlanTerm) -> PlanTerm:
    """The product, ones left out."""
    if ZERO in (left, right):
        return ZERO
    if ONE in (left, right):
        return left if right == ONE else right
    return Apply("mul", "13|{0} * {1}", (left, right))


def divide(left: PlanTerm, right: PlanTerm) -> PlanTerm:
    return Apply("div", "13|{0} / {1}", (left, right))


def remainder(left: PlanTerm, right: PlanTerm) -> PlanTerm:
    return Apply("rem", "13|{0} % {1}", (left, right))


def without(total: PlanTerm, name: str) -> PlanTerm | None:
    """``total`` less the summands that are ``name`` or a multiple of it; ``None`` where it is read elsewhere in it."""
    if name not in total.reads:
        return total
    if not (isinstance(total, Apply) and total.fn in ("add", "sub")):
        return None
    left, right = total.operands
    rest = without(left, name)
    return None if rest is None else rest if _multiple(right, name) else None if name in right.reads else replace(
        total, operands=(rest, right))  # fmt: skip


def _multiple(x: PlanTerm, name: str) -> bool:
    if x == Name(name):
        return True
    return isinstance(x, Apply) and x.fn == "mul" and x.operands[0] == Name(name) and name not in x.operands[1].reads
