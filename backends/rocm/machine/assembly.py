"""AMDGPU assembly text, as clang and Triton write it, to instructions, labels, kernels and data.

The form of the text is that of LLVM's "User Guide for AMDGPU Backend": instructions with operands and modifiers, ``.amdhsa_``
directives that make up a kernel's descriptor, and a YAML document between ``.amdgpu_metadata`` and ``.end_amdgpu_metadata``
that describes its arguments.  Nothing here knows what an instruction does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from portakern.errors import PortakernError


class AssemblyError(PortakernError):
    """A line of assembly text that cannot be read."""

    default_kind = "assembly"

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__("assembly", message, where=f"line {line}" if line else "")


@dataclass(frozen=True)
class Instruction:
    """One line: ``v_add_f32_e32 v1, s2, v3`` has operands ``v1 s2 v3``; ``offset:16`` and ``glc`` are modifiers.

    Words that stand for themselves (``glc``) have the value ``""``.  ``also`` is the second half of a line with two
    (``v_dual_x ... :: v_dual_y ...``).
    """

    mnemonic: str
    operands: tuple[str, ...]
    modifiers: Mapping[str, str]
    line: int
    text: str
    also: Instruction | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class KernelArgument:
    """Where an argument lies among the kernel's arguments, and what it is (``global_buffer``, ``by_value``, ``hidden_...``)."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True)
class Kernel:
    """One kernel: its first instruction, its descriptor by directive (``group_segment_fixed_size``) and its arguments."""

    name: str
    first: int
    descriptor: Mapping[str, int]
    arguments: tuple[KernelArgument, ...]
    argument_bytes: int
    threads: int
    wave: int


@dataclass(frozen=True)
class Symbol:
    """A place in a data section: its section, its offset there, and its size where the text states one."""

    section: str
    offset: int
    size: int = 0


@dataclass
class Module:
    """One assembled file."""

    isa: str
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    data: dict[str, bytearray] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list, repr=False)

    def target_of(self, label: str) -> int:
        """The instruction that a label stands before."""
        if label not in self.labels:
            raise AssemblyError(f"the label {label} is nowhere")
        return self.labels[label]

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The first instruction of every function, and the end."""
        return (*sorted(k.first for k in self.kernels.values()), len(self.instructions))


# ---- reading ------------------------------------------------------------------------------------------------------------

_TARGET = re.compile(r'\.amdgcn_target\s+"[^"]*?(gfx[0-9a-f]+)')
_LABEL = re.compile(r"^([A-Za-z_.$][\w.$@]*):\s*(.*)$")
_COMMENT = re.compile(r"\s*(?:;|//).*$")
_CODE = (".text",)


def parse(text: str) -> Module:
    """Raises :class:`AssemblyError` naming the line that cannot be read."""
    return _Reader(text).module()


class _Reader:
    """Reads from top to bottom; which section is being filled decides what a line means."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        target = _TARGET.search(text)
        if target is None:
            raise AssemblyError("the text names no .amdgcn_target: it is no AMDGPU assembly for amdhsa")
        self.made = Module(target[1], lines=self.lines)
        self.section = ".text"
        self.sizes: dict[str, int] = {}
        self.descriptors: dict[str, dict[str, int]] = {}
        self.functions: list[str] = []
        self.metadata: list[str] = []

    def module(self) -> Module:
        numbered = iter(enumerate(self.lines, 1))
        for number, raw in numbered:
            line = _COMMENT.sub("", raw).strip() if '"' not in raw else raw.split(" ;")[0].strip()
            if not line:
                continue
            if line.startswith(".amdhsa_kernel"):
                self.descriptors[line.split()[1]] = _descriptor(numbered)
            elif line.startswith(".amdgpu_metadata"):
                self.metadata += _until(numbered, ".end_amdgpu_metadata")
            else:
                self._line(line, number)
        for name, size in self.sizes.items():
            if name in self.made.symbols:
                place = self.made.symbols[name]
                self.made.symbols[name] = Symbol(place.section, place.offset, size)
        self._kernels()
        return self.made

    def _line(self, line: str, number: int) -> None:
        label = _LABEL.match(line)
        if label is not None:
            self._label(label[1])
            line = label[2]
        if not line:
            return
        if line.startswith("."):
            self._directive(line, number)
        elif self.section.startswith(_CODE):
            self.made.instructions.append(instruction(line, number))
        else:
            raise AssemblyError(f"{line!r} stands in the section {self.section}", number)

    def _label(self, name: str) -> None:
        if self.section.startswith(_CODE):
            self.made.labels[name] = len(self.made.instructions)
        else:
            self.made.symbols[name] = Symbol(self.section, len(self.made.data.setdefault(self.section, bytearray())))

    def _directive(self, line: str, number: int) -> None:
        word, _, rest = line.partition("\t") if "\t" in line else line.partition(" ")
        rest = rest.strip()
        if word in (".text", ".data", ".bss"):
            self.section = word
        elif word == ".section":
            self.section = rest.split(",")[0].strip()
        elif word == ".amdgpu_lds":  # .amdgpu_lds NAME, SIZE, ALIGN: a place in LDS that the linker chooses
            name, size, *_ = (x.strip() for x in rest.split(","))
            self.made.symbols[name] = Symbol("lds", 0, int(size, 0))
        elif word == ".size" and (size := rest.split(",")[1].strip()).isdigit():
            self.sizes[rest.split(",")[0].strip()] = int(size)
        elif word == ".type" and "@function" in rest:
            self.functions.append(rest.split(",")[0].strip())
        elif not self.section.startswith((*_CODE, ".AMDGPU", ".note", ".debug", ".comment")):
            self._data(word, rest, number)

    def _data(self, word: str, rest: str, number: int) -> None:
        place = self.made.data.setdefault(self.section, bytearray())
        widths = {".byte": 1, ".short": 2, ".2byte": 2, ".long": 4, ".4byte": 4, ".quad": 8, ".8byte": 8}
        if word in widths:
            for value in rest.split(","):
                try:
                    place += (int(value, 0) & ((1 << 8 * widths[word]) - 1)).to_bytes(widths[word], "little")
                except ValueError:
                    raise AssemblyError(f"{word} {value.strip()}: only numbers are understood as data", number) from None
        elif word == ".zero":
            place += bytes(int(rest.split(",")[0], 0))
        elif word in (".ascii", ".asciz"):
            text = rest[1:-1].encode().decode("unicode_escape").encode("latin-1")
            place += text + (b"\0" if word == ".asciz" else b"")
        elif word == ".p2align":
            place += bytes(-len(place) % (1 << int(rest.split(",")[0], 0)))

    def _kernels(self) -> None:
        described = dict(_arguments("\n".join(self.metadata)))
        for name, descriptor in self.descriptors.items():
            if name not in self.made.labels:
                raise AssemblyError(f"the kernel {name} has a descriptor and no code")
            k = described.get(name, {"arguments": (), "bytes": descriptor.get("kernarg_size", 0), "threads": 1024, "wave": 64})
            self.made.kernels[name] = Kernel(name, self.made.labels[name], descriptor, k["arguments"], k["bytes"], k["threads"],
                                             k["wave"])  # fmt: skip


