"""Reads AMDGPU assembly text: instructions with operands and modifiers, labels, and what the kernels' descriptors say.

Only the syntax that clang and Triton print (LLVM, "AMDGPU Instruction Syntax" and "User Guide for AMDGPU Backend") is
taken; anything else is an error naming its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from portakern.errors import SimulatorError

from .data import Data
from .expressions import value


@dataclass(frozen=True)
class Instruction:
    """One line: ``v_add_f32_dpp v1, v2, v3 row_shr:1`` has three operands and one modifier."""

    line: int
    mnemonic: str
    operands: tuple[str, ...]
    modifiers: tuple[str, ...]
    source: str = ""
    """``file:line`` of the source where the compiler left it (``.loc``)."""
    paired: bool = False
    """The first of two that RDNA 3 and 4 issue together (``v_dual_x ... :: v_dual_y ...``): the next one sees nothing of it."""

    def __str__(self) -> str:
        return " ".join([self.mnemonic, ", ".join(self.operands), *self.modifiers]).replace("  ", " ").strip()


@dataclass
class AssemblyKernel:
    """A kernel: where it begins, and its descriptor (``.amdhsa_*`` directives without that prefix)."""

    name: str
    descriptor: dict[str, int] = field(default_factory=dict)


@dataclass
class Assembly:
    """A parsed file.  ``labels`` are positions in ``instructions``."""

    target: str = ""
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, AssemblyKernel] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    data: Data = field(default_factory=Data)

    def end_of(self, kernel: str) -> int:
        """Where the instructions of ``kernel`` end: at the next function, or at the end of the file."""
        start = self.labels[kernel]
        others = [at for name, at in self.labels.items() if at > start and name in self.functions]
        return min(others, default=len(self.instructions))


class AssemblyError(SimulatorError):
    """The text, or an instruction in it, is not one that this machine knows."""

    def __init__(self, line: int, text: str, problem: str) -> None:
        super().__init__(
            f"line {line} of the assembly, `{text}`: {problem}",
            hint="the machine executes nothing it does not know; report the instruction",
        )


_LABEL = re.compile(r"([A-Za-z_.$][\w.$@]*):\s*")
_COMMENT = re.compile(r"\s*(;|//)[^\"]*$")
_DIRECTIVE = re.compile(r"\s*\.(\w+)\s*(.*)")
_PADS = {"fill": 2, "p2align": 1, "p2alignl": 1, "p2alignw": 1, "balign": 1, "balignl": 1, "balignw": 1, "align": 1}
"""Directives that pad, and which of their fields says with what."""
_PADDING = (0xBF800000, 0xBF9F0000)
"""What compilers pad code with: s_nop, s_code_end."""
_HIDES = re.compile(r"byte|short|hword|[248]byte|value|long|int|word|quad|octa|float|double|single|ascii|asciz|string|incbin|"
                    r"zero|space|skip|org|reloc|dcb?|ds|if\w*|else\w*|endif|rept|endr|irpc?|macro|endm\w*|include|altmacro")
_ELSEWHERE = re.compile(r"pushsection|popsection|previous|subsection")


def parse(text: str) -> Assembly:
    """Raises :class:`AssemblyError` at the first line that is no assembly."""
    found = Assembly()
    kernel: AssemblyKernel | None = None
    files: dict[str, str] = {}
    where = ""
    code = True
    told: list[tuple[AssemblyKernel, str, str, int, str]] = []
    symbols: dict[str, str] = {}
    for number, line in _lines(text):
        while match := _LABEL.match(line):
            if code:
                found.labels[match[1]] = len(found.instructions)
            elif kernel is None:
                found.data.label(match[1])
            line = line[match.end() :]
        line = line.strip()
        if not line:
            continue
        if not line.startswith("."):
            if code:
                halves = line.split(" :: ")
                found.instructions += (_instruction(number, half, where, half is not halves[-1]) for half in halves)
            continue
        match = _DIRECTIVE.match(line)
        name, rest = (match[1], match[2].strip()) if match else ("", "")
        if name == "amdhsa_kernel":
            kernel = found.kernels.setdefault(rest, AssemblyKernel(rest))
        elif name == "end_amdhsa_kernel":
            kernel = None
        elif name == "amdhsa_inst_pref_size":
            continue  # how far ahead code is fetched: no effect on results, and Triton writes it as an expression
        elif kernel is not None:
            told.append((kernel, name.removeprefix("amdhsa_"), rest, number, line))
        elif name == "set":
            symbol, _, text_of = rest.partition(",")
            symbols[symbol.strip()] = text_of.strip()
        elif name == "amdgcn_target":
            found.target = rest.strip('"')
        elif name == "type" and rest.endswith("@function"):
            found.functions.add(rest.partition(",")[0].strip())
        elif name == "text":
            code = True
        elif name in ("section", "data", "bss", "rodata"):
            code = rest.startswith(".text")
            if not code:
                found.data.section(rest.partition(",")[0] if name == "section" else name)
        elif name == "file":
            files.update(_file(rest))
        elif name == "loc":
            number_of, line_of = rest.split()[:2]
            where = f"{files.get(number_of, '?')}:{line_of}"
        elif _ELSEWHERE.fullmatch(name) or (code and (_HIDES.fullmatch(name) or not _pads(name, rest))):
            raise AssemblyError(number, line, "what it makes of the instructions is not known here")
        elif not code:
            found.data.directive(name, rest)
    for kernel, name, rest, number, line in told:
        kernel.descriptor[name] = _number(rest, symbols, number, line)
    found.data.finish()
    for table in re.findall(r"([A-Za-z_.$][\w.$]*)@gotpcrel32@lo", text):
        found.data.slot(table)
    return found


def _pads(name: str, rest: str) -> bool:
    """Whether a directive that pads does so with what does nothing.  (Others do.)"""
    fields = rest.split(",")
    at = _PADS.get(name, len(fields))
    if at >= len(fields) or not (said := fields[at].strip()):
        return name != "fill"
    try:
        return value(said, {}) in _PADDING
    except ValueError:
        return False


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and without the metadata, which is YAML."""
    metadata = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped == ".amdgpu_metadata":
            metadata = True
        elif stripped == ".end_amdgpu_metadata":
            metadata = False
        elif not metadata:
            code = _COMMENT.sub("", line)
            if code.strip():
                yield number, code.rstrip()


