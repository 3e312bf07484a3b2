"""benchmarks/amd_emulators.py without a foreign emulator: what it does itself, and what it says of a folder that holds none."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.execution.program import load
from portakern.registry import registry
from tests.rocm.helpers import kernel, needs_clang

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.mark.parametrize("device", ["gfx942", "gfx1201"])
def test_code_objects_are_loaded_as_their_descriptors_say(device: str) -> None:
    import emulator_tinygrad as emulator

    needs_clang(device)
    text = """#include "pk/pk.h"
extern "C" __global__ void kernel(const float* a, float* out) { __shared__ float x[70]; x[threadIdx.x] = a[blockIdx.x];
__builtin_amdgcn_s_barrier(); out[threadIdx.x] = x[63 - threadIdx.x]; }"""
    toolchain = registry().languages["hip"].toolchain
    assert toolchain is not None
    binary = toolchain.compile(kernel(device, text, {"a": ((64,), "f32")}, {"out": ((64,), "f32")}))
    assert binary.assembly
    image = emulator.Image(binary.data)
    at = image.symbol("kernel.kd")
    d = emulator.Descriptor.read(ctypes.string_at(at, 64))
    code = load(binary.assembly, "kernel")
    assert d.shared_bytes == code.shared_bytes == 280
    assert at + d.entry == image.symbol("kernel")
    arguments = emulator.Room(struct.pack("<QQ", 0x1122334455667788, 0x99))
    registers = emulator.user_registers(d, arguments, emulator.Room(bytes(64)))
    address = registers.index(arguments.address & 0xFFFFFFFF)
    assert registers[address + 1] == arguments.address >> 32
    if d.preload:
        assert registers[address + 2 : address + 4] == [0x55667788, 0x11223344]
    with pytest.raises(RuntimeError, match="no symbol absent"):
        image.symbol("absent")


def test_repairs_move_values() -> None:
    import emulator_repairs as repairs

    lane = np.arange(64)
    assert np.array_equal(repairs.swizzled(lane, 1 << 10 | 31), lane ^ 1)
    assert np.array_equal(repairs.swizzled(lane, 0x8000 | 0b00_01_10_11), lane ^ 3)
    assert repairs.merged(0x11112222, 0x3333, True, True) == 0x33332222
    rows = np.zeros((4, 64), np.uint32)
    memory = np.arange(16, dtype=np.uint8)
    wide = repairs.Access(1, np.dtype(np.uint32), 2, store=False)
    wide.move(rows, 5, memory.ctypes.data + 1)
    assert rows[1:3, 5].tolist() == [0x04030201, 0x08070605]
    wide.move(rows, 5, 0)
    assert not rows.any()
    rows[3, 0] = 0xAABBCCDD
    repairs.Access(3, np.dtype(np.uint16), 1, store=True, upper=True).move(rows, 0, memory.ctypes.data + 3)
    assert memory[2:6].tolist() == [2, 0xBB, 0xAA, 5]


def test_elements_that_differ_are_counted() -> None:
    import amd_emulators

    def compared(*pairs: tuple[float, float]) -> Any:
        found = amd_emulators.Compared()
        found.add(*(np.array(x, np.float32) for x in zip(*pairs, strict=True)))
        return found

    one = np.float32(1)
    assert compared((1, 1), (np.nan, -np.nan)).other == 0
    assert compared((1, np.nextafter(one, np.float32(2)))).steps == 1
    assert compared((0.0, -0.0)).other == 1
    assert compared((np.nan, 1.0)).other == 1


def test_a_folder_without_the_emulator_is_an_error(tmp_path: Path) -> None:
    words = ["row_sum", "--tinygrad", str(tmp_path), "--targets", "hip:gfx942"]
    found = subprocess.run([sys.executable, str(FOLDER / "amd_emulators.py"), *words],
                           capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert found.returncode == 1
    assert "is no checkout of tinygrad" in found.stderr