def _until(lines: Iterator[tuple[int, str]], end: str) -> list[str]:
    found = []
    for _, line in lines:
        if line.strip() == end:
            return found
        found.append(line)
    raise AssemblyError(f"{end} is missing")


def _descriptor(lines: Iterator[tuple[int, str]]) -> dict[str, int]:
    found = {}
    for line in _until(lines, ".end_amdhsa_kernel"):
        words = _COMMENT.sub("", line).split()
        if len(words) == 2 and words[0].startswith(".amdhsa_"):
            name = words[0].removeprefix(".amdhsa_")
            try:
                found[name] = int(words[1], 0)
            except ValueError:
                if name != "inst_pref_size":  # an expression of code sizes: how much code is fetched ahead
                    raise AssemblyError(f"{line.strip()}: the value is no number") from None
    return found


def _arguments(text: str) -> Iterator[tuple[str, dict]]:
    """What the metadata says of each kernel.  As much of YAML as LLVM prints there: lists by ``- `` and their indentation."""
    for part in re.split(r"^  - ", text, flags=re.MULTILINE)[1:]:
        body = "    " + part
        name = re.search(r"^    \.name:\s+(\S+)", body, re.MULTILINE)
        if name is None:
            continue
        fields = dict(re.findall(r"^    \.(\w+):[ ]+(\S+)[ ]*$", body, re.MULTILINE))
        listed = re.search(r"^    \.args:\s*\n((?:      .*\n?)*)", body, re.MULTILINE)
        arguments = []
        for item in re.split(r"^      - ", listed[1] if listed else "", flags=re.MULTILINE)[1:]:
            said = dict(re.findall(r"\.(\w+):\s+(\S+)", item))
            arguments.append(KernelArgument(int(said["offset"]), int(said["size"]), said["value_kind"]))
        yield name[1].strip("'"), {
            "arguments": tuple(arguments), "bytes": int(fields["kernarg_segment_size"]),
            "threads": int(fields["max_flat_workgroup_size"]), "wave": int(fields["wavefront_size"]),
        }  # fmt: skip


# ---- one instruction ------------------------------------------------------------------------------------------------------

