"""The HIP runtime against a stand-in library on the CPU, and its absence.

The stand-in has HIP's functions: memory is the host's, and launching runs a small interpreter of one kernel (y = x + s).
It shows that names, argument orders and lifetimes are those of the API reference; silicon has not been seen by this code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from portakern.backends.rocm.runtime import HipRuntime  # type: ignore[import-not-found]

from tests.rocm.helpers import target

STAND_IN = r"""
#include <cstdlib>
#include <cstring>
#include <cstdint>
extern "C" {
static int modules = 0;
int hipInit(unsigned) { return 0; }
int hipGetDeviceCount(int* n) { *n = 1; return 0; }
int hipDeviceGetName(char* name, int len, int) { strncpy(name, "AMD Instinct MI300X", len); return 0; }
int hipGetDevicePropertiesR0600(char* p, int) { memset(p, 7, 1400); strcpy(p + 1160, "gfx942:sramecc+:xnack-"); return 0; }
int hipSetDevice(int d) { return d != 0; }
int hipMalloc(void** p, size_t n) { *p = malloc(n); return 0; }
int hipFree(void* p) { free(p); return 0; }
int hipMemcpy(void* d, const void* s, size_t n, int kind) { if (kind < 1 || kind > 2) return 1; memcpy(d, s, n); return 0; }
int hipDeviceSynchronize() { return 0; }
const char* hipGetErrorString(int e) { return e == 209 ? "no kernel image" : "invalid argument"; }
int hipModuleLoadData(void** m, const void* image) {
  if (memcmp(image, "\x7f" "ELF", 4)) return 209;
  *m = &modules;
  ++modules;
  return 0;
}
int hipModuleUnload(void*) { --modules; return 0; }
int hipModuleGetFunction(void** f, void*, const char* name) { *f = (void*)1; return strcmp(name, "shift") != 0; }
int hipModuleLaunchKernel(void* f, unsigned gx, unsigned, unsigned, unsigned bx, unsigned, unsigned, unsigned shared,
                          void* stream, void** args, void** extra) {
  if (!f || shared || stream || extra) return 1;
  const float* x = *(const float**)args[0];
  float s = *(float*)args[1];
  float* y = *(float**)args[2];
  int64_t n = *(int64_t*)args[3];
  for (int64_t i = 0; i < (int64_t)gx * bx && i < n; ++i) y[i] = x[i] + s;
  return 0;
}
}
"""

USE = r"""
import numpy as np
from portakern.backend import Binary, HostBuffer, Launch, Source
from portakern.backends.rocm.runtime import HipRuntime
from portakern.errors import RuntimeFault
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
runtime.load(source, Binary("hsaco", b"\x7fELF....", "test")).run(buffers, {"N": 1000})
assert (buffers["y"].array == np.arange(1000) + 0.5).all() and (buffers["y"].storage[-64:] == 0xA5).all()
try:
    runtime.load(source, Binary("hsaco", b"nothing of the kind", "test"))
except RuntimeFault as error:
    assert "no kernel image" in error.message
else:
    raise AssertionError
print("fine")
"""


def test_kernels_are_loaded_and_launched_by_hips_interface(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler for the stand-in")
    (tmp_path / "hip.cpp").write_text(STAND_IN)
    library = tmp_path / "libamdhip64.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "hip.cpp"], check=True, timeout=60)
    run = subprocess.run([sys.executable, "-c", USE], env={**os.environ, "PORTAKERN_HIP_LIBRARY": str(library)}, timeout=60,
                         capture_output=True, text=True)  # fmt: skip
    assert run.stdout.strip() == "fine", run.stderr


def test_a_machine_without_an_amd_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from portakern.backends.rocm import hip_api  # type: ignore[import-not-found]

    monkeypatch.setenv("PORTAKERN_HIP_LIBRARY", "/nowhere/libamdhip64.so")
    hip_api.driver.cache_clear()
    available = HipRuntime().available(target("gfx942"))
    hip_api.driver.cache_clear()
    assert not available and "not installed" in available.detail
