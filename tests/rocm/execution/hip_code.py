"""HIP texts compiled by clang and executed on the AMD machine, with any arguments: kernels that belong to no operator."""

from __future__ import annotations

import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import portakern.backends.rocm.toolchain as toolchain
from portakern.backend import Argument, Dispatch
from portakern.backends.rocm.amdgcn.execution.arrays import empty
from portakern.backends.rocm.amdgcn.execution.simulator import MachineProgram, SimulatedMemory
from portakern.backends.rocm.toolchain import FLAGS, choose
from portakern.tools.process import run_tool

INCLUDE = Path(str(toolchain.__file__)).parent / "include"


@cache
def compiled(isa: str, text: str, *flags: str) -> str:
    """The assembly of a HIP text, with further flags of the compiler."""
    clang = choose(isa)
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "kernel.hip", Path(folder) / "kernel.s"
        source.write_text(text)
        options = [*FLAGS, *flags, f"--offload-arch={isa}", "-I", str(INCLUDE)]
        command = [*clang.command, *options, "-S", str(source), "-o", str(made)]
        run_tool(command, timeout_s=120).checked("a HIP text of the tests")
        return made.read_text()


class Module:
    """A compiled text; its variables keep their values from launch to launch."""

    def __init__(self, assembly: str) -> None:
        self.assembly = assembly
        self.program = MachineProgram(None, None)  # type: ignore[arg-type]

    def launch(self, kernel: str, *args: Any, block: int = 64, grid: int = 1, shared: int = 0) -> list[np.ndarray]:
        """The arrays among the arguments as the kernel leaves them; numbers are taken as C's int, numpy's as what they are."""
        arrays: dict[str, np.ndarray] = {}
        given: list[Argument] = []
        for n, x in enumerate(args):
            if isinstance(x, np.ndarray):
                arrays[f"argument{n}"] = empty(x.shape, x.dtype)
                arrays[f"argument{n}"][...] = x
                given.append(Argument(f"argument{n}"))
            else:
                given.append(Argument(value=x.tobytes() if isinstance(x, np.generic) else struct.pack("<i", x)))
        memory = SimulatedMemory(arrays, set(), set(arrays))
        self.program._dispatch(Dispatch(kernel, b"", self.assembly, (grid, 1, 1), (block, 1, 1), shared, tuple(given)), memory)
        return list(arrays.values())
