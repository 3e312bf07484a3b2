"""Reads what a kernel uses out of its machine code: NVIDIA cubin and AMD code objects, both ELF files.

Sources: the ELF specification; the attribute numbers in ``.nv.info`` are those that NVIDIA's cuobjdump prints
(EIATTR_REGCOUNT 0x2f, EIATTR_FRAME_SIZE 0x11); AMD code objects carry MessagePack notes described in LLVM's "User Guide
for AMDGPU Backend", section Code Object V3 and later Metadata.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from portakern.errors import CompileError

_REGCOUNT, _FRAME_SIZE = 0x2F, 0x11
_SIZED = 4  # the format of attributes that carry a length and then data


@dataclass(frozen=True)
class Usage:
    """Per-lane registers, spilled registers, scratch bytes per lane, static shared and code bytes.

    A cubin does not count spills; like Triton, ``spills`` is then the 32-bit words of its stack frame.
    """

    registers: int
    spills: int
    scratch_bytes: int
    static_shared_bytes: int
    code_bytes: int
    accumulation_registers: int = 0


@dataclass(frozen=True)
class Section:
    name: str
    data: bytes
    info: int


def sections(elf: bytes) -> list[Section]:
    """The sections of a 64-bit little-endian ELF file."""
    if elf[:5] != b"\x7fELF\x02":
        raise CompileError("the compiler's result is not a 64-bit ELF file")
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size) for i in range(count)]
    table = headers[names]
    strings = elf[table[4] : table[4] + table[5]]

    def text(at: int) -> str:
        return strings[at : strings.index(b"\0", at)].decode()

    return [Section(text(h[0]), b"" if h[1] == 8 else elf[h[4] : h[4] + h[5]], h[7]) for h in headers]


def read_cubin(elf: bytes) -> Usage:
    """What the only kernel of a cubin uses."""
    found = sections(elf)
    attributes = {code: value for s in found if s.name == ".nv.info" for code, value in _attributes(s.data)}
    code = [s for s in found if s.name.startswith(".text.")]
    if _REGCOUNT not in attributes or not code:
        raise CompileError("the cubin names no register count")
    frame = attributes.get(_FRAME_SIZE, 0)
    return Usage(attributes[_REGCOUNT], frame // 4, frame, 0, sum(len(s.data) for s in code))


def _attributes(data: bytes) -> Iterator[tuple[int, int]]:
    """(attribute, value) of the attributes that hold one number for one symbol."""
    at = 0
    while at + 4 <= len(data):
        form, code, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if size == 8:
                yield code, struct.unpack_from("<II", data, at)[1]
            at += size


_PARAMETER = 0x17
"""EIATTR_KPARAM_INFO: index, ordinal and offset, log alignment, space and bank; the size is in the upper 14 bits."""


def parameter_sizes(elf: bytes, kernel: str) -> tuple[int, ...]:
    """The sizes in bytes of a kernel's parameters in order, as its machine code (cubin or AMD code object) states them;
    hidden arguments of AMD kernels left out.  Raises :class:`CompileError` where it does not."""
    found = sections(elf)
    notes = [n for s in found if s.name == ".note" for n in _notes(s.data)]
    for k in (k for n in notes for k in n.get("amdhsa.kernels", ()) if k[".name"] == kernel):
        return tuple(a[".size"] for a in k.get(".args", ()) if not a[".value_kind"].startswith("hidden_"))
    sizes: dict[int, int] = {}
    for s in found:
        if s.name == f".nv.info.{kernel}":
            sizes |= dict(_parameters(s.data))
    if not sizes:
        raise CompileError(f"the machine code does not describe the parameters of {kernel}")
    return tuple(sizes[n] for n in sorted(sizes))


def _parameters(data: bytes) -> Iterator[tuple[int, int]]:
    """(ordinal, size) of each parameter of a cubin's kernel."""
    at = 0
    while at + 4 <= len(data):
        form, code, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if code == _PARAMETER and size == 12:
                _, ordinal, _, word = struct.unpack_from("<IHHI", data, at)
                yield ordinal, word >> 18
            at += size


def read_hsaco(elf: bytes) -> Usage:
    """What the only kernel of an AMD code object uses."""
    found = sections(elf)
    notes = [n for s in found if s.name == ".note" for n in _notes(s.data)]
    kernels = [k for n in notes for k in n.get("amdhsa.kernels", ())]
    if len(kernels) != 1:
        raise CompileError(f"the code object describes {len(kernels)} kernels, where one was expected")
    k = kernels[0]
    code = sum(len(s.data) for s in found if s.name == ".text")
    return Usage(k[".vgpr_count"], k.get(".vgpr_spill_count", 0) + k.get(".sgpr_spill_count", 0),
                 k[".private_segment_fixed_size"], k[".group_segment_fixed_size"], code, k.get(".agpr_count", 0))  # fmt: skip


def _notes(data: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        body = at + 12 + (name_size + 3) // 4 * 4
        if kind == 32 and data[at + 12 : at + 18] == b"AMDGPU":
            yield _Unpacker(data[body : body + size]).value()
        at = body + (size + 3) // 4 * 4


class _Unpacker:
    """As much of MessagePack as code object metadata uses."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> Any:
        (value,) = struct.unpack_from(f">{form}", self.data, self.at)
        self.at += struct.calcsize(f">{form}")
        return value

    def text(self, size: int) -> str:
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def array(self, size: int) -> list[Any]:
        return [self.value() for _ in range(size)]

    def map(self, size: int) -> dict[Any, Any]:
        return {self.value(): self.value() for _ in range(size)}

    def value(self) -> Any:
        tag = self.take("B")
        if tag < 0x80:
            return tag
        if tag < 0x90:
            return self.map(tag & 15)
        if tag < 0xA0:
            return self.array(tag & 15)
        if tag < 0xC0:
            return self.text(tag & 31)
        if tag >= 0xE0:
            return tag - 256
        simple = {0xC0: None, 0xC2: False, 0xC3: True}
        if tag in simple:
            return simple[tag]
        numbers = {0xCA: "f", 0xCB: "d", 0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q",
                   0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}  # fmt: skip
        if tag in numbers:
            return self.take(numbers[tag])
        sized = {0xC4: ("B", self.text), 0xC5: ("H", self.text), 0xC6: ("I", self.text), 0xD9: ("B", self.text),
                 0xDA: ("H", self.text), 0xDB: ("I", self.text), 0xDC: ("H", self.array), 0xDD: ("I", self.array),
                 0xDE: ("H", self.map), 0xDF: ("I", self.map)}  # fmt: skip
        if tag not in sized:
            raise CompileError(f"the code object's metadata holds the unknown tag {tag:#x}")
        form, read = sized[tag]
        return read(self.take(form))