def _number(text: str, symbols: Mapping[str, str], number: int, line: str) -> int:
    try:
        return value(text, symbols)
    except ValueError as error:
        raise AssemblyError(number, line, f"its value is no number: {error}") from None


def _file(rest: str) -> dict[str, str]:
    """``.file 1 "folder" "name" md5 0x...``: the number a later ``.loc`` uses, and the name."""
    number, _, names = rest.partition(" ")
    quoted = re.findall(r'"([^"]*)"', names)
    return {number: quoted[-1]} if number.isdigit() and quoted else {}


def _instruction(number: int, line: str, where: str, paired: bool) -> Instruction:
    mnemonic, *rest = line.split(None, 1)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", mnemonic):
        raise AssemblyError(number, line, "this is neither an instruction nor a directive")
    operands, modifiers = _operands(rest[0].strip() if rest else "")
    return Instruction(number, mnemonic, operands, modifiers, where, paired)


def _operands(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Operands stand between commas; modifiers follow the last one behind spaces."""
    if not text:
        return (), ()
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "[(" and 1) or ((c in "])" and -1) or 0)
        if c == "," and not depth:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    words = re.findall(r"(?:[^\s(]|\([^)]*\))+", current)
    if not words:
        return tuple(parts), ()
    if not parts and _is_modifier(words[0]):
        return (), tuple(words)
    return (*parts, words[0]), tuple(words[1:])


def _is_modifier(word: str) -> bool:
    """The operand-free instructions with modifiers only: counters, delays and messages."""
    return bool(re.match(r"(vmcnt|lgkmcnt|expcnt|vscnt|depctr_\w+|instid\d|instskip|sendmsg|hwreg)\(", word))
