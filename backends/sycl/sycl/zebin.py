"""Reads what Intel's GPU compiler leaves in its binary: an ELF file with the machine code of each kernel in a section
``.text.<name>`` and, in ``.ze_info``, a YAML text about them (zebin, the format of the Intel compute runtime)."""

from __future__ import annotations

import re

from portakern.backend import Resources
from portakern.errors import CompileError
from portakern.tools import elf

_PREFIX = "__sycl_kernel_"
_GRF_BYTES = 64  # of one register of Xe HPC


def sections(data: bytes) -> dict[str, bytes]:
    """The sections of a binary by name."""
    try:
        return {s.name: s.data for s in elf.read(data).sections}
    except elf.ElfError as error:
        raise CompileError(f"the GPU compiler's binary is no zebin: {error}") from error


def resources(data: bytes, source: str) -> tuple[Resources, ...]:
    """What each kernel of a binary uses."""
    parts = sections(data)
    info = parts.get(".ze_info", b"").decode(errors="replace")
    body = info.split("kernels_misc_info:")[0]
    found = []
    for block in re.split(r"\n  - name:\s+", body)[1:]:
        name = block.split()[0].strip("'")
        grf, simd = _number(block, "grf_count", 0), _number(block, "simd_size", 16)
        spill, private = _buffer(block, "spill_fill_space"), _buffer(block, "private_space")
        code = parts.get(f".text.{name}")
        found.append(Resources(
            kernel=name.removeprefix(_PREFIX),
            registers=grf * _GRF_BYTES // 4 // simd if grf else None,
            spills=spill // 4 // simd,
            scratch_bytes=(spill + private) // simd,
            shared_bytes=_number(block, "slm_size", 0),
            code_bytes=len(code) if code is not None else None,
            source=source,
            extra=(("grf_count", grf), ("simd_size", simd), ("spill_bytes_per_thread", spill),
                   ("dpas", "has_dpas:" in block), ("barriers", _number(block, "barrier_count", 0))),
        ))  # fmt: skip
    return tuple(found)


def _number(text: str, key: str, default: int) -> int:
    match = re.search(rf"\b{key}:\s+(\d+)", text)
    return int(match[1]) if match else default


def _buffer(text: str, usage: str) -> int:
    """The bytes per hardware thread of a memory buffer with this usage; its entry may name them in any order."""
    total = 0
    part = text.partition("per_thread_memory_buffers:")[2]
    for entry in re.split(r"\n\s+- ", part):
        if "usage:" in entry and usage in entry:
            total += _number(entry, "size", 0)
    return total
