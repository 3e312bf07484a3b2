"""What a wave finds when it starts: its arguments in memory, scalars in registers, and the numbers of its lanes.

LLVM, "User Guide for AMDGPU Backend", "Initial Kernel Execution State": user scalars in the order of the descriptor's
directives, preloaded arguments, then workgroup numbers (gfx12: in trap temporaries); lane numbers packed into ``v0`` by
10 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from portakern.backend import Argument, Dispatch
from portakern.errors import PortakernError

from ..code_objects.reader import CodeObject
from .generation import Generation
from .values import TTMP, InitialWaveState

ARGUMENTS = 0x7000_0000_0000
DISPATCH = 0x7100_0000_0000
"""Addresses that stand for the arguments and for the dispatch packet."""
SPACING = 1 << 40
"""Between the arrays, which begin at multiples of it."""

_USER = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)


def places_of(dispatch: Dispatch) -> dict[str, int]:
    """Addresses by the names of the arrays that a launch is given."""
    names = dict.fromkeys(a.array for a in dispatch.args if a.array)
    return {name: (n + 1) * SPACING for n, name in enumerate(names)}


def arguments_of(dispatch: Dispatch) -> bytes:
    """The kernel's arguments as they lie in memory, those that the compiler added among them; none where none are given, so
    that what a kernel reads of them is unknown."""
    if not dispatch.args:
        return b""
    places = places_of(dispatch)
    given = [_bytes(a, places) for a in dispatch.args]
    layout = CodeObject(dispatch.code).arguments(dispatch.kernel) if dispatch.code else None
    if layout is None:
        return _packed(given)
    data = bytearray(max((offset + size for offset, size, _ in layout), default=0))
    explicit = [x for x in layout if not x[2].startswith("hidden_")]
    if len(explicit) != len(given):
        raise PortakernError("bad-launch", f"{dispatch.kernel} takes {len(explicit)} arguments and is given {len(given)}")
    for (offset, size, _), value in zip(explicit, given, strict=True):
        data[offset : offset + size] = value[:size].ljust(size, b"\0")
    for offset, size, kind in layout:
        if kind.startswith("hidden_"):
            data[offset : offset + size] = _hidden(kind, dispatch).to_bytes(8, "little")[:size].ljust(size, b"\0")
    return bytes(data)


def _bytes(argument: Argument, places: Mapping[str, int]) -> bytes:
    if argument.array:
        return struct.pack("<Q", places[argument.array] + argument.offset)
    return argument.value or bytes(8)


def _packed(values: Sequence[bytes]) -> bytes:
    """Each at a multiple of its own size."""
    data = bytearray()
    for value in values:
        data += bytes(-len(data) % min(8, max(1, len(value)))) + value
    return bytes(data)


def _hidden(kind: str, dispatch: Dispatch) -> int:
    """LLVM, "Code Object V5 Metadata": numbers of blocks, sizes of blocks; 0 for what says nothing of addresses."""
    axis = "xyz".find(kind[-1])
    if kind.startswith("hidden_block_count"):
        return dispatch.grid[axis]
    if kind.startswith("hidden_group_size"):
        return dispatch.block[axis]
    return 3 if kind == "hidden_grid_dims" else 0


def start_of(
    dispatch: Dispatch, descriptor: Mapping[str, int], arguments: bytes, block: int, wave: int, of: Generation
) -> InitialWaveState:
    """The start of wave number ``wave`` of workgroup number ``block`` (counted along x first)."""
    scalars: list[int | None] = []
    for name, count in _USER:
        if not descriptor.get(f"user_sgpr_{name}"):
            continue
        if name == "kernarg_segment_ptr":
            scalars += [ARGUMENTS & 0xFFFFFFFF, ARGUMENTS >> 32]
        elif name == "dispatch_ptr":
            scalars += [DISPATCH & 0xFFFFFFFF, DISPATCH >> 32]
        else:
            scalars += [None] * count
    first, length = (descriptor.get(f"user_sgpr_kernarg_preload_{k}", 0) for k in ("offset", "length"))
    for n in range(first, first + length):
        word = arguments[4 * n : 4 * n + 4]
        scalars.append(int.from_bytes(word, "little") if len(word) == 4 else None)
    scalars += [0] * (descriptor.get("user_sgpr_count", 0) - len(scalars))  # gfx11: nothing is in those before the numbers
    gx, gy, _ = dispatch.grid
    numbers = (block % gx, block // gx % gy, block // (gx * gy))
    if of.loads == "loadcnt":
        temporaries = {TTMP + 9: numbers[0], TTMP + 7: numbers[1] | numbers[2] << 16}
        return InitialWaveState(tuple(scalars), _items(dispatch, wave, of.lanes), ARGUMENTS, arguments, temporaries)
    for axis, number in enumerate(numbers):
        if descriptor.get(f"system_sgpr_workgroup_id_{'xyz'[axis]}", 1 if axis == 0 else 0):
            scalars.append(number)
    return InitialWaveState(tuple(scalars), _items(dispatch, wave, of.lanes), ARGUMENTS, arguments)


def _items(dispatch: Dispatch, wave: int, lanes: int) -> np.ndarray:
    """Lane numbers packed as gfx90a and later give them."""
    bx, by, _ = dispatch.block
    n = wave * lanes + np.arange(lanes)
    x, y, z = n % bx, n // bx % by, n // (bx * by)
    return x | y << 10 | z << 20


def waves_of(dispatch: Dispatch, lanes: int) -> int:
    bx, by, bz = dispatch.block
    return -(-bx * by * bz // lanes)
