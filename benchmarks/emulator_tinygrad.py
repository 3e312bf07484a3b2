"""Code objects for AMD GPUs in tinygrad's emulator, which is read from a checkout: the inside of a worker process.

tinygrad (github.com/tinygrad/tinygrad) generates its emulator from the pseudocode in AMD's ISA documents.  It shares nothing
with portakern's machine: another decoder, on the bytes of the code object and not on assembly, another loader and other
arithmetic.  What is done here is what a driver does: segments into memory, registers as the kernel's descriptor asks.
"""

from __future__ import annotations

import ctypes
import io
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import emulator_repairs
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

ARCHITECTURES = {"gfx90a": "cdna", "gfx942": "cdna", "gfx950": "cdna", "gfx1100": "rdna3", "gfx1201": "rdna4"}
"""What the emulator calls them.  It has one CDNA, from the CDNA 4 document."""

ALIGNMENT = 4096
NEEDED = ("test/mockgpu/amd/emu.py", "tinygrad/renderer/amd/__init__.py")


@dataclass(frozen=True)
class Launch:
    """A kernel with everything but addresses: ``places`` says where in ``segment`` (the arguments) those of arrays go."""

    code: bytes
    kernel: str
    isa: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    segment: bytes
    places: tuple[tuple[int, str, int], ...]
    packet: bytes
    shared_bytes: int


@dataclass(frozen=True)
class Pattern:
    """``bytes_from`` to ``bytes_to`` of an array are filled with a pattern, over and over."""

    array: str
    pattern: bytes
    start: int
    stop: int


