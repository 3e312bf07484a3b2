"""CUDA C++ interpreted on the CPU: each thread of a block a fiber, what a warp does together done for the warp at a time.

The same source and headers are compiled for the host; only ``pk/ptx.cuh`` is another one, which says in C++ what the PTX ISA
says of ``ldmatrix``, ``mma`` and ``cp.async`` (see ``host/``).  So the control flow, layouts, lane exchanges, shared memory
and barriers of the emitted text are checked, and not the machine code: the evidence is ``interpreted``.  Asynchronous copies
happen when they are waited for, shared memory holds NaN at first, and threads run in both orders.
Two accesses to shared memory that no barrier orders are an error, whether the result is right or not (``host/races.hpp``).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import math
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from portakern.backend import Availability, CompiledBinary, HostBuffer, Launch, Source, Target, TensorMap
from portakern.emit.clike import TYPES
from portakern.emit.mangled import readable
from portakern.errors import CompileError, PortakernError, RuntimeFault, SimulatorError, ToolMissing
from portakern.ir.program import Array, turns
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.tools import elf
from portakern.tools.cache import Cache, digest
from portakern.tools.process import run_tool

from .races import told

HOST = Path(__file__).parent / "host"
METHOD = "CUDA C++ on host fibers 4"
TEXT = "kernel.cu"
"""What the emitted text is called where its lines are named."""
HINT = "install g++ or clang++, or: pip install 'portakern[cpp]'"
TIMEOUT_S = 180.0
_FLAGS = ("-std=c++17", "-U_FORTIFY_SOURCE", "-O1", "-g1", "-w", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off")
_WATCHED = "-fsanitize=thread"
"""A call at every load and store; what is called is in ``host/races.cpp``, and nothing is linked that the compiler brings."""
_FIRST = "cuda_host.hpp"
"""What every text includes first."""
_HEADER = (*_FLAGS, _WATCHED, "-x", "c++-header")
_LINKED = ("host.cpp", "races.cpp", "tensor_memory.cpp")
"""What is linked to every kernel."""
_READ = (_FIRST, "builtins.hpp", "races.hpp", "tensor_memory.hpp", "tensor_descriptors.hpp")
"""What they include."""
_parts: dict[tuple[Path, str], Path] = {}
"""What this process has compared with the cache's entry: that takes a while."""
_DYNAMIC = "extern __shared__ __align__(1024) unsigned char dynamic_shared[];"


@cache
def _compiler() -> tuple[tuple[str, ...], str]:
    """A C++ compiler's command, and its name with version; raises :class:`ToolMissing`."""
    found: list[tuple[str, ...]] = [(path,) for name in ("g++", "clang++") if (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "c++"))
    for command in found:
        with contextlib.suppress(PortakernError):
            result = run_tool([*command, "--version"], timeout_s=60)
            if result.ok and result.stdout:
                return command, result.stdout.splitlines()[0].strip()
    raise ToolMissing("no C++ compiler was found on this machine", hint=HINT)


class CudaInterpreter:
    """Runs sources made of the tile library on the CPU (x86-64 Linux with a C++ compiler)."""

    evidence = "interpreted"

    def available(self, target: Target) -> Availability:
        if (platform.machine(), platform.system()) != ("x86_64", "Linux"):
            return Availability(False, "CUDA C++ is interpreted on x86-64 Linux only: fibers are switched by its machine code")
        try:
            return Availability(True, f"{METHOD}, compiled by {_compiler()[1]}")
        except PortakernError as error:
            return Availability(False, f"{error.message}; {error.hint}")

    def method(self, target: Target) -> str:
        modelled = "lane layouts of mma.sync" + (", tensor memory of tcgen05" if target.device.has("tcgen05") else "")
        return f"{METHOD} ({modelled})"

    def load(self, source: Source, binary: CompiledBinary | None) -> HostProgram:
        return HostProgram(source, _compile(source))


