"""What tinygrad's emulator lacks or gets wrong and the kernels here need, done beside it (asked for with ``--repaired``).

Seen at the commit named in benchmarks/journals/amd-machine.md:

- a DPP instruction walks its lanes in order, so that one which writes the register it reads moves values already written; it
  reads from lanes that EXEC switches off; in the encoding VOP3 it is executed without DPP; controls 0x160 to 0x16f,
  ROW_XMASK (RDNA3 ISA 7.7; LLVM, ``DppCtrl``), are taken for ROW_SHARE, and raise;
- DS_SWIZZLE_B32 cannot be parsed, DS_BPERMUTE_B32 of CDNA ends with a segmentation fault, V_PERMLANE32_SWAP cannot be parsed;
- buffer loads and stores (CDNA) of 8 and 16 bits move 32, and those off a multiple of 4 bytes go to the one below, as do global
  stores of 32 bits and more;
- MFMA of 32 x 32 computes rows 16 (lane / 32) + register, where AMD's matrix calculator, and CDNA3 ISA 7.1.4, say
  8 (register / 4) + 4 (lane / 32) + register % 4.

Where an instruction only moves values it is done here.  DPP and MFMA are given a copy of a source, in registers that they do
not use, and do everything else themselves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

EXEC, PC, M0 = 126, 256, 124
"""Where the emulator's scalar registers hold them."""

BUFFERS = 6
"""What a function may ask for: scalar registers, vector registers, memory, LDS, scratch, accumulation registers."""

IDENTITY, XMASK = 0xE4, 0x160
"""DPP controls: quad_perm:[0,1,2,3], and the first of row_xmask."""

NARROW = {"ubyte": np.uint8, "sbyte": np.int8, "ushort": np.uint16, "sshort": np.int16, "byte": np.uint8, "short": np.uint16}

WIDE = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4, "b32": 1, "b64": 2, "b96": 3, "b128": 4}

Step = Callable[..., None]
Found = tuple[Any, Any]
"""An instruction as the emulator holds it: a function of addresses of buffers, with which of them it wants; and decoded."""


class State:
    """The registers of a wave, from what the emulator hands to an instruction."""

    def __init__(self, buffers: tuple[Any, ...], lanes: int) -> None:
        self.scalars = words(buffers[0].value, 260)
        self.rows = words(buffers[1].value, 256 * lanes).reshape(256, lanes)
        mask = int(self.scalars[EXEC]) | int(self.scalars[EXEC + 1]) << 32
        self.on = np.array([mask >> n & 1 for n in range(lanes)], bool)

    def wide(self, register: int) -> int:
        return int(self.scalars[register]) | int(self.scalars[register + 1]) << 32

    def advance(self, count: int) -> None:
        after = self.wide(PC) + count
        self.scalars[PC], self.scalars[PC + 1] = after & 0xFFFFFFFF, after >> 32

    def write(self, register: int, values: np.ndarray) -> None:
        self.rows[register] = np.where(self.on, values, self.rows[register])


def install(emulator: Any) -> None:
    plain = emulator._decode_at

    def decode(pc: int, arch: str) -> Found:
        inst = emulator.decode_inst(ctypes.string_at(pc, 16), arch)
        lanes = emulator._wave_size(arch)
        name = emulator._op_name(inst).lower()
        if is_long_dpp(pc, arch) or type(inst).__name__.endswith("_DPP16"):
            return dpp(plain, pc, arch, lanes)
        if "mfma" in name and "32x32x" in name:
            return rows_of_32(plain, pc, arch, inst)
        step = None
        if name in ("ds_swizzle_b32", "ds_bpermute_b32"):
            step = exchange(name, pc, lanes)
        elif name.startswith("v_permlane32_swap"):
            step = swap(pc, lanes)
        elif arch == "cdna" and name.startswith(("buffer_load_", "buffer_store_")):
            return buffer(plain, name, pc, arch, inst)
        elif name.startswith("global_store_") and name.split("_")[2] in WIDE:
            return stores(plain, name, pc, arch, lanes)
        return (program(step), inst) if step else plain(pc, arch)

    emulator._decode_at = decode


def program(step: Step) -> tuple[Any, Any]:
    return SimpleNamespace(arg=SimpleNamespace(globals=list(range(BUFFERS)))), SimpleNamespace(fxn=step)


def words(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(address))


# ---- DPP -------------------------------------------------------------------------------------------------------------------


def is_long_dpp(pc: int, arch: str) -> bool:
    """VOP3 whose first source is DPP16: 250 (RDNA3 ISA 15.3.4)."""
    first, second = (int(w) for w in words(pc, 2))
    return arch != "cdna" and first >> 26 == 0b110101 and second & 0x1FF == 250


