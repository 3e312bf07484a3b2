"""Reads AMDGPU code objects: what each kernel uses, from the ELF notes and symbols alone.

The form is documented in LLVM's "User Guide for AMDGPU Backend": code object V3 and later carry a note of type
NT_AMDGPU_METADATA (32) with a MessagePack map whose ``amdhsa.kernels`` lists every kernel, and a 64-byte kernel descriptor
at the symbol ``<kernel>.kd``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from portakern.errors import PortakernError

_MACHINE_AMDGPU = 224
_NOTE_METADATA = 32
_SEGMENT_LOAD, _SEGMENT_NOTE = 1, 4
_SECTION_DYNSYM = 11
_MACH = {0x03F: "gfx90a", 0x04C: "gfx942", 0x04F: "gfx950", 0x041: "gfx1100", 0x04E: "gfx1201"}
"""EF_AMDGPU_MACH_*: the low byte of the ELF flags."""


class CodeObjectError(PortakernError):
    """The bytes are not a code object this reader understands."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__("code-object", message, hint)


@dataclass(frozen=True)
class KernelUse:
    """What one kernel uses.  Registers are per lane; ``registers`` counts the unified file (VGPRs and AGPRs together),
    ``agprs`` the accumulation registers among them; bytes are per work-group (LDS) and per lane (scratch)."""

    name: str
    registers: int
    agprs: int
    scalars: int
    vector_spills: int
    scalar_spills: int
    shared_bytes: int
    scratch_bytes: int
    wave: int
    max_threads: int
    code_bytes: int
    dynamic_stack: bool


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


class CodeObject:
    """One AMDGPU ELF file.  Raises :class:`CodeObjectError` where it is none."""

    def __init__(self, data: bytes) -> None:
        if data[:5] != b"\x7fELF\x02" or len(data) < 64 or struct.unpack_from("<H", data, 18)[0] != _MACHINE_AMDGPU:
            raise CodeObjectError("these bytes are not a 64-bit ELF file for AMDGPU")
        self.data = data

    @cached_property
    def isa(self) -> str:
        """The instruction set it was compiled for."""
        flags = struct.unpack_from("<I", self.data, 48)[0]
        return _MACH.get(flags & 0xFF, f"unknown ({flags & 0xFF:#x})")

    @cached_property
    def kernels(self) -> dict[str, KernelUse]:
        """Every kernel by name."""
        for note in self._notes():
            listed = note.get("amdhsa.kernels") if isinstance(note, dict) else None
            if listed is not None:
                return {k[".name"]: self._kernel(k) for k in listed}
        raise CodeObjectError(
            "the code object carries no kernel metadata",
            "it must be linked (ld.lld -shared) and of code object version 3 or later",
        )

    def arguments(self, kernel: str) -> tuple[tuple[int, int, str], ...]:
        """(offset, size, kind) of each argument of a kernel in order: ``global_buffer``, ``by_value``, ``hidden_...``."""
        for note in self._notes():
            for k in note.get("amdhsa.kernels") or () if isinstance(note, dict) else ():
                if k[".name"] == kernel:
                    return tuple((a[".offset"], a[".size"], a[".value_kind"]) for a in k.get(".args", ()))
        raise CodeObjectError(f"the code object holds no kernel {kernel}")

    def _kernel(self, k: dict[str, Any]) -> KernelUse:
        # .vgpr_count is the total of a unified register file, .agpr_count its accumulation part.
        return KernelUse(
            k[".name"], k[".vgpr_count"], k.get(".agpr_count", 0), k[".sgpr_count"], k.get(".vgpr_spill_count", 0),
            k.get(".sgpr_spill_count", 0), k[".group_segment_fixed_size"], k[".private_segment_fixed_size"],
            k[".wavefront_size"], k[".max_flat_workgroup_size"], self.symbols.get(k[".name"], (0, 0))[1],
            bool(k.get(".uses_dynamic_stack", False)),
        )  # fmt: skip

    def descriptor(self, kernel: str) -> dict[str, int]:
        """The kernel descriptor the hardware is set up from: LDS and scratch bytes, kernel argument bytes, entry address
        and the three resource words."""
        address = self.symbols[f"{kernel}.kd"][0]
        at = next(
            s.offset + address - s.address
            for s in self._segments()
            if s.kind == _SEGMENT_LOAD and s.address <= address < s.address + s.size
        )
        shared, scratch, arguments = struct.unpack_from("<III", self.data, at)
        (entry,) = struct.unpack_from("<q", self.data, at + 16)
        rsrc3, rsrc1, rsrc2 = struct.unpack_from("<III", self.data, at + 44)
        return {
            "shared_bytes": shared,
            "scratch_bytes": scratch,
            "argument_bytes": arguments,
            "entry": address + entry,
            "rsrc1": rsrc1,
            "rsrc2": rsrc2,
            "rsrc3": rsrc3,
        }

    @cached_property
    def symbols(self) -> dict[str, tuple[int, int]]:
        """Dynamic symbols: name -> (address, size in bytes)."""
        found: dict[str, tuple[int, int]] = {}
        (offset,) = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + size * n) for n in range(count)]
        for header in headers:
            if header[1] != _SECTION_DYNSYM:
                continue
            names = headers[header[6]][4]
            for at in range(header[4], header[4] + header[5], 24):
                name, _, _, _, value, length = struct.unpack_from("<IBBHQQ", self.data, at)
                end = self.data.index(b"\0", names + name)
                found[self.data[names + name : end].decode()] = (value, length)
        return found

    def _segments(self) -> list[_Segment]:
        (offset,) = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        found = []
        for n in range(count):
            kind, _, start, address, _, length, _, _ = struct.unpack_from("<IIQQQQQQ", self.data, offset + size * n)
            found.append(_Segment(kind, start, address, length))
        return found

    def _notes(self) -> Iterator[Any]:
        for segment in self._segments():
            at, end = segment.offset, segment.offset + segment.size
            while segment.kind == _SEGMENT_NOTE and at < end:
                name, length, kind = struct.unpack_from("<III", self.data, at)
                start = at + 12 + (name + 3 & ~3)
                if kind == _NOTE_METADATA:
                    yield unpack(self.data[start : start + length])
                at = start + (length + 3 & ~3)


# ---- MessagePack, the part that metadata uses -----------------------------------------------------------------------

_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
            0xD3: ">q"}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZED = {0xD9: ("text", 1), 0xDA: ("text", 2), 0xDB: ("text", 4), 0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("map", 2),
          0xDF: ("map", 4)}  # fmt: skip


def unpack(data: bytes) -> Any:
    """The value that ``data`` encodes (MessagePack specification; no binary or extension types)."""
    return _Unpacker(data).value()


class _Unpacker:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def value(self) -> Any:
        (code,) = self.take(1)
        if code < 0x80:
            return code
        if code < 0xC0:
            kind, size = ("map", code & 15) if code < 0x90 else ("list", code & 15) if code < 0xA0 else ("text", code & 31)
            return self.many(kind, size)
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return struct.unpack(_NUMBERS[code], self.take(struct.calcsize(_NUMBERS[code])))[0]
        if code in _SIZED:
            kind, width = _SIZED[code]
            return self.many(kind, int.from_bytes(self.take(width), "big"))
        if code >= 0xE0:
            return code - 256
        raise CodeObjectError(f"the metadata holds a value of unknown kind {code:#x}")

    def many(self, kind: str, size: int) -> Any:
        if kind == "text":
            return self.take(size).decode()
        if kind == "list":
            return [self.value() for _ in range(size)]
        return {self.value(): self.value() for _ in range(size)}