def _compile(source: Source) -> Path:
    """A shared object with a function ``host_<kernel>`` for every kernel launched; kept in the cache.

    Raises :class:`SimulatorError`, kind ``unsupported-source``, for a text that is not made of the tile library.
    """
    command, version = _compiler()
    headers = dict(source.headers)
    headers |= {p.relative_to(HOST).as_posix(): p.read_text() for p in HOST.rglob("*") if p.is_file()}
    launches = {x.kernel: x for x in source.launches}
    text = re.sub(r"\A//.*", "//", source.text)  # the device's name, on which nothing depends here
    text = text.replace(_DYNAMIC, "unsigned char* dynamic_shared = dynamic_shared_memory;")
    entries = [_entry(source, x) for x in launches.values()]
    whole = "\n".join([f'#include "{_FIRST}"', f'#line 1 "{TEXT}"', text, '#line 1 "entries"', *entries])
    key = digest("cuda-fibers", whole, sorted(headers.items()), _FLAGS, _WATCHED, version)
    kept = Cache().file(key, ".so")
    if kept is not None:
        return kept
    with tempfile.TemporaryDirectory(prefix="portakern-cuda-") as folder:
        place = Path(folder)
        for name, content in (("kernel.cpp", whole), *headers.items()):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content)
        objects = ["kernel.o"]
        for name in _LINKED:
            objects.append(f"{Path(name).stem}.o")
            (place / objects[-1]).write_bytes(_part(name, (*_FLAGS, "-O2"), command, version).read_bytes())
        compiling = (*command, *_FLAGS, _WATCHED, "-I.", "-c", "kernel.cpp")
        read = place / f"{_FIRST}.gch"
        if Path(command[0]).name == "g++":  # which takes a header as it was once read from what lies beside it
            read.symlink_to(_part(_FIRST, _HEADER, command, version))
        built = run_tool(compiling, timeout_s=TIMEOUT_S, cwd=place)
        if not built.ok and read.is_symlink():  # some can do that only where memory is laid out as it was then
            read.unlink()
            built = run_tool(compiling, timeout_s=TIMEOUT_S, cwd=place)
        try:
            built.checked(f"{source.operator} for {source.target} on host fibers")
            must_be_of_a_device((place / "kernel.o").read_bytes())
            linked = run_tool([*command, "-shared", *objects, "-o", "kernel.so"], timeout_s=TIMEOUT_S, cwd=place)
            linked.checked(f"{source.operator} for {source.target} on host fibers")
        except CompileError as error:
            raise SimulatorError(f"{source.operator} uses more of CUDA C++ than is interpreted on the CPU:\n{error.log[:2000]}",
                                 hint="the tile library (pk/*.cuh) is; run anything else on a GPU",
                                 kind="unsupported-source") from None
        Cache().put(key, (place / "kernel.so").read_bytes())
    made = Cache().file(key, ".so")
    assert made is not None
    return made


_OF_THE_LANGUAGE = re.compile(
    r"_ZN?K?4host\w+|__tsan_\w+|_Z(St|NSt|NKSt|TV|TI|TS|n[wa]|d[la])\w*|__(cxa|gxx|cxxabi|stack_chk|tls|libc_single|dso)_\w+|"
    r"_Unwind_\w+|_GLOBAL_OFFSET_TABLE_|mem(cpy|set|move|cmp)|abort|(__)?v?printf(_chk)?|puts|putchar|__\w+[hsdtx]f[hsdtx]?[23]|"
    r"(a?(sin|cos|tan)h?|sincos|atan2|exp(2|10|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|erfc?|[tl]gamma|floor|ceil|trunc|l?l?rint|"
    r"l?l?round|nearbyint|roundeven|fmod|remainder|modf|fma|fmax|fmin|fdim|hypot|ldexp|frexp|scalbl?n|copysign|nextafter)[fl]?")
"""What kernels want beside the interpreter: the compiler's own, mathematics, and words."""