def dpp(plain: Callable[[int, str], Found], pc: int, arch: str, lanes: int) -> Found:
    """An instruction that reads a copy of its source (RDNA3 ISA 7.7, CDNA3 ISA 6.2.10: "Data parallel primitives").

    In the encoding VOP3, whose third word the emulator ignores, it becomes one without DPP.
    """
    long = is_long_dpp(pc, arch)
    code = words(pc, 2 + long)
    first, second, last = int(code[0]), int(code[1]), int(code[-1])
    source, control, masks = last & 0xFF, last >> 8 & 0x1FF, last >> 24
    zeroes, fetches = last >> 19 & 1, last >> 18 & 1
    index = np.arange(lanes)
    if control & 0x1F0 == XMASK and arch != "cdna":
        index, control = index ^ (control & 15), IDENTITY
    if long and (control != IDENTITY or masks != 0xFF):
        raise RuntimeError(f"DPP {last:#x} in the long encoding is not known here")
    used = (first & 0xFF, second >> 9 & 0xFF, second >> 18 & 0xFF) if long else (first >> 17 & 0xFF, first >> 9 & 0xFF)
    spare = spared(1, {source, *used})
    code[1] = second & ~0x1FF | 256 + spare if long else last & ~0x1FFFF | control << 8 | spare
    (made, runtime), inst = plain(pc, arch)

    def step(*buffers: Any) -> None:
        s = State(buffers, lanes)
        moved = s.rows[source][index]
        if not fetches:
            if not zeroes and not s.on[index][s.on].all():
                raise RuntimeError("a DPP instruction without bound_ctrl reads a lane that is switched off")
            moved = np.where(s.on[index], moved, 0)
        kept = s.rows[spare].copy()
        s.rows[spare] = moved
        runtime.fxn(*(buffers[n] for n in made.arg.globals))
        s.rows[spare] = kept
        if long:
            s.advance(4)

    return program(step), inst


def spared(count: int, used: set[int]) -> int:
    """The last registers in a row that an instruction does not use."""
    return next(r for r in range(256 - count, 0, -1) if not used & set(range(r, r + count)))


# ---- MFMA ------------------------------------------------------------------------------------------------------------------


def rows_of_32(plain: Callable[[int, str], Found], pc: int, arch: str, inst: Any) -> Found:
    """With the rows of A in the order in which the emulator goes through them."""
    code, held = words(pc, 2), 4
    source, other = int(code[1]) & 0x1FF, int(code[1]) >> 9 & 0x1FF
    if source < 256 or int(code[1]) >> 27 & 3:
        raise RuntimeError("an MFMA of 32 x 32 whose A or B is no vector register is not known here")
    result, before = int(code[0]) & 0xFF, int(code[1]) >> 18 & 0x1FF
    taken = {n + k for n in (result, before - 256) for k in range(16)} | {other - 256 + k for k in range(held)}
    spare = spared(held, taken | {source - 256 + k for k in range(held)})
    row = np.arange(32)
    lane = 8 * (row % 16 // 4) + 4 * (row // 16) + row % 4
    index = np.concatenate([lane, lane + 32])
    code[1] = int(code[1]) & ~0x1FF | 256 + spare
    (made, runtime), inst = plain(pc, arch)

    def step(*buffers: Any) -> None:
        s = State(buffers, 64)
        kept = s.rows[spare : spare + held].copy()
        s.rows[spare : spare + held] = s.rows[source - 256 : source - 256 + held][:, index]
        runtime.fxn(*(buffers[n] for n in made.arg.globals))
        s.rows[spare : spare + held] = kept

    return program(step), inst


# ---- moves -----------------------------------------------------------------------------------------------------------------


def exchange(name: str, pc: int, lanes: int) -> Step:
    """ds_swizzle_b32 and ds_bpermute_b32 (CDNA3 ISA 11.4, RDNA3 ISA 12.5): no memory is touched."""
    code = words(pc, 2)
    offset, operands = int(code[0]) & 0xFFFF, int(code[1])
    address, data, to = operands & 0xFF, operands >> 8 & 0xFF, operands >> 24

    def step(*buffers: Any) -> None:
        s = State(buffers, lanes)
        if name == "ds_swizzle_b32":
            index, values = swizzled(np.arange(lanes), offset), s.rows[address]
        else:
            index, values = (s.rows[address] + np.uint32(offset)) // 4 % lanes, s.rows[data]
        s.write(to, np.where(s.on[index], values[index], 0))
        s.advance(8)

    return step


def swizzled(lane: np.ndarray, offset: int) -> np.ndarray:
    if offset & 0x8000:
        if offset >> 8 != 0x80:
            raise RuntimeError(f"ds_swizzle_b32 with offset {offset:#x} is not known here")
        return lane & ~3 | offset >> 2 * (lane & 3) & 3
    return lane & ~31 | (lane & 31 & offset | offset >> 5 & 31) ^ offset >> 10 & 31


def swap(pc: int, lanes: int) -> Step:
    """v_permlane32_swap_b32: the upper half of the first register for the lower half of the second (CDNA4 ISA, VOP1)."""
    (word,) = (int(w) for w in words(pc, 1))
    to, source = word >> 17 & 0xFF, word & 0x1FF
    if source < 256 or source in (0xF9 + 256, 250):
        raise RuntimeError(f"v_permlane32_swap_b32 of operand {source} is not known here")

    def step(*buffers: Any) -> None:
        s = State(buffers, lanes)
        if not s.on.all():
            raise RuntimeError("v_permlane32_swap_b32 with lanes switched off is not known here")
        a, b = s.rows[to], s.rows[source - 256]
        a[32:], b[:32] = b[:32].copy(), a[32:].copy()
        s.advance(4)

    return step


# ---- memory ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """What a lane loads or stores at its address."""

    data: int
    kind: np.dtype[Any]
    count: int
    store: bool
    half: bool = False
    upper: bool = False

    @property
    def size(self) -> int:
        return self.kind.itemsize * self.count

    def move(self, rows: np.ndarray, lane: int, address: int) -> None:
        """Between memory and a lane; ``address`` 0: beyond the end, where loads give 0 and stores do nothing."""
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(address)) if address else None
        registers = rows[self.data : self.data + self.count]
        if self.store:
            if memory is not None:
                memory[:] = (registers[:, lane] >> 16 * self.upper).copy().view(np.uint8)[: self.size]
        elif self.size >= 4:
            registers[:, lane] = 0 if memory is None else memory.view(np.uint32)
        else:
            value = 0 if memory is None else int(memory.view(self.kind)[0])
            registers[0, lane] = merged(int(registers[0, lane]), value & 0xFFFFFFFF, self.half, self.upper)


