"""HIP sources interpreted on the CPU: each GPU thread a fiber, the operations of a wave done for a wave at a time.

The source and its headers are compiled as C++ by the same clang (``host/lanes.h`` stands in for the GPU: its builtins follow
AMD's ISA guides), so what is checked is the HIP text with the real control flow, layouts, lane exchanges, LDS contents and
barriers, and not the machine code: the evidence is ``interpreted``.  LDS holds NaN before it is written, waves run in both
orders, and a wave whose lanes part ways at an operation of the whole wave is an error.
"""

from __future__ import annotations

import ctypes
import platform
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern.backend import Availability, Binary, HostBuffer, Launch, Source, Target
from portakern.errors import PortakernError, SimulatorError
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.tools.cache import Cache, digest
from portakern.tools.process import run_tool

from .arrays import aligned, empty
from .toolchain import HINT, TIMEOUT_S, choose

if TYPE_CHECKING:
    import numpy as np

LANES = Path(__file__).parent / "host" / "lanes.h"
METHOD = "HIP source on host lanes 1"
FLAGS = ("-x", "c++", "-std=c++17", "-O2", "-fPIC", "-march=native", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
         "-fno-threadsafe-statics", "-fno-stack-protector", "-fdeclspec", "-w", "-include", "lanes.h", "-I", ".")  # fmt: skip
_MACROS = {"gfx90a": ("__GFX9__", "__gfx90a__"), "gfx942": ("__GFX9__", "__gfx942__"), "gfx950": ("__GFX9__", "__gfx950__"),
           "gfx1100": ("__GFX11__", "__gfx1100__"), "gfx1201": ("__GFX12__", "__gfx1201__")}  # fmt: skip