def must_be_of_a_device(data: bytes) -> None:
    """Raise ``decoy`` for an object that reaches for functions of this processor, which no GPU has.  It is looked at before
    anything in it can run."""
    tables = elf.read(data).symbols.values()
    names = dict.fromkeys(s.name for t in tables for s in t if s.name and not s.defined)
    if others := [n for n in names if not _OF_THE_LANGUAGE.fullmatch(n)]:
        told = ", ".join(map(readable, others[:4]))
        raise PortakernError("decoy", f"as C++ of this processor it reaches for {told}, which no GPU has",
                             hint="write what is computed for the device alone")


def _part(name: str, flags: Sequence[str], command: Sequence[str], version: str) -> Path:
    """A file of ``host/``, the same for every kernel, compiled; it lies in the cache."""
    cache = Cache()
    key = digest("cuda-fibers", name, [(HOST / x).read_text() for x in (name, *_READ)], flags, version)
    path = _parts.get((cache.directory, key))
    if path is None or not path.exists():
        path = cache.file(key)
    if path is None:
        with tempfile.TemporaryDirectory(prefix="portakern-cuda-") as folder:
            words = (*flags, f"-I{HOST}", "-c", str(HOST / name), "-o", "part")
            run_tool([*command, *words], timeout_s=TIMEOUT_S, cwd=Path(folder)).checked(f"the interpreter's {name}")
            cache.put(key, (Path(folder) / "part").read_bytes())
        path = cache.file(key)
        assert path is not None
    _parts[cache.directory, key] = path
    return path


def _entry(source: Source, launch: Launch) -> str:
    """The C function that runs the kernel on pointers to its arguments."""
    arrays = {a.name: a for a in source.arrays}
    maps = {m.name for m in launch.maps}
    args: list[str] = []
    for n, name in enumerate(launch.args):
        if name in maps:
            args.append(f"*static_cast<pk::TensorMap*>(args[{n}])")
            continue
        kind = TYPES[arrays[name].dtype] if name in arrays else "int64_t"
        pointer = name in arrays and isinstance(arrays[name].type, BufferType)
        args.append(f"static_cast<{kind}*>(args[{n}])" if pointer else f"*static_cast<{kind}*>(args[{n}])")
    x, y, z = launch.block
    return (f'extern "C" const char* host_{launch.kernel}(void** args, const unsigned* grid, int backwards) {{\n'
            f"    host::dynamic_bytes = {launch.shared_bytes};\n"
            f"    return host::launch({{grid[0], grid[1], grid[2]}}, {{{x}, {y}, {z}}}, {launch.cluster[0]}, backwards,\n"
            f"                        [&] {{ host::enters_kernel(); {launch.kernel}({', '.join(args)}); }});\n}}\n")


