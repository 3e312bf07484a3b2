"""Runs emitted CUDA kernels on the CPU with threads as fibers (see host/cuda_host.hpp): a check without a GPU."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

from portakern.backend import HostBuffer, Launch, Source
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

HOST = Path(__file__).parent / "host"
INCLUDE = Path(__file__).parents[2] / "backends" / "cuda" / "include"
FLAGS = ["-std=c++17", "-O1", "-w", "-fno-strict-aliasing", f"-I{HOST}", f"-I{INCLUDE}"]
_TYPES = {"f64": "double", "f32": "float", "f16": "pk::f16", "bf16": "pk::bf16", "i64": "int64_t", "i32": "int32_t",
          "bool": "bool"}  # fmt: skip


def run_on_host(source: Source, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int], folder: Path,
                backwards: bool = False) -> None:
    """Run every launch of ``source`` once.  Raises ``RuntimeError`` when a kernel breaks a rule of the machine."""
    library = _compile(source, folder)
    args = (ctypes.c_void_p * 64)()
    for launch in source.launches:
        grid = tuple(evaluate(n, sizes) for n in launch.grid)
        keep = []
        for n, name in enumerate(launch.args):
            if name in buffers:
                args[n] = buffers[name].array.ctypes.data
            else:
                keep.append(ctypes.c_int64(sizes[name]))
                args[n] = ctypes.addressof(keep[-1])
        getattr(library, f"host_{launch.kernel}")(args, *grid, int(backwards))


def _compile(source: Source, folder: Path) -> ctypes.CDLL:
    text = source.text.replace("extern __shared__ __align__(128) unsigned char dynamic_shared[];",
                               "unsigned char* dynamic_shared = pk_dynamic_shared;")  # fmt: skip
    parts = ['#include "cuda_host.hpp"', text, *(_wrapper(source, launch) for launch in source.launches)]
    whole = "\n".join(parts)
    path = folder / f"{source.operator}_{hashlib.sha256(whole.encode()).hexdigest()[:12]}.cpp"
    path.write_text(whole)
    binary = path.with_suffix(".so")
    subprocess.run(["g++", *FLAGS, "-shared", "-fPIC", str(path), "-o", str(binary)], check=True, timeout=120)
    return ctypes.CDLL(str(binary))


def _wrapper(source: Source, launch: Launch) -> str:
    types = {a.name: a for a in source.arrays}
    call = []
    for n, name in enumerate(launch.args):
        if name in types:
            kind = _TYPES[types[name].dtype]
            pointer = isinstance(types[name].type, BufferType)
            call.append(f"static_cast<{kind}*>(args[{n}])" if pointer else f"*static_cast<{kind}*>(args[{n}])")
        else:
            call.append(f"*static_cast<int64_t*>(args[{n}])")
    return (
        f'extern "C" void host_{launch.kernel}(void** args, unsigned x, unsigned y, unsigned z, int backwards) {{\n'
        f"    host::launch({{x, y, z}}, {launch.block[0]}, backwards, [&] {{ {launch.kernel}({', '.join(call)}); }});\n}}\n"
    )
