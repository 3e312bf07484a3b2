"""Reads what a kernel uses from its cubin, an ELF file, and computes the occupancy that follows.

NVIDIA does not document the ``.nv.info`` sections; the attribute numbers are those that ``cuobjdump -elf`` prints as
EIATTR_REGCOUNT, EIATTR_FRAME_SIZE and EIATTR_MAX_THREADS, and the tests hold them against what ptxas itself reports.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from portakern.backend import Resources
from portakern.device import Device
from portakern.errors import BackendError
from portakern.tools import elf

_SVAL = 0x04  # an attribute whose value of `size` bytes follows
_FRAME_SIZE, _REGCOUNT, _MAX_THREADS, _PARAM_CBANK, _KPARAM_INFO = 0x11, 0x2F, 0x05, 0x0A, 0x17
_SYSTEM_SHARED = 1024

SOURCE = "cubin (.nv.info, section sizes); spills from ptxas -v"


@dataclass(frozen=True)
class KernelFacts:
    """Of one kernel: registers per thread, stack frame and static shared memory and machine code in bytes, and how many
    threads a block may have by its launch bounds (0: they say nothing)."""

    registers: int
    frame: int
    shared: int
    code: int
    most_threads: int = 0


def kernels_of(cubin: bytes) -> dict[str, KernelFacts]:
    """Every kernel of ``cubin`` by name.

    Raises :class:`BackendError` when it is no cubin.
    """
    try:
        file = elf.read(cubin)
    except elf.ElfError as error:
        raise BackendError(f"the compiler's output is no cubin: {error}") from error
    by_name = {s.name: s for s in file.sections}
    registers = _attributes(file, _REGCOUNT)
    frames = _attributes(file, _FRAME_SIZE)
    # From sm_90 on, shared memory begins with what the system reserves in each block.
    reserved = _SYSTEM_SHARED if ".nv.shared.reserved.0" in by_name else 0
    found: dict[str, KernelFacts] = {}
    for s in file.sections:
        if s.name.startswith(".text."):
            name = s.name.removeprefix(".text.")
            shared = by_name.get(f".nv.shared.{name}")
            size = max(0, shared.size - reserved) if shared else 0
            found[name] = KernelFacts(registers.get(name, 0), frames.get(name, 0), size, s.size, _bound(by_name, name))
    return found


def _attributes(file: elf.Elf, wanted: int) -> dict[str, int]:
    """The value of one attribute for each symbol, from the section about the whole file."""
    symbols = file.symbols.get(".symtab", ())
    found: dict[str, int] = {}
    for info in (s.data for s in file.sections if s.name == ".nv.info"):
        for attribute, value in _entries(info):
            if attribute == wanted and len(value) == 8:
                index, number = struct.unpack("<II", value)
                found[symbols[index].name] = number
    return found


def _bound(sections: Mapping[str, elf.Section], kernel: str) -> int:
    info = sections.get(f".nv.info.{kernel}")
    for attribute, value in _entries(info.data) if info else ():
        if attribute == _MAX_THREADS and len(value) == 12:
            x, y, z = struct.unpack("<III", value)
            return x * y * z
    return 0


def _entries(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _SVAL:
            yield attribute, info[at : at + size]
            at += size


@dataclass(frozen=True)
class Parameters:
    """Where a kernel's parameters lie in constant bank 0: ``base``, and (offset, bytes) of each."""

    base: int
    places: tuple[tuple[int, int], ...]


def parameters_of(cubin: bytes, kernel: str) -> Parameters:
    """Raises :class:`BackendError` where the cubin does not say."""
    sections = {s.name: s for s in elf.read(cubin).sections}
    info = sections.get(f".nv.info.{kernel}")
    base, places = None, {}
    for attribute, value in _entries(info.data) if info else ():
        if attribute == _PARAM_CBANK and len(value) == 8:
            base = struct.unpack("<IHH", value)[1]
        if attribute == _KPARAM_INFO and len(value) == 12:
            _, ordinal, offset, rest = struct.unpack("<IHHI", value)
            places[ordinal] = offset, rest >> 18
    if base is None:
        raise BackendError(f"the cubin does not say where the parameters of {kernel} are")
    return Parameters(base, tuple(places[n] for n in sorted(places)))


# ---- what the compiler says --------------------------------------------------------------------------------------------


def spills_of(log: str) -> dict[str, int]:
    """Bytes of spill stores and loads per kernel, from the text of ``ptxas -v``."""
    found: dict[str, int] = {}
    for match in re.finditer(r"Function properties for (\S+)", log):
        counts = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log[match.end() : match.end() + 300])
        if counts:
            found[match[1]] = int(counts[1]) + int(counts[2])
    return found


# ---- occupancy ---------------------------------------------------------------------------------------------------------


def occupancy(device: Device, threads: int, registers: int, shared: int) -> tuple[float, str]:
    """The share of an SM's thread slots that blocks of ``threads`` threads fill, and what limits it.

    ``shared`` is static plus dynamic shared memory in bytes.  After cuda_occupancy.h of the CUDA toolkit.
    """
    warps = -(-threads // device.count("subgroup"))
    limits = {"threads": device.count("threads_per_unit") // (warps * device.count("subgroup")),
              "blocks": device.count("blocks_per_unit")}  # fmt: skip
    granule, parts = device.count("register_granule"), device.count("partitions_per_unit")
    per_warp = _round_up(max(registers, 1) * device.count("subgroup"), granule)
    limits["registers"] = device.count("registers_per_unit") // parts // per_warp * parts // warps
    per_block = _round_up(shared + device.count("shared_bytes_reserved"), device.count("shared_granule"))
    limits["shared memory"] = device.count("shared_bytes_per_unit") // per_block
    # Where several limit alike, the thread slots come first: then nothing is left to gain.
    limiter = min(limits, key=lambda name: limits[name])
    return limits[limiter] * warps * device.count("subgroup") / device.count("threads_per_unit"), limiter


def _round_up(n: int, granule: int) -> int:
    return -(-n // granule) * granule


def resources(
    cubin: bytes, log: str, device: Device, launches: Mapping[str, tuple[int, int]]
) -> tuple[Resources, ...]:
    """What each kernel in ``launches`` (name -> threads per block, dynamic shared bytes) uses."""
    facts, spills = kernels_of(cubin), spills_of(log)
    found: list[Resources] = []
    for name, (threads, dynamic) in launches.items():
        if name not in facts:
            raise BackendError(f"the cubin holds no kernel {name!r}", hint=f"it holds {', '.join(facts) or 'none'}")
        k = facts[name]
        shared = k.shared + dynamic
        share, limiter = occupancy(device, min(threads, k.most_threads or threads), k.registers, shared)
        found.append(Resources(name, k.registers, spills.get(name), k.frame, shared, k.code, share, limiter, SOURCE,
                               (("static_shared_bytes", k.shared),)))  # fmt: skip
    return tuple(found)
