"""Kernels and programs of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.emit.clike.layouts import Layout
from portakern.emit.clike.names import CNames
from portakern.ir.program import Repeat
from portakern.ir.size import Size

from .nodes import Shared, Statement, indented


@dataclass(frozen=True)
class KernelParam:
    """A parameter of a kernel: a buffer (``array``, written or not), a run-time ``scalar``, or a ``size``."""

    name: str
    dtype: str
    role: str
    written: bool = False
    source: str = ""  # the name of the array, or of the open dim


@dataclass(frozen=True)
class Scope:
    """Statements that follow each other, and the names that they are ``given`` by what the printer writes around them."""

    statements: tuple[Statement, ...]
    given: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KernelPlan:
    """One kernel: parameters, layouts, shared operands and statements.  ``blocks`` is the size of the linear grid."""

    name: str
    family: str
    params: tuple[KernelParam, ...]
    layouts: tuple[Layout, ...]
    shared: tuple[Shared, ...]
    body: tuple[Statement, ...]
    blocks: Size
    warps: int
    threads: int
    note: str = ""
    names: frozenset[str] = frozenset()
    """All that stand for something in it."""

    def scopes(self) -> Sequence[Scope]:
        """Its statements, in the blocks that :mod:`.verify` looks through."""
        return (Scope(self.body),)

    def free_names(self) -> CNames:
        """Gives names that the kernel has not taken."""
        return CNames({*self.names, *(q.name for q in self.params)})

    def __str__(self) -> str:
        params = ", ".join(f"{p.name}: {p.dtype}{'' if p.role != 'array' else '*'}" for p in self.params)
        lines = [f"kernel {self.name}({params})", f"    blocks {self.blocks}, warps {self.warps}, threads {self.threads}"]
        lines += [f"    layout {x}" for x in self.layouts]
        lines += [f"    {x}" for x in self.shared]
        return "\n".join([*lines, *(indented(str(s)) for s in self.body)]) + "\n"


@dataclass(frozen=True)
class ProgramPlan:
    """The plans of a program's kernels, in launch order."""

    name: str
    kernels: tuple[KernelPlan, ...]
    repeats: tuple[Repeat, ...] = ()

    def __str__(self) -> str:
        return f"plan {self.name}\n" + "\n".join(map(str, self.kernels))
