"""The HIP runtime on a stand-in for AMD's library, and its absence (the driver beneath: test_driver.py)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from portakern.backends.rocm.runtime import LIBRARY, HipRuntime
from tests.rocm.helpers import target
from tests.rocm.standin import standin

USE = r"""
import numpy as np
from portakern.backend import CompiledBinary, HostBuffer, Launch, Source
from portakern.backends.rocm.runtime import HipRuntime
from portakern.errors import PortakernError
from portakern.ir.program import Array
from portakern.ir.size import Sym, ceildiv
from portakern.ir.tile import BufferType, TileType
from portakern.registry import registry

target, runtime = registry().target("hip:gfx942"), HipRuntime()
assert runtime.available(target) and runtime.device_name(target) == "AMD Instinct MI300X"
assert runtime.available(registry().target("hip:mi300x")) and not runtime.available(registry().target("hip:mi325x"))
assert "MI300X (gfx942)" in runtime.available(registry().target("hip:gfx950")).detail
n = Sym.named("N")
arrays = (Array("x", BufferType((n,), "f32"), "input"), Array("s", TileType((), "f32"), "scalar"),
          Array("y", BufferType((n,), "f32"), "output"))
launch = Launch("shift", (ceildiv(n, 256), 1, 1), (256, 1, 1), ("x", "s", "y", "N"))
source = Source(target, "shift", "shift", "", ".hip", arrays, ("N",), (launch,))

def buffer(name, values):
    values = np.asarray(values, "f4")
    storage = np.full(values.nbytes + 128, 0xA5, np.uint8)
    b = HostBuffer(name, storage, 64, values.shape, values.dtype)
    b.array[...] = values
    return b

buffers = {"x": buffer("x", np.arange(1000)), "s": buffer("s", 0.5), "y": buffer("y", np.zeros(1000))}
runtime.load(source, CompiledBinary("hsaco", b"\x7fELF....", "test")).run(buffers, {"N": 1000})
assert (buffers["y"].array == np.arange(1000) + 0.5).all() and (buffers["y"].storage[-64:] == 0xA5).all()
try:
    runtime.load(source, CompiledBinary("hsaco", b"nothing of the kind", "test"))
except PortakernError as error:
    assert "no code object" in error.message
else:
    raise AssertionError
try:
    runtime.load(source, CompiledBinary("hsaco", b"\x7fELF....", "test")).run(buffers | {"x": buffer("x", [])}, {"N": 2**34})
except PortakernError as error:
    assert "take larger tiles" in error.hint
else:
    raise AssertionError
print("fine")
"""


def test_kernels_are_loaded_and_launched() -> None:
    run = subprocess.run([sys.executable, "-c", USE], env={**os.environ, LIBRARY: standin().path}, timeout=60,
                         capture_output=True, text=True)  # fmt: skip
    assert run.stdout.strip() == "fine", run.stderr


def test_a_machine_without_hip_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBRARY, "/nowhere/libamdhip64.so")
    available = HipRuntime().available(target("gfx942"))
    assert not available and "not installed" in available.detail