def execute(checkout: str, repaired: bool, arrays: Mapping[str, bytes], steps: Sequence[Launch | Pattern]) -> dict[str, bytes]:
    """The arrays after all steps.  ``repaired``: with what emulator_repairs does."""
    emulator = load(checkout, repaired)
    held = {name: Room(content) for name, content in arrays.items()}
    for step in steps:
        if isinstance(step, Pattern):
            size = step.stop - step.start
            held[step.array].write(step.start, (step.pattern * (size // len(step.pattern) + 1))[:size])
        else:
            run(emulator, step, held)
    return {name: room.read() for name, room in held.items()}


class Room:
    """Memory that begins at a page."""

    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self._held = ctypes.create_string_buffer(self.size + 2 * ALIGNMENT)
        self.address = -(-ctypes.addressof(self._held) // ALIGNMENT) * ALIGNMENT
        self.write(0, content)

    def write(self, offset: int, content: bytes) -> None:
        ctypes.memmove(self.address + offset, content, len(content))

    def read(self) -> bytes:
        return ctypes.string_at(self.address, self.size)


def commit(checkout: str) -> str:
    """Which one the checkout is of; '' where it does not say."""
    found = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() if (Path(checkout) / ".git").exists() else ""


def unfit(checkout: str) -> str:
    """What is wrong with a checkout; '' where nothing is seen without running it."""
    missing = [name for name in NEEDED if not (Path(checkout) / name).is_file()]
    compiler = os.environ.get("CC", "clang")
    if not missing and not shutil.which(compiler):
        return f"tinygrad compiles instructions with {compiler}, which is not found; install clang, or name one in CC"
    if not missing:
        return ""
    return (f"{checkout} is no checkout of tinygrad with an emulator that is known here: it lacks {missing[0]}; "
            "benchmarks/journals/amd-machine.md names a commit that fits")  # fmt: skip


@cache
def load(checkout: str, repaired: bool) -> Any:
    """The emulator's module.  Raises where ``checkout`` holds none that can be driven like this."""
    if problem := unfit(checkout):
        raise RuntimeError(problem)
    sys.path.insert(0, checkout)
    emu: Any = import_module("test.mockgpu.amd.emu")
    asked = {"lib", "gx", "lx", "args_ptr", "rsrc2", "scratch_size", "arch", "user_data"}
    taken = emu.run_asm.__code__.co_varnames[: emu.run_asm.__code__.co_argcount]
    if not asked <= set(taken):
        raise RuntimeError(f"run_asm in {checkout} takes {', '.join(taken)}: not what is known here")
    emu.flushing = emu._get_ftz_lib
    if repaired:
        emulator_repairs.install(emu)
    return emu


# ---- what a driver does ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descriptor:
    """LLVM AMDGPUUsage, "Code Object V3 Kernel Descriptor"."""

    shared_bytes: int
    scratch_bytes: int
    entry: int
    rsrc1: int
    rsrc2: int
    properties: int
    preload: int

    @classmethod
    def read(cls, content: bytes) -> Descriptor:
        shared, scratch, _ = struct.unpack_from("<III", content, 0)
        (entry,) = struct.unpack_from("<q", content, 16)
        rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIHH", content, 48)
        return cls(shared, scratch, entry, rsrc1, rsrc2, properties, preload)


class Image:
    """The segments of a code object in memory."""

    def __init__(self, code: bytes) -> None:
        file = ELFFile(io.BytesIO(code))
        segments = [s for s in file.iter_segments() if s["p_type"] == "PT_LOAD"]
        self.room = Room(bytes(max(s["p_vaddr"] + s["p_memsz"] for s in segments)))
        for s in segments:
            self.room.write(s["p_vaddr"], s.data())
        tables = [s for s in file.iter_sections() if isinstance(s, SymbolTableSection)]
        self.addresses = {x.name: self.room.address + x["st_value"] for table in tables for x in table.iter_symbols()}

    def symbol(self, name: str) -> int:
        """The address of a symbol."""
        if name not in self.addresses:
            raise RuntimeError(f"the code object has no symbol {name}")
        return self.addresses[name]


def run(emulator: Any, launch: Launch, arrays: Mapping[str, Room]) -> None:
    image = Image(launch.code)
    at = image.symbol(launch.kernel + ".kd")
    d = Descriptor.read(ctypes.string_at(at, 64))
    segment = bytearray(launch.segment)
    for place, name, offset in launch.places:
        segment[place : place + 8] = (arrays[name].address + offset).to_bytes(8, "little")
    arguments, packet = Room(bytes(segment)), Room(launch.packet)
    registers = user_registers(d, arguments, packet)
    shared = d.shared_bytes + launch.shared_bytes
    follow_mode(emulator, d)
    emulator.run_asm(
        at + d.entry + (256 if d.preload else 0), len(launch.code), *launch.grid, *launch.block, arguments.address,
        rsrc2=d.rsrc2 & ~(0x1FF << 15) | -(-shared // 512) << 15, scratch_size=d.scratch_bytes,
        arch=ARCHITECTURES[launch.isa], user_data=registers)  # fmt: skip


def user_registers(d: Descriptor, arguments: Room, packet: Room) -> list[int]:
    """LLVM AMDGPUUsage, "Initial Kernel Execution State": in this order, those that the descriptor enables."""

    def pair(value: int) -> list[int]:
        return [value & 0xFFFFFFFF, value >> 32]

    dwords = [[0, 0, 0, 0], pair(packet.address), pair(0), pair(arguments.address), pair(0), pair(0), [d.scratch_bytes]]
    found = [x for n, each in enumerate(dwords) if d.properties >> n & 1 for x in each]
    length, offset = d.preload & 0x7F, d.preload >> 7
    if length:
        found += struct.unpack(f"<{length}I", arguments.read()[4 * offset : 4 * (offset + length)])
    return found


def follow_mode(emulator: Any, d: Descriptor) -> None:
    """The emulator flushes denormals of f32 for all kernels; the descriptor's FLOAT_DENORM_MODE_32 says which want that."""
    keeps = d.rsrc1 >> 16 & 3 == 3
    emulator._get_ftz_lib = (lambda: (None, 0)) if keeps else emulator.flushing
