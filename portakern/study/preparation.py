"""The part of a build that hangs on weights alone, and is done when these are new."""

from __future__ import annotations

from functools import cached_property

from portakern.backend import CompiledBinary, Language, Runtime, Source
from portakern.errors import ToolMissing
from portakern.ir.program import Program
from portakern.launch.hoisted import Part
from portakern.study import steps


class Preparation:
    """Its kernels as ``program`` and as emitted ``source``: they take weights, and give what the build takes in their place."""

    def __init__(self, source: Source, program: Program, language: Language) -> None:
        self.source, self.program = source, program
        self._language = language

    def __repr__(self) -> str:
        count = len(self.program.kernels)
        kernels = f"{count} kernels that prepare" if count > 1 else "1 kernel that prepares"
        return f"<{kernels} weights, for {self.source.target}>"

    @cached_property
    def binary(self) -> CompiledBinary:
        """The machine code; raises as that of the build."""
        return binary_of(self.source, self._language)

    def loaded(self, runtime: Runtime) -> Part:
        return Part(self.source, runtime.load(self.source, self.binary if self._language.toolchain is not None else None))


def binary_of(source: Source, language: Language) -> CompiledBinary:
    """Raises :class:`CompileError`, or :class:`ToolMissing` where nothing here compiles for its target."""
    toolchain = language.toolchain
    if toolchain is None:
        raise ToolMissing(f"{language.name} has no compiler")
    if not (found := toolchain.available(source.target)):
        raise ToolMissing(f"nothing here compiles for {source.target}: {found.detail}", hint=steps.install_hint(language))
    return steps.compile_cached(language, source)[1]
