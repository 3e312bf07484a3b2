"""The native core: its clock, and drivers that are absent, present, broken or from elsewhere."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from portakern import native
from portakern.errors import PortakernError
from portakern.tools.workers import WorkerPool

INCLUDE = Path(__file__).parents[2] / "csrc" / "include"


def library(folder: Path, source: str, *flags: str) -> Path:
    """Compiles a stand-in for a vendor's library."""
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    assert compiler is not None, "portakern was built, so a C++ compiler should be on PATH"
    (folder / "source.cpp").write_text(source)
    path = folder / "libstandin.so"
    subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", path, folder / "source.cpp"], check=True, timeout=60)
    return path


def test_the_clock_goes_forward_in_nanoseconds():
    import time

    first, outside = native.now_ns(), time.monotonic_ns()
    time.sleep(0.05)
    elapsed, outside_elapsed = native.now_ns() - first, time.monotonic_ns() - outside
    assert elapsed == pytest.approx(outside_elapsed, rel=0.02)
    assert native.clock_resolution_ns() >= 1
    assert 0 < native.clock_tick_ns() < 1_000_000
    assert native.clock_name()


def test_the_backends_drivers_are_known():
    assert native.driver_names() == sorted(set(native.driver_names()))
    assert {"cuda", "hip", "opencl", "level_zero"} <= set(native.driver_names())


@pytest.mark.parametrize("name", native.driver_names())
def test_a_probe_of_this_machine_always_answers(name: str):
    # In a worker: a vendor's loader settles at its first call where it looks for devices, for the whole process.
    with WorkerPool() as pool:
        probe = pool.call("portakern.native:probe_driver", name, timeout_s=60)
    assert probe.name == name and probe.title
    # Either devices, or a reason why there is none.
    assert probe.device_count > 0 or probe.error
    assert probe.present == bool(probe.path)


@pytest.mark.parametrize("name", ["cuda", "hip", "opencl", "level_zero"])
def test_an_absent_library_is_absent(name: str, tmp_path: Path):
    probe = native.probe_driver(name, str(tmp_path / "nothing.so"))
    assert not probe.present and probe.device_count == 0 and "nothing.so" in probe.error


@pytest.mark.parametrize("name", ["cuda", "hip", "opencl", "level_zero"])
def test_a_library_without_the_functions_is_not_a_driver(name: str, tmp_path: Path):
    probe = native.probe_driver(name, str(library(tmp_path, "")))
    assert not probe.present and "the library has no" in probe.error


def test_an_unknown_driver_is_named():
    with pytest.raises(PortakernError, match="no driver is named 'abacus'"):
        native.probe_driver("abacus")


CUDA = """extern "C" {
int cuInit(unsigned) { return STATUS; }
int cuDriverGetVersion(int *v) { *v = 13010; return 0; }
int cuDeviceGetCount(int *n) { *n = 3; return 0; }
}"""

HIP = """extern "C" {
int hipRuntimeGetVersion(int *v) { *v = 60342134; return 0; }
int hipGetDeviceCount(int *n) { *n = 2; return STATUS; }
}"""

OPENCL = """#include <cstddef>
#include <cstdint>
#include <cstring>
extern "C" {
int clGetPlatformIDs(uint32_t n, void **p, uint32_t *count) {
    if (STATUS) return STATUS;
    if (count) *count = 2;
    for (uint32_t i = 0; i < n; ++i) p[i] = (void *)(uintptr_t)(i + 1);
    return 0;
}
int clGetPlatformInfo(void *, uint32_t, size_t, void *out, size_t *size) {
    if (out) strcpy((char *)out, "OpenCL 3.0 X");
    if (size) *size = sizeof("OpenCL 3.0 X");
    return 0;
}
int clGetDeviceIDs(void *p, uint64_t, uint32_t, void **, uint32_t *count) { if (count) *count = (uintptr_t)p; return 0; }
int clGetDeviceInfo(void *, uint32_t, size_t, void *, size_t *) { return -30; }
}"""

LEVEL_ZERO = """#include <cstdint>
extern "C" {
unsigned zeInit(uint32_t) { return STATUS; }
unsigned zeDriverGet(uint32_t *n, void **p) { *n = 1; if (p) *p = (void *)1; return 0; }
unsigned zeDeviceGet(void *, uint32_t *n, void **) { *n = 4; return 0; }
unsigned zeDriverGetApiVersion(void *, uint32_t *v) { *v = 0x1000b; return 0; }
}"""


@pytest.mark.parametrize(("name", "source", "version", "devices", "failure", "says"), [
    ("cuda", CUDA, "13.1", 3, 100, "cuInit returned 100"),
    ("hip", HIP, "6.3.42134", 2, 100, "hipGetDeviceCount returned 100"),
    ("opencl", OPENCL, "OpenCL 3.0 X", 3, -1001, "no platform is registered"),
    ("level_zero", LEVEL_ZERO, "1.11", 4, 0x78000001, "zeInit returned 2013265921"),
])  # fmt: skip
def test_a_driver_reports_its_version_and_devices_or_its_failure(
    name: str, source: str, version: str, devices: int, failure: int, says: str, tmp_path: Path
):
    good = library(tmp_path, source, "-DSTATUS=0")
    probe = native.probe_driver(name, str(good))
    assert probe == native.DriverProbe(name, probe.title, True, str(good), version, devices, "")

    (tmp_path / "bad").mkdir()
    bad = library(tmp_path / "bad", source, f"-DSTATUS={failure}")
    probe = native.probe_driver(name, str(bad))
    assert probe.present and probe.device_count == 0 and says in probe.error


STRANGER = """#include "portakern/driver.h"
#include <string.h>
static void probe(const char *, pk_probe *out) { out->present = 1; out->device_count = 7; strcpy(out->path, "/x"); }
extern "C" const pk_driver table = {ABI, sizeof(pk_driver), "stranger", "A driver from elsewhere", probe};
"""

_REGISTER = """
import ctypes, sys
from portakern import native
from portakern.tools.workers import WorkerPool
library = ctypes.CDLL(sys.argv[1])
capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
table = ctypes.addressof(ctypes.c_char.in_dll(library, "table"))
for _ in range(int(sys.argv[2])):
    native.register_driver(capsule(table, b"portakern.driver", None))
print(native.probe_driver("stranger"))
"""


def register_in_a_child(path: Path, times: int = 1) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _REGISTER, str(path), str(times)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_driver_from_elsewhere_joins_by_capsule(tmp_path: Path):
    path = library(tmp_path, STRANGER, f"-I{INCLUDE}", "-DABI=PK_DRIVER_ABI")
    result = register_in_a_child(path)
    assert "device_count=7" in result.stdout, result.stderr
    assert "already registered" in register_in_a_child(path, times=2).stderr


def test_a_driver_of_another_abi_is_refused(tmp_path: Path):
    path = library(tmp_path, STRANGER, f"-I{INCLUDE}", "-DABI=99")
    spoken = re.search(r"PK_DRIVER_ABI (\d+)", (INCLUDE / "portakern" / "driver.h").read_text())
    assert spoken and f"ABI 99, this portakern speaks {spoken[1]}" in register_in_a_child(path).stderr


def test_what_is_not_a_driver_is_refused():
    with pytest.raises(TypeError):
        native.register_driver("not a capsule")
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    with pytest.raises(ValueError, match="PyCapsule"):
        native.register_driver(new(1, b"something.else", None))
