"""Reads AMDGPU code objects: what each kernel uses, from the ELF notes and symbols alone.

The form is documented in LLVM's "User Guide for AMDGPU Backend": code object V3 and later carry a note of type
NT_AMDGPU_METADATA (32) with a MessagePack map whose ``amdhsa.kernels`` lists every kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from portakern.errors import PortakernError
from portakern.tools import elf

_NOTE_METADATA = 32
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


class CodeObject:
    """One AMDGPU ELF file.  Raises :class:`CodeObjectError` where it is none, or not all of one."""

    def __init__(self, data: bytes) -> None:
        try:
            self._file = elf.read(data)
        except elf.ElfError as error:
            raise CodeObjectError(f"these bytes are no code object: {error}") from error
        if self._file.machine != "EM_AMDGPU":
            raise CodeObjectError(f"these bytes are no code object: an ELF file for {self._file.machine}, not for AMDGPU")

    @property
    def isa(self) -> str:
        """The instruction set it was compiled for."""
        number = self._file.flags & 0xFF
        return _MACH.get(number, f"unknown ({number:#x})")

    @cached_property
    def kernels(self) -> dict[str, KernelUse]:
        """Every kernel by name."""
        return {name: self._kernel(k) for name, k in self._listed.items()}

    def arguments(self, kernel: str) -> tuple[tuple[int, int, str], ...]:
        """(offset, size, kind) of each argument of a kernel in order: ``global_buffer``, ``by_value``, ``hidden_...``."""
        if kernel not in self._listed:
            raise CodeObjectError(f"the code object holds no kernel {kernel}")
        return tuple((a[".offset"], a[".size"], a[".value_kind"]) for a in self._listed[kernel].get(".args", ()))

    @cached_property
    def _listed(self) -> dict[str, dict[str, Any]]:
        """What the metadata say of each kernel."""
        for note in self._file.notes:
            if note.kind == _NOTE_METADATA and note.owner == "AMDGPU" and "amdhsa.kernels" in (found := unpack(note.data)):
                return {k[".name"]: k for k in found["amdhsa.kernels"]}
        raise CodeObjectError(
            "the code object carries no kernel metadata",
            "it must be linked (ld.lld -shared) and of code object version 3 or later",
        )

    def _kernel(self, k: dict[str, Any]) -> KernelUse:
        # .vgpr_count is the total of a unified register file, .agpr_count its accumulation part.
        return KernelUse(
            k[".name"], k[".vgpr_count"], k.get(".agpr_count", 0), k[".sgpr_count"], k.get(".vgpr_spill_count", 0),
            k.get(".sgpr_spill_count", 0), k[".group_segment_fixed_size"], k[".private_segment_fixed_size"],
            k[".wavefront_size"], k[".max_flat_workgroup_size"], self._code_bytes.get(k[".name"], 0),
            bool(k.get(".uses_dynamic_stack", False)),
        )  # fmt: skip

    @cached_property
    def _code_bytes(self) -> dict[str, int]:
        return {s.name: s.size for s in self._file.symbols.get(".dynsym", ())}


def unpack(data: bytes) -> dict[str, Any]:
    """The map that a note of metadata holds.  Raises :class:`CodeObjectError` where it is none."""
    import msgpack  # takes 0.03 s

    try:
        found = msgpack.unpackb(data, strict_map_key=False)
    except Exception as error:  # ValueError and its own errors, which have no base in common
        raise CodeObjectError(f"the metadata of the code object cannot be read: {error or type(error).__name__}") from error
    if not isinstance(found, dict):
        raise CodeObjectError("the metadata of the code object are not a map")
    return found