_WORDS = frozenset({
    "glc", "slc", "dlc", "sc0", "sc1", "nt", "offen", "idxen", "lds", "tfe", "gds", "clamp", "fi", "scc", "lwe", "unorm",
    "r128", "a16", "d16", "row_mirror", "row_half_mirror", "wave_shl", "wave_rol", "wave_shr", "wave_ror",
})  # fmt: skip
"""Modifiers without a value."""
_MODIFIER = re.compile(r"(?<![\w.])([A-Za-z][A-Za-z_0-9]*):(\[[^\]]*\]|swizzle\([^)]*\)|[^\s,\[\]]+)")
_WAITS = ("s_waitcnt", "s_delay_alu", "s_wait_alu", "s_setreg", "s_getreg", "s_sendmsg", "s_barrier")


def instruction(line: str, number: int = 0) -> Instruction:
    """One line of code."""
    first, sign, second = line.partition("::")
    also = _single(second.strip(), number) if sign else None
    return _single(first.strip(), number, also, line)


def _single(line: str, number: int, also: Instruction | None = None, whole: str = "") -> Instruction:
    mnemonic, _, rest = line.replace("\t", " ").partition(" ")
    if not re.fullmatch(r"[a-z][\w]*", mnemonic):
        raise AssemblyError(f"{line!r} is no instruction", number)
    rest = rest.strip()
    if mnemonic.startswith(_WAITS):  # their one operand is an expression of its own kind
        return Instruction(mnemonic, (rest,) if rest else (), {}, number, whole or line, also)
    modifiers: dict[str, str] = {}

    def take(match: re.Match[str]) -> str:
        modifiers[match[1]] = match[2]
        return " "

    rest = _MODIFIER.sub(take, rest)
    operands: list[str] = []
    for part in _split(rest):
        words = part.split()
        while words and words[-1] in _WORDS:
            modifiers[words.pop()] = ""
        if words:
            operands.append(" ".join(words))
    return Instruction(mnemonic, tuple(operands), modifiers, number, whole or line, also)


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


# ---- registers ------------------------------------------------------------------------------------------------------------

_NAMED = {
    "vcc": ("s", 106, 2), "vcc_lo": ("s", 106, 1), "vcc_hi": ("s", 107, 1), "exec": ("s", 126, 2), "exec_lo": ("s", 126, 1),
    "exec_hi": ("s", 127, 1), "m0": ("s", 124, 1), "scc": ("scc", 0, 1), "src_scc": ("scc", 0, 1),
    "flat_scratch": ("s", 102, 2), "flat_scratch_lo": ("s", 102, 1), "flat_scratch_hi": ("s", 103, 1),
    "xnack_mask": ("s", 104, 2), "xnack_mask_lo": ("s", 104, 1), "xnack_mask_hi": ("s", 105, 1),
}  # fmt: skip
_REGISTER = re.compile(r"([vas])(\d+)(?:\.[lh])?|([vas])\[(\d+):(\d+)\]|([vas])\[(\d+)\]|ttmp(\d+)|ttmp\[(\d+):(\d+)\]")


@dataclass(frozen=True)
class Register:
    """Consecutive registers: ``kind`` is ``v``, ``a``, ``s``, ``ttmp`` or ``scc``."""

    kind: str
    first: int
    count: int

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((self.kind, self.first + i) for i in range(self.count))


def register(operand: str) -> Register | None:
    """The registers an operand names, without its sign and bars; ``None`` for constants, ``off``, labels.

    ``vcc``, ``exec`` and ``m0`` are scalar registers by the numbers they are encoded with (CDNA3 ISA, "Scalar Operands";
    ``m0`` and ``null`` changed places in RDNA 3, where nothing but the name is used).
    """
    word = operand.strip()
    if word.startswith(("neg(", "abs(", "sext(")):
        word = word[word.index("(") + 1 : -1]
    word = word.strip("-|")
    if word in _NAMED:
        return Register(*_NAMED[word])
    match = _REGISTER.fullmatch(word)
    if match is None:
        return None
    if match[1]:
        return Register(match[1], int(match[2]), 1)
    if match[3]:
        return Register(match[3], int(match[4]), int(match[5]) - int(match[4]) + 1)
    if match[6]:
        return Register(match[6], int(match[7]), 1)
    if match[8]:
        return Register("ttmp", int(match[8]), 1)
    return Register("ttmp", int(match[9]), int(match[10]) - int(match[9]) + 1)


def number(operand: str) -> int | float | None:
    """A constant of the text; ``None`` where the operand is none."""
    word = operand.strip()
    try:
        return int(word, 0)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return None


def modules(text: str) -> list[Module]:
    """The modules of a text that holds several, one after the other, each with its own ``.amdgcn_target``."""
    starts = [m.start() for m in re.finditer(r"^\s*\.amdgcn_target", text, re.MULTILINE)]
    return [parse(text[a:b]) for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
