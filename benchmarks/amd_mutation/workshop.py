"""The kernels of an assembly text with lines changed: what did not change is parsed and encoded once."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from portakern.backends.rocm.amdgcn.assembly.linking import Relocation
from portakern.backends.rocm.amdgcn.assembly.parser import Assembly, AssemblyKernel, Instruction, parse
from portakern.backends.rocm.amdgcn.code_objects.arguments import parameters
from portakern.backends.rocm.amdgcn.execution.encoding import Encoded, Encoder
from portakern.backends.rocm.amdgcn.execution.program import Code, code_of
from portakern.backends.rocm.amdgcn.execution.simulator import Translated
from portakern.backends.rocm.amdgcn.isa import GENERATIONS

from .beside import Beside
from .mutant import Spare, spare_of

Edit = Mapping[int, Sequence[str]]
"""Lines, numbered from 1, and what stands in their place."""

TRAPS = 1_000_000
"""Traps and what leads to them have line numbers from here on."""

_LABEL = re.compile(r"\.Ltrap_(\d+)")


def trap(n: int) -> str:
    return f".Ltrap_{n}"


@dataclass
class Workshop:
    """One assembly text."""

    text: str
    assembly: Assembly = field(init=False)
    isa: str = field(init=False)
    _kernels: dict[str, _Kernel] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.assembly = parse(self.text)
        self.isa = self.assembly.target.rpartition("-")[2].partition(":")[0]
        self._parameters = parameters(self.text)
        self._lines = self.text.splitlines()

    def kernel(self, name: str) -> _Kernel:
        if name not in self._kernels:
            start, end = self.assembly.labels[name], self.assembly.end_of(name)
            labels = {k: at - start for k, at in self.assembly.labels.items() if start <= at < end}
            self._kernels[name] = _Kernel(self.assembly.kernels[name], self.isa, self.assembly.instructions[start:end], labels)
        return self._kernels[name]

    def line(self, number: int) -> str:
        """The instructions of a line, without its comment."""
        return re.sub(r"\s*(;|//)[^\"]*$", "", self._lines[number - 1]).strip()

    def behind_assembly(self, number: int) -> bool:
        """Whether the line follows inline assembly."""
        return number > 1 and self._lines[number - 2].strip() == ";;#ASMEND"

    def translated(self, name: str, edit: Edit, other_formats: bool = False) -> Translated:
        """``name`` with the lines of ``edit`` changed that are its own."""
        code = self.kernel(name).code(edit)
        if other_formats:
            code = replace(code, setup=tuple({94: 95, 95: 94}.get(n, n) for n in code.setup))
        return Translated(code, self._parameters.get(name, ()))

    def changed(self, name: str, edit: Edit) -> Assembly:
        return self.kernel(name).changed(edit)

    def beside(self, name: str, edit: Edit, b: Beside) -> Translated:
        """``name``, in which each wave goes through a copy with ``edit`` first, from the line that it changes to ``b.join``."""
        (line,) = edit
        marked = {line: ("pk_aside .Lbeside", self.line(line)), b.join: (f"pk_join {b.filling}", self.line(b.join))}
        code = self.kernel(name).beside(marked, {**edit, b.join: ("pk_back",)}, line)
        return Translated(code, self._parameters.get(name, ()))


@dataclass
class _Kernel:
    kernel: AssemblyKernel
    isa: str
    instructions: list[Instruction]
    labels: dict[str, int]
    _constants: dict[tuple[int, int] | Relocation, int] = field(default_factory=dict)
    _known: dict[Instruction, bytes] = field(default_factory=dict)

    @cached_property
    def spare(self) -> Spare:
        generation = GENERATIONS[self.isa]
        wave32 = bool(self.kernel.descriptor.get("wavefront_size32", generation >= 110))
        return spare_of(self.instructions, wave32, generation >= 120)

    def changed(self, edit: Edit) -> Assembly:
        """The kernel alone, with room for spare registers and the traps that ``edit`` names."""
        mine = sorted((self._places[n], n) for n in edit if n in self._places)
        made: list[Instruction] = []
        at, moves = 0, [(0, 0)]
        traps: dict[int, None] = {}
        for (first, last), number in mine:
            new = [i for text in edit[number] for i in _parsed(text, number)]
            traps |= dict.fromkeys(int(n) for text in edit[number] for n in _LABEL.findall(text))
            made += [*self.instructions[at:first], *new]
            at = last
            moves.append((last, len(made) - last))
        made += self.instructions[at:]
        starts = [start for start, _ in moves]
        labels = {name: to + moves[bisect_right(starts, to) - 1][1] for name, to in self.labels.items()}
        for n in traps:
            labels[trap(n)] = len(made)
            made += _parsed(f"s_branch {trap(n)}", TRAPS + n)
        d = {**self.kernel.descriptor, "next_free_sgpr": 106, "next_free_vgpr": 512}
        name = self.kernel.name
        found = Assembly(f"amdgcn-amd-amdhsa--{self.isa}", made, {**labels, name: 0}, {}, {name})
        found.kernels[name] = AssemblyKernel(name, d if edit else self.kernel.descriptor)
        return found

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """Of each line its first instruction, and the one behind its last."""
        found: dict[int, tuple[int, int]] = {}
        for at, i in enumerate(self.instructions):
            found[i.line] = (found.get(i.line, (at, 0))[0], at + 1)
        return found

    def beside(self, marked: Edit, copied: Edit, line: int) -> Code:
        """The kernel with ``marked`` lines, and behind it that with those ``copied``, entered at ``line`` by ``.Lbeside``."""
        own, copy = self.changed(marked), self.changed(copied)
        first = len(own.instructions)
        names = {name: f"{name}.beside" for name in self.labels if name != self.kernel.name}
        for i in copy.instructions:
            own.instructions.append(replace(i, operands=tuple(names.get(text, text) for text in i.operands)))
        own.labels.update({names[name]: first + copy.labels[name] for name in names})
        own.labels[".Lbeside"] = first + next(n for n, i in enumerate(copy.instructions) if i.line == line)
        return self._code(own)

    def code(self, edit: Edit) -> Code:
        return self._code(self.changed(edit))

    def _code(self, assembly: Assembly) -> Code:
        return code_of(assembly, assembly.kernels[self.kernel.name], self.isa, self._encoded)

    def _encoded(self, assembly: Assembly, kernel: str, generation: int, lanes: int, handlers: Mapping[str, int]) -> Encoded:
        encoder = _Known(assembly, 0, len(assembly.instructions), generation, lanes, handlers, self._constants)
        encoder.known = self._known
        return encoder.run()


@dataclass
class _Known(Encoder):
    known: dict[Instruction, bytes] = field(default_factory=dict)

    def encode(self, i: Instruction) -> bytes:
        if i.mnemonic.startswith(("s_branch", "s_cbranch", "pk_aside")):
            return super().encode(i)  # where it goes has moved
        if i not in self.known:
            self.known[i] = super().encode(i)
        return self.known[i]


@cache
def _parsed(text: str, line: int) -> tuple[Instruction, ...]:
    """The instructions of a line, numbered ``line``, or as the trap that the text begins with says."""
    number, marked, rest = text.partition("@")
    if marked:
        return tuple(replace(i, line=TRAPS + int(number)) for i in parse(rest).instructions)
    return tuple(replace(i, line=line) for i in parse(text).instructions)
