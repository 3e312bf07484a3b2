"""What the stages of a check find wrong with a Pallas kernel, and how it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.errors import RuntimeFault


@dataclass(frozen=True)
class Diagnostic:
    """Something that a kernel does wrong.

    ``stage`` is what saw it (``grid``, ``source``, ``interpreter``, ``memory``, ``races``), ``kind`` a short stable word,
    ``message`` says what happens and where in the grid, ``fix`` what to do, ``where`` is the kernel's line.
    """

    stage: str
    kind: str
    message: str
    fix: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def fault(diagnostics: Sequence[Diagnostic]) -> RuntimeFault:
    """The error that says all of it, the first one foremost."""
    first, *more = diagnostics
    others = "".join(f"; also ({f.stage}) {f}" for f in more[:4])
    return RuntimeFault(f"{first.stage} stage: {first.message}{others}", hint=first.fix, where=first.where,
                        kind=f"runtime-{first.kind}")  # fmt: skip
