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
from portakern.tools import elf

_REGCOUNT, _FRAME_SIZE = 0x2F, 0x11
_AMD_METADATA = 32  # NT_AMDGPU_METADATA
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


def _read(code: bytes) -> elf.Elf:
    try:
        return elf.read(code)
    except elf.ElfError as error:
        raise CompileError(f"the compiler's result is no machine code: {error}") from error


def read_cubin(code: bytes) -> Usage:
    """What the only kernel of a cubin uses."""
    found = _read(code).sections
    attributes = {code: value for s in found if s.name == ".nv.info" for code, value in _attributes(s.data)}
    texts = [s for s in found if s.name.startswith(".text.")]
    if _REGCOUNT not in attributes or not texts:
        raise CompileError("the cubin names no register count")
    frame = attributes.get(_FRAME_SIZE, 0)
    return Usage(attributes[_REGCOUNT], frame // 4, frame, 0, sum(s.size for s in texts))


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


def parameter_sizes(code: bytes, kernel: str) -> tuple[int, ...]:
    """The sizes in bytes of a kernel's parameters in order, as its machine code (cubin or AMD code object) states them;
    hidden arguments of AMD kernels left out.  Raises :class:`CompileError` where it does not."""
    file = _read(code)
    for k in (k for k in _amd_kernels(file) if k[".name"] == kernel):
        return tuple(a[".size"] for a in k.get(".args", ()) if not a[".value_kind"].startswith("hidden_"))
    sizes: dict[int, int] = {}
    for s in file.sections:
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


def read_hsaco(code: bytes) -> Usage:
    """What the only kernel of an AMD code object uses."""
    file = _read(code)
    kernels = _amd_kernels(file)
    if len(kernels) != 1:
        raise CompileError(f"the code object describes {len(kernels)} kernels, where one was expected")
    k = kernels[0]
    size = sum(s.size for s in file.sections if s.name == ".text")
    return Usage(k[".vgpr_count"], k.get(".vgpr_spill_count", 0) + k.get(".sgpr_spill_count", 0),
                 k[".private_segment_fixed_size"], k[".group_segment_fixed_size"], size, k.get(".agpr_count", 0))  # fmt: skip


def _amd_kernels(file: elf.Elf) -> list[dict[str, Any]]:
    """What the notes of an AMD code object say of each kernel; none for other files."""
    import msgpack  # takes 0.03 s

    notes = [n.data for n in file.notes if n.owner == "AMDGPU" and n.kind == _AMD_METADATA]
    try:
        return [k for note in notes for k in msgpack.unpackb(note).get("amdhsa.kernels", ())]
    except Exception as error:  # ValueError and its own errors, which have no base in common
        raise CompileError(f"the metadata of the code object cannot be read: {error or type(error).__name__}") from error