@cache
def _processor() -> str:
    """What -march=native means here: part of the key under which host code is kept."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return "".join(sorted(set(re.findall(r"^(?:model name|flags)\s*:.*$", text, re.MULTILINE))))


class HipInterpreter:
    """Runs HIP sources on the CPU (x86-64 Linux with the ziglang wheel or another clang)."""

    evidence = "interpreted"

    def available(self, target: Target) -> Availability:
        if (platform.machine(), platform.system()) != ("x86_64", "Linux"):
            return Availability(
                False, "HIP sources are interpreted on x86-64 Linux only: fibers are switched by its machine code"
            )
        if target.device.isa not in _MACROS:
            return Availability(False, f"the interpreter does not know the wave operations of {target.device.isa}")
        try:
            clang = choose(target.device.isa)
        except PortakernError as error:
            return Availability(False, f"{error.message}; {error.hint}")
        return Availability(True, f"{METHOD}, compiled by {clang.origin}")

    def method(self, target: Target) -> str:
        return f"{METHOD} (lane layouts of {target.device.isa})"

    def load(self, source: Source, binary: Binary | None) -> HostProgram:
        return HostProgram(source, _compile(source) if source.launches else Path())


def _compile(source: Source) -> Path:
    """A shared object with a function ``pk_run_<kernel>`` for every launch; kept in the cache."""
    isa = source.target.device.isa
    lanes = LANES.read_text()
    key = digest(
        "hip-lanes", source.text, source.headers, lanes, FLAGS, isa, _processor(), tuple(x.kernel for x in source.launches)
    )
    kept = Cache().file(key, ".so")
    if kept is not None:
        return kept
    clang = choose(isa)
    kernels = dict.fromkeys(x.kernel for x in source.launches)
    text = "\n".join([source.text, *(_RUN.format(kernel=k) for k in kernels)])
    with tempfile.TemporaryDirectory(prefix="portakern-hip-") as folder:
        place = Path(folder)
        for name, content in (("kernel.cpp", text), ("lanes.h", lanes), *source.headers):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content)
        macros = [f"-D{m}=1" for m in _MACROS[isa]]
        what = f"{source.operator} for {source.target} on host lanes"
        compile_ = [*clang.command, *FLAGS, *macros, "-c", "kernel.cpp", "-o", "kernel.o"]
        run_tool(compile_, timeout_s=TIMEOUT_S, cwd=place, missing_hint=HINT).checked(what)
        link = [*clang.linker, "-shared", "-z", "nostart-stop-gc", "kernel.o", "-o", "kernel.so"]
        run_tool(link, timeout_s=TIMEOUT_S, cwd=place, missing_hint=HINT).checked(what)
        Cache().put(key, (place / "kernel.so").read_bytes())
    made = Cache().file(key, ".so")
    assert made is not None
    return made


_RUN = """
extern "C" __attribute__((visibility("default"))) const char* pk_run_{kernel}(
    void** arguments, const unsigned* grid, const unsigned* block, unsigned long first, unsigned long last) {{
  return lanes::launch(&{kernel}, arguments, grid, block, first, last);
}}"""


@dataclass
class HostProgram:
    """A HIP program on host lanes.  Writes outside arrays reach their guard bands."""

    source: Source
    library: Path
    guards: bool = True
    _loaded: Any = field(default=None, repr=False)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Raises :class:`SimulatorError` naming block, wave and lane where the source does what no wave can."""
        moved = {name: aligned(b) for name, b in buffers.items()}
        self._execute({name: b.array for name, b in moved.items()}, sizes)
        for name, b in moved.items():
            if b is not buffers[name]:
                buffers[name].storage[...] = b.storage

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """On host arrays; outputs are numpy arrays."""
        import numpy as np

        from portakern.dtypes import numpy_dtype

        given = self.source.by_role("input", "scalar")
        arrays: dict[str, np.ndarray] = {}
        for a, x in zip(given, inputs, strict=True):
            arrays[a.name] = empty(np.shape(x), numpy_dtype(a.dtype))
            arrays[a.name][...] = x
        outputs = self.source.by_role("output")
        for a in outputs:
            arrays[a.name] = empty(self._shape(a.name, sizes), numpy_dtype(a.dtype))
        self._execute(arrays, sizes)
        results = tuple(arrays[a.name] for a in outputs)
        return results[0] if len(results) == 1 else results

    def _shape(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        array = next(a for a in self.source.arrays if a.name == name)
        return tuple(evaluate(n, sizes) for n in array.type.shape) if isinstance(array.type, BufferType) else ()

    def _execute(self, arrays: dict[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        from portakern.dtypes import numpy_dtype

        for a in self.source.by_role("temporary"):
            arrays[a.name] = empty(self._shape(a.name, sizes), numpy_dtype(a.dtype))  # NaN: what was never written is not read
        for a in self.source.arrays:
            if a.init is not None:
                arrays[a.name][...] = a.init
        for launch in self.source.launches:
            self._launch(launch, arrays, sizes)

    def _launch(self, launch: Launch, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        grid = [evaluate(g, sizes) for g in launch.grid]
        blocks = grid[0] * grid[1] * grid[2]
        if blocks == 0:
            return
        kept = [ctypes.c_int64(sizes[name]) if name in sizes and name not in arrays else None for name in launch.args]
        pointers: list[Any] = []
        for name, size in zip(launch.args, kept, strict=True):
            pointers.append(ctypes.pointer(size) if size is not None else self._argument(name, arrays[name]))
        arguments = (ctypes.c_void_p * max(1, len(pointers)))(*(ctypes.cast(p, ctypes.c_void_p) for p in pointers))
        three = ctypes.c_uint * 3
        run = getattr(self._open(), f"pk_run_{launch.kernel}")
        run.restype = ctypes.c_char_p
        run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
        message = run(arguments, three(*grid), three(*launch.block), 0, blocks)
        if message:
            raise SimulatorError(f"{launch.kernel}: {message.decode()}")

    def _argument(self, name: str, array: np.ndarray) -> Any:
        """The address of the parameter's value: of a pointer for an array, of the value itself for a scalar."""
        if any(a.name == name and a.role == "scalar" for a in self.source.arrays):
            return ctypes.c_void_p(array.ctypes.data)
        return ctypes.pointer(ctypes.c_void_p(array.ctypes.data))

    def _open(self) -> ctypes.CDLL:
        if self._loaded is None:
            ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)  # exp, log and sqrt are left to the C library
            self._loaded = ctypes.CDLL(str(self.library))
        return self._loaded