class HostProgram:
    """A program on host fibers.  Writes outside arrays reach their guard bands."""

    guards = True

    def __init__(self, source: Source, library: Path) -> None:
        self.source = source
        self._library = ctypes.CDLL(str(library))
        self._library.host_some.restype = None
        self._ran = self._library.host_ran
        self._ran.restype = ctypes.c_uint64
        self._backwards = itertools.cycle((0, 1))  # the second run of a check takes the other order

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Raises :class:`SimulatorError` where a kernel does what no GPU can, such as a barrier that not all threads meet."""
        self._execute({name: b.array for name, b in buffers.items()}, sizes)

    def blocks(self, sizes: Mapping[str, int]) -> int:
        """Blocks, or clusters of them, of the one kernel; 0 where there are several launches, or arrays beside the caller's."""
        launches = self.source.launches
        if len(launches) != 1 or self.source.repeats or self.source.by_role("temporary") or any(
                a.init is not None for a in self.source.arrays):  # fmt: skip
            return 0
        return math.prod(evaluate(n, sizes) for n in launches[0].grid) // launches[0].cluster[0]

    def run_blocks(self, blocks: Sequence[int], buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int],
                   seconds: float = math.inf) -> int:  # fmt: skip
        """As :meth:`run`, with these alone, of which none begins after so many seconds: how many ran."""
        places = (ctypes.c_uint64 * len(blocks))(*blocks)
        self._library.host_some(places, ctypes.c_uint64(len(blocks)), ctypes.c_double(seconds))
        try:
            self.run(buffers, sizes)
        finally:
            self._library.host_some(None, ctypes.c_uint64(0), ctypes.c_double(0))
        return self._ran()

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """On host arrays; outputs are numpy arrays."""
        import numpy as np

        given = self.source.by_role("input", "scalar")
        arrays = {a.name: np.ascontiguousarray(np.asarray(x)) for a, x in zip(given, inputs, strict=True)}
        outputs = self.source.by_role("output")
        arrays |= {a.name: _empty(a, sizes) for a in outputs}
        self._execute(arrays, sizes)
        made = tuple(arrays[a.name] for a in outputs)
        return made[0] if len(made) == 1 else made

    def _execute(self, arrays: dict[str, Any], sizes: Mapping[str, int]) -> None:
        arrays |= {a.name: _empty(a, sizes) for a in self.source.by_role("temporary")}
        for a in self.source.arrays:
            if a.init is not None:
                arrays[a.name][...] = a.init
        order = next(self._backwards)
        for turn in turns(len(self.source.launches), self.source.repeats, sizes):
            launch, sizes = self.source.launches[turn.number], turn.sizes
            grid = [evaluate(n, sizes) for n in launch.grid]
            if 0 in grid:
                continue
            if max(grid) >= 2**31:
                raise RuntimeFault(f"{launch.kernel} needs a grid of {grid}", hint="take larger tiles")
            kept: dict[str, Any] = {n: ctypes.c_int64(sizes[n]) for n in launch.args if n in sizes and n not in arrays}
            kept |= {m.name: _described(m, arrays[turn.array(m.array)], sizes) for m in launch.maps}
            places = [ctypes.addressof(kept[n]) if n in kept else arrays[turn.array(n)].ctypes.data for n in launch.args]
            run = getattr(self._library, f"host_{launch.kernel}")
            run.restype = ctypes.c_char_p
            fault = run((ctypes.c_void_p * max(1, len(places)))(*places), (ctypes.c_uint * 3)(*grid), order)
            if fault:
                raise SimulatorError(f"{launch.kernel}: {told(fault.decode(), Path(self._library._name), self.source)}")


class _TensorMap(ctypes.Structure):
    """pk::TensorMap of host/pk/ptx_tma.cuh: dims innermost first, strides in bytes."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_int64 * 5), ("stride", ctypes.c_int64 * 5),
                ("box", ctypes.c_int32 * 5), ("lower", ctypes.c_int16 * 3), ("upper", ctypes.c_int16 * 3),
                ("steps", ctypes.c_uint8 * 3), ("rank", ctypes.c_uint8), ("element_bytes", ctypes.c_uint8),
                ("swizzle", ctypes.c_uint8), ("padding", ctypes.c_char * 2))  # fmt: skip


def _described(spec: TensorMap, array: Any, sizes: Mapping[str, int]) -> _TensorMap:
    begin = array.ctypes.data + spec.offset * array.itemsize
    made = _TensorMap(begin, rank=len(spec.shape), element_bytes=array.itemsize, swizzle=spec.swizzle)
    for n, (size, stride, box) in enumerate(reversed(list(zip(spec.shape, spec.strides, spec.box, strict=True)))):
        made.size[n], made.stride[n], made.box[n] = evaluate(size, sizes), evaluate(stride, sizes) * array.itemsize, box
    if spec.pixels is not None:
        for n, corner in enumerate(reversed(list(zip(spec.pixels.lower, spec.pixels.upper, spec.pixels.steps, strict=True)))):
            made.lower[n], made.upper[n], made.steps[n] = corner
    return made


def _empty(array: Array, sizes: Mapping[str, int]) -> Any:
    """Full of NaN: what was never written must not be read."""
    import numpy as np

    from portakern.dtypes import numpy_dtype

    assert isinstance(array.type, BufferType)
    made = np.empty(tuple(evaluate(n, sizes) for n in array.type.shape), numpy_dtype(array.dtype))
    made.reshape(-1).view(np.uint8).fill(0xFF)
    return made
