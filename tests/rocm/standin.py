"""The stand-in for libamdhip64 (standin.cpp), built once, and what tests ask of it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path


class Standin:
    """One build of the stand-in."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.library = ctypes.CDLL(self.path)
        self.library.standin_journal.restype = ctypes.c_char_p

    def journal(self) -> list[str]:
        """What was called since the last look."""
        return self.library.standin_journal().decode().splitlines()

    def fail(self, function: str, code: int) -> None:
        """Let the next call of a function answer with a code."""
        self.library.standin_fail(function.encode(), code)

    def attribute(self, which: int, value: int) -> None:
        self.library.standin_attribute(which, value)

    def options(self, signals: bool = True, compiler: bool = True, hang: bool = False) -> None:
        """Whether there is signal memory, whether its compiler works, and whether all work hangs."""
        self.library.standin_options(signals, compiler, hang)

    def current(self) -> int:
        """This thread's device."""
        return self.library.standin_current()

    def set_current(self, device: int) -> None:
        self.library.standin_set_current(device)


@cache
def standin(old: bool = False) -> Standin:
    """``old``: as ROCm 5.2, without a run-time compiler and graphs."""
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    assert compiler is not None, "portakern was built, so a C++ compiler should be on PATH"
    path = Path(tempfile.mkdtemp(prefix="portakern-standin-")) / f"libamdhip64_{'old' if old else 'new'}.so"
    flags = ["-std=c++17", "-shared", "-fPIC", *(["-DOLD"] if old else [])]
    subprocess.run([compiler, *flags, "-o", path, Path(__file__).with_name("standin.cpp")], check=True, timeout=120)
    return Standin(path)
