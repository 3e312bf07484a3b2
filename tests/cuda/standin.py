"""The stand-in for libcuda (standin.cpp), built once, and what tests ask of it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path


class Standin:
    """One build of the stand-in."""

    def __init__(self, path: Path, old: bool) -> None:
        self.old = old
        self.path = str(path)
        self.library = ctypes.CDLL(self.path)
        self.library.standin_journal.restype = ctypes.c_char_p
        self.library.standin_current.restype = ctypes.c_void_p
        self.library.standin_set_current.argtypes = (ctypes.c_void_p,)

    def journal(self, contexts: bool = False) -> list[str]:
        """What was called since the last look; ``contexts``: with every change of the current context."""
        lines = self.library.standin_journal().decode().splitlines()
        return [x for x in lines if contexts or not x.startswith("current ")]

    def fail(self, function: str, code: int) -> None:
        """Let the next call of a function answer with a code."""
        self.library.standin_fail(function.encode(), code)

    def parameters(self, kernel: str, *sizes: int) -> None:
        """Tell the sizes of a kernel's parameters."""
        self.library.standin_parameters(kernel.encode(), (ctypes.c_size_t * len(sizes))(*sizes), len(sizes))

    def hang(self, on: bool) -> None:
        """Let no work end."""
        self.library.standin_hang(on)

    def current(self) -> int:
        """This thread's context."""
        return self.library.standin_current() or 0

    def set_current(self, context: int) -> None:
        self.library.standin_set_current(context)


def standin(old: bool = False) -> Standin:
    """``old``: as a driver of CUDA 11.4."""
    return _built(old)


@cache
def _built(old: bool) -> Standin:
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    assert compiler is not None, "portakern was built, so a C++ compiler should be on PATH"
    path = Path(tempfile.mkdtemp(prefix="portakern-standin-")) / f"libcuda_{'old' if old else 'new'}.so"
    flags = ["-std=c++17", "-shared", "-fPIC", *(["-DOLD"] if old else [])]
    subprocess.run([compiler, *flags, "-o", path, Path(__file__).with_name("standin.cpp")], check=True, timeout=120)
    return Standin(path, old)
