"""Rules of reverse mode: for each tensor operation, what the gradient of its result gives to its operands.

A rule takes the operation, the gradient of its result (for one with several results a tuple, ``None`` where a result has none)
and the :class:`Walk` that asks, and yields ``(operand, gradient)`` pairs; operands that it leaves out get nothing.  Gradients
have the dtype and shape of what they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from portakern.errors import SpecError
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.size import Size
from portakern.spec.location import spec_error
from portakern.spec.traced import Traced


@dataclass(frozen=True)
class Piece:
    """The gradient of a part of an array: element i along dim d of ``part`` belongs to ``starts[d] + steps[d] * i``."""

    part: Traced
    starts: tuple[Size, ...]
    steps: tuple[int, ...]


class Walk(Protocol):
    """What rules may ask of the walk that calls them."""

    def active(self, op: Op) -> bool:
        """Whether ``op`` is computed from what is differentiated for, in floats."""
        ...

    def masked(self, op: Op) -> bool:
        """Whether the gradient of ``op`` has zeros for elements that a selection left out, whatever they were."""
        ...

    def consumers(self, op: Op) -> Sequence[tuple[Op | None, Traced | None]]:
        """The operations that gave ``op`` its gradient, and theirs: ``None`` for a result, and for one of several gradients."""
        ...


Contributions = Iterable[tuple[Op, Traced | Piece]]
Rule = Callable[[Any, Any, Walk], Contributions]

RULES: dict[type[Op], Rule] = {}
"""By operation.  Every one of the tensor level stands here, in :data:`CONSTANT` or in :data:`REFUSED`."""

CONSTANT: frozenset[type[Op]] = frozenset({t.Literal, t.DimSize, t.Iota, t.RandomBits, t.ArgFold})
"""Operations whose results do not change with their operands, or only in steps: their derivative is zero."""

REFUSED: dict[type[Op], tuple[str, str]] = {
    t.BitConvert: ("the bits of a number have no derivative", "cast it with pk.cast, or leave it out of wrt"),
    t.KeySort: ("sorts by keys are made when kernels are, and have no derivative", "use pk.sort"),
}
"""Operations that have no derivative here: why, and what to do."""


def rule(*classes: type[Op]) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for cls in classes:
            RULES[cls] = function
        return function

    return register


def refusal(op: Op, message: str, hint: str = "") -> SpecError:
    """The error that ``op`` cannot be differentiated, at the operator's line."""
    return spec_error(f"no gradient through {op.mnemonic()}: {message}", hint, op.loc)


def rule_of(op: Op) -> Rule:
    """The rule of ``op``.  Raises :class:`SpecError` at the operator's line where there is none."""
    if type(op) in REFUSED:
        _refuse(op)
    return RULES[type(op)]


def _refuse(op: Op) -> NoReturn:
    raise refusal(op, *REFUSED[type(op)])