def merged(old: int, value: int, half: bool, upper: bool) -> int:
    """A value loaded into a register, or into one half of it."""
    if not half:
        return value
    return old & 0xFFFF | (value & 0xFFFF) << 16 if upper else old & 0xFFFF0000 | value & 0xFFFF


def buffer(plain: Callable[[int, str], Found], name: str, pc: int, arch: str, inst: Any) -> Found:
    """Raw buffer accesses (CDNA3 ISA 9.1), where they are narrow or off their alignment."""
    low, high = (int(w) for w in words(pc, 2))
    what = name.split("_")[2]
    if low >> 13 & 1 or low >> 16 & 1 or high >> 23 & 1 or "format" in name or what not in (*NARROW, *WIDE):
        return plain(pc, arch)
    offset, by_lane = low & 0xFFF, low >> 12 & 1
    address, resource, scalar = high & 0xFF, 4 * (high >> 16 & 31), high >> 24
    kind, count = np.dtype(NARROW.get(what, np.uint32)), WIDE.get(what, 1)
    a = Access(high >> 8 & 0xFF, kind, count, "store" in name, "_d16" in name, "_d16_hi" in name)
    (made, runtime), inst = plain(pc, arch)

    def step(*buffers: Any) -> None:
        s = State(buffers, 64)
        base, size = s.wide(resource) & 0xFFFFFFFFFFFF, int(s.scalars[resource + 2])
        start = int(s.scalars[scalar]) if scalar < 106 or scalar == M0 else scalar - 128
        at = offset + (s.rows[address].astype(np.int64) if by_lane else np.zeros(64, np.int64))
        if a.kind.itemsize == 4 and not np.any((base + start + at[s.on]) % 4):
            runtime.fxn(*(buffers[n] for n in made.arg.globals))
            return
        for lane in np.flatnonzero(s.on):
            inside = at[lane] + a.size <= size
            a.move(s.rows, int(lane), base + start + int(at[lane]) if inside else 0)
        s.advance(8)

    return program(step), inst


def stores(plain: Callable[[int, str], Found], name: str, pc: int, arch: str, lanes: int) -> Found:
    """Global stores of dwords off their alignment (CDNA3 ISA 10.3, RDNA3 and RDNA4 ISA 11.2)."""
    w = [int(x) for x in words(pc, 3)]
    if arch == "rdna4":
        scalar, data, address, offset, none, size = w[0] & 0x7F, w[1] >> 23 & 0xFF, w[2] & 0xFF, signed(w[2] >> 8, 24), 124, 12
    else:
        none = 0x7F if arch == "cdna" else 124
        scalar, data, address, offset, size = w[1] >> 16 & 0x7F, w[1] >> 8 & 0xFF, w[1] & 0xFF, signed(w[0] & 0x1FFF, 13), 8
    a = Access(data, np.dtype(np.uint32), WIDE[name.split("_")[2]], True)
    found = plain(pc, arch)
    if arch == "cdna" and w[1] >> 23 & 1:
        return found
    (made, runtime), inst = found

    def step(*buffers: Any) -> None:
        s = State(buffers, lanes)
        at = s.rows[address].astype(np.uint64)
        at = at + np.uint64(s.wide(scalar)) if scalar != none else at | s.rows[address + 1].astype(np.uint64) << np.uint64(32)
        at = at.astype(np.int64) + offset
        if not np.any(at[s.on] % 4):
            runtime.fxn(*(buffers[n] for n in made.arg.globals))
            return
        for lane in np.flatnonzero(s.on):
            a.move(s.rows, int(lane), int(at[lane]))
        s.advance(size)

    return program(step), inst


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> bits - 1 else x
