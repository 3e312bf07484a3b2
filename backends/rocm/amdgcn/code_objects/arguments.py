"""Kernel arguments: where the code object's metadata says each one lies (LLVM AMDGPUUsage, "Kernel Argument Metadata")."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from portakern.errors import SimulatorError


@dataclass(frozen=True)
class Parameter:
    """One argument of a kernel: bytes ``offset`` to ``offset + size`` of its segment; ``kind`` is the ``value_kind``."""

    offset: int
    size: int
    kind: str


def parameters(assembly: str) -> dict[str, tuple[Parameter, ...]]:
    """The arguments of every kernel by the kernel's name, in order."""
    found: dict[str, tuple[Parameter, ...]] = {}
    text = "\n".join(re.findall(r"\.amdgpu_metadata\n(.*?)\.end_amdgpu_metadata", assembly, re.DOTALL))
    for kernel in re.split(r"^  - (?=\.)", text, flags=re.MULTILINE)[1:]:
        name = re.search(r"^\s*\.name:\s+(\S+)", kernel, re.MULTILINE)
        listed = re.search(r"\.args:(.*?)(?=^    \.\w|\Z)", kernel, re.DOTALL | re.MULTILINE)
        if name:
            entries = re.split(r"^\s+- ", listed[1], flags=re.MULTILINE)[1:] if listed else []
            found[name[1].strip("'\"")] = tuple(_parameter(e) for e in entries)
    return found


def _parameter(entry: str) -> Parameter:
    fields = dict(re.findall(r"\.(\w+):\s+(\S+)", entry))
    return Parameter(int(fields["offset"]), int(fields["size"]), fields["value_kind"])


def pack(kernel: str, expected: Sequence[Parameter], values: Sequence[bytes], size: int, grid: Sequence[int],
         block: Sequence[int], dynamic_shared: int) -> tuple[bytearray, bytearray]:  # fmt: skip
    """The argument segment, and which of its bytes are defined.  ``values`` are those that the caller passes.

    Raises :class:`SimulatorError` where their number or a size is wrong.
    """
    segment, defined = bytearray(size), bytearray(size)
    shown = [p for p in expected if not p.kind.startswith("hidden_")]
    if len(shown) != len(values):
        raise SimulatorError(f"{kernel} has {len(shown)} parameters and is launched with {len(values)} arguments",
                             hint="the launch must name one argument for each parameter")  # fmt: skip
    pairs = list(zip(shown, values, strict=True))
    pairs += [(p, v) for p in expected if (v := _hidden(p, grid, block, dynamic_shared)) is not None]
    for p, value in pairs:
        if len(value) != p.size:
            raise SimulatorError(f"{kernel} has a parameter of {p.size} bytes and gets {len(value)}",
                                 hint="pointers and open dims take 8 bytes; scalars must have the kernel's type")  # fmt: skip
        segment[p.offset : p.offset + p.size] = value
        defined[p.offset : p.offset + p.size] = b"\1" * p.size
    return segment, defined


def dispatch_packet(grid: Sequence[int], block: Sequence[int], scratch: int, shared: int) -> bytes:
    """What a launch puts into the queue (HSA Platform System Architecture, kernel dispatch packet); kernels that ask for their
    block's size read it.  Grids are in work-items there."""
    items = [g * b for g, b in zip(grid, block, strict=True)]
    return struct.pack("<HHHHHHIIIIIQQQQ", 0, 3, *block, 0, *items, scratch, shared, 0, 0, 0, 0)


def _hidden(p: Parameter, grid: Sequence[int], block: Sequence[int], dynamic_shared: int) -> bytes | None:
    """An argument that the runtime adds by itself; ``None`` for one that is not known, which stays undefined."""
    for n, axis in enumerate("xyz"):
        known = {f"hidden_block_count_{axis}": grid[n], f"hidden_group_size_{axis}": block[n],
                 f"hidden_remainder_{axis}": 0, f"hidden_global_offset_{axis}": 0}  # fmt: skip
        if p.kind in known:
            return known[p.kind].to_bytes(p.size, "little")
    if p.kind == "hidden_grid_dims":
        return (3 if grid[2] > 1 else 2 if grid[1] > 1 else 1).to_bytes(p.size, "little")
    if p.kind == "hidden_dynamic_lds_size":
        return dynamic_shared.to_bytes(p.size, "little")
    return None
