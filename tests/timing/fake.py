"""The device of fake_driver.cpp, compiled once per process and opened through its table."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from portakern import native

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "csrc" / "include"


@functools.cache
def _library() -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    assert compiler is not None, "portakern was built, so a C++ compiler should be on PATH"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "libfake.so"
        subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", path, HERE / "fake_driver.cpp"],
                       check=True, timeout=60)  # fmt: skip
        return ctypes.CDLL(str(path))


class Fake:
    """A fresh device, with settings (see the C++ text) and a log of what was asked of it."""

    def __init__(self, table: str = "fake", **settings: float) -> None:
        library = _library()
        library.fake_log.restype = ctypes.c_char_p
        library.fake_reset()
        self.set(pair_ns=1200, empty_kernel_ns=1000)
        self.set(**settings)
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        address = ctypes.addressof(ctypes.c_char.in_dll(library, table))
        self.device = native.open_device(capsule(address, b"portakern.driver", None))
        self._module = self.device.load(b"-")

    def set(self, **settings: float) -> None:
        for name, value in settings.items():
            _library().fake_set(name.encode(), ctypes.c_double(value))

    def call(self, name: str = "k", us: float = 20.0) -> native.Call:
        """A launch of a kernel, named by one letter, that takes so long; negative for one that never ends."""
        args = [native.scalar("i64", round(us * 1000))]
        return self.device.call([native.LaunchSpec(self._module.kernel(name), (1, 1, 1), (32, 1, 1), args)])

    @property
    def log(self) -> str:
        return _library().fake_log().decode()

    @property
    def health_reads(self) -> int:
        return _library().fake_healths()


def options(**changes: Any) -> Any:
    """Options of a quick measurement."""
    from portakern.timing import Options

    return Options(**{"warm_up_s": 0.0, "budget_s": 5.0, "min_samples": 10, "max_samples": 10, **changes})
