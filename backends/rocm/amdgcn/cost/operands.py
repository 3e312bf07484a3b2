"""Operands and modifiers of an instruction as the model reads them: registers by kind and number, offsets, plain integers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ..assembly import registers
from ..assembly.parser import Instruction

RegisterSet = frozenset[tuple[str, int]]
"""Registers: (``v`` or ``s``, number); accumulation registers are vector registers from 256."""

VCC = ("s", registers.VCC)
EXEC = ("s", registers.EXEC)
NONE: RegisterSet = frozenset()

_SIGNS = re.compile(r"(?:neg|abs|sext)\((.*)\)")


@dataclass(frozen=True)
class RegisterRange:
    """Consecutive registers."""

    kind: str
    first: int
    count: int

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((self.kind, self.first + i) for i in range(self.count))


@cache
def register_range(operand: str) -> RegisterRange | None:
    """The registers an operand names, its sign and bars left out; ``None`` for constants, ``off`` and labels."""
    found = registers.register(plain(operand))
    if found is None or (found.kind == registers.SCALAR and found.number == registers.NULL):
        return None
    return RegisterRange("v" if found.kind == registers.VECTOR else "s", found.number, found.count)


@cache
def plain(operand: str) -> str:
    word = operand.strip()
    if match := _SIGNS.fullmatch(word):
        word = match[1]
    return word.strip("-|") if re.match(r"^[-|]*[a-z]", word) else word


def register_set(operand: str) -> RegisterSet:
    found = register_range(operand)
    return frozenset(found) if found is not None else NONE


@cache
def integer(operand: str) -> int | None:
    """A constant of the text that is a whole number."""
    try:
        return int(operand.strip(), 0)
    except ValueError:
        return None


class Modifiers:
    """The modifiers of an instruction by name: ``offset:16`` is ``{"offset": "16"}``, ``glc`` is ``{"glc": ""}``."""

    def __init__(self, of: Instruction) -> None:
        self.by_name = {name: value for name, _, value in (word.partition(":") for word in of.modifiers)}

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def count(self, name: str) -> int:
        """A modifier that is a number; 0 where it is not there."""
        return int(self.by_name.get(name) or "0", 0)
