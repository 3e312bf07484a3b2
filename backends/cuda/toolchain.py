"""CUDA C++ to cubins: NVRTC in a worker process, or nvcc where that is what there is."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.emit.clike import inline_headers
from portakern.emit.room import explained
from portakern.emit.strangers import FOREIGN, THREADS
from portakern.errors import CompileError, ToolMissing
from portakern.tools.process import find_tool, run_tool
from portakern.tools.workers import WorkerPool

from .cubin import kernels_of, resources
from .nvrtc import first_error
from .sass.disassembler import disassembled
from .sass.mix import mix_of
from .sass.reader import read
from .standard import ALWAYS, standard_headers

T = TypeVar("T")
_MACHINE_CODE = "// ---- machine code (nvdisasm) ----"

HINT = "pip install 'portakern[cuda]' (cuda-bindings and nvidia-cuda-nvrtc), or put nvcc on PATH"
TIMEOUT_S = 120.0
_DIVISION = "--prec-div=false"
"""Divisions of f32 within 2 ulp (CUDA C++ Programming Guide, "Standard Functions"): a branch less for each, which is 14 of the
34 instructions that softmax takes for an element."""

_OPTIONS = ("--std=c++17", "--ptxas-options=-v", "--generate-line-info")
"""Line information lets a report put instructions under the lines that they come from; machine code is the same without."""
_UNFUSED = "--fmad=false"
"""For texts in the words of ``pk/``, where ``pk::fma`` says what is fused: a maximum of products and the same products less
that maximum must be rounded alike.  Foreign texts are compiled as their authors' compiler does."""
INSTANCES = "instances"
"""Option of a source from elsewhere: instances of its templates that there shall be code of."""
_ABI = 4
"""Raised when the same text would give another binary or other resources."""


@dataclass(frozen=True)
class CudaToolchain:
    """Compiles on any machine; a GPU or a driver is not needed."""

    def available(self, target: Target) -> Availability:
        if _nvrtc():
            return Availability(True, f"NVRTC {_nvrtc()} (cuda-bindings {_version('cuda-bindings')})")
        nvcc = shutil.which("nvcc")
        return Availability(True, f"nvcc {_nvcc_version(nvcc)}") if nvcc else Availability(False, HINT)

    def fingerprint(self, target: Target) -> str:
        have = self.available(target)
        if not have:
            raise ToolMissing(f"no CUDA compiler for {target}", hint=HINT)
        return f"{have.detail} {' '.join((*_OPTIONS, _DIVISION, _UNFUSED))} {target.device.isa} {_ABI}"

    @property
    def opens_devices(self) -> bool:
        """NVRTC loads and initialises the driver where there is one, with its first text."""
        return Path("/dev/nvidiactl").exists()

    def compile(self, source: Source) -> CompiledBinary:
        compile_ = _with_nvrtc if _nvrtc() else _with_nvcc
        cubin, ptx, log, tool = compile_(source)
        return CompiledBinary("cubin", cubin, tool, _resources(source, cubin, log), _assembly(cubin, ptx), _kept(log))

    def instructions(self, binary: CompiledBinary) -> dict[str, dict[str, int]]:
        return {kernel: mix_of(code) for kernel, code in read(disassembled(binary.data)).items()}

    def listing(self, binary: CompiledBinary) -> str:
        return "" if _MACHINE_CODE in (binary.assembly or "") else disassembled(binary.data)


def _resources(source: Source, cubin: bytes, log: str) -> tuple[Resources, ...]:
    launches = {x.kernel: (x.block[0] * x.block[1] * x.block[2], x.shared_bytes) for x in source.launches}
    if _alone(source):
        launches = {name: launches.get(name, (THREADS, 0)) for name in kernels_of(cubin)}
    return resources(cubin, log, source.target.device, launches)


def _kept(log: str) -> str:
    """What a reader of the row wants to see: warnings, not the resource report that the resources were read from."""
    report = re.compile(r"^(ptxas|nvlink)\s.*info|.*bytes stack frame|^\s*$")
    return "\n".join(line for line in log.splitlines() if not report.match(line))


# ---- NVRTC -------------------------------------------------------------------------------------------------------------


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def _nvrtc() -> str:
    """The version of NVRTC that can be called from here, or an empty string."""
    if not _version("cuda-bindings"):
        return ""
    for package in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"):
        if _version(package):
            return _version(package)
    roots = filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"))
    found = next((x for r in roots for x in Path(r).glob("lib64/libnvrtc.so.*")), None)
    return found.resolve().name.removeprefix("libnvrtc.so.") if found else ""


def _alone(source: Source) -> bool:
    """Whether it is a kernel from elsewhere that belongs to no operator."""
    return FOREIGN in dict(source.options)


def _arithmetic(source: Source) -> tuple[str, ...]:
    if any(name.startswith("pk/") for name, _ in source.headers) or "namespace pk {" in source.text:
        return _DIVISION, _UNFUSED
    return () if _alone(source) else (_DIVISION,)


_INSIDE = "PORTAKERN_CUDA_WORKER"
ENVIRONMENT = {_INSIDE: "1"}
"""Marks a process that may end by what it compiles, so that it needs no other one for that."""

_lock = threading.Lock()
_pool: list[WorkerPool] = []


def _with_nvrtc(source: Source) -> tuple[bytes, str, str, str]:
    options = [f"--gpu-architecture={source.target.device.isa}", *_OPTIONS, *_arithmetic(source)]
    given = dict(source.options)
    options += ["--device-as-default-execution-space", f"--pre-include={ALWAYS}"] if _alone(source) else []
    if _alone(source) or re.search(r"#\s*include\s*<", source.text):
        options += [f"--include-path={folder}" for folder in _call("toolkit_headers")]
    name = given.get(FOREIGN, f"{source.operator}.cu")
    words = source.text, name, source.headers, options, given.get(INSTANCES, ())
    cubin, ptx, log, found = _checked(source, lambda: _call("compile_text", *words))
    return cubin, ptx, log, f"NVRTC {found}"


_NO_ROOM = re.compile(r"'(?P<kernel>\w+)' uses too much shared data \((?P<taken>0x\w+) bytes, (?P<room>0x\w+) max\)")


def _checked(source: Source, compile_: Callable[[], T]) -> T:
    """What ``compile_`` gives; a kernel without room for what its blocks share is the schedule's fault."""
    try:
        return compile_()
    except CompileError as error:
        raise explained(error, source, _NO_ROOM) from None


def _call(function: str, *args: object) -> Any:
    """A function of the module nvrtc, elsewhere than in a worker in one that lives as long as this process."""
    if os.environ.get(_INSIDE) == "1":
        return getattr(import_module(f"{__package__}.nvrtc"), function)(*args)
    with _lock:
        if not _pool:
            _pool.append(WorkerPool(1))
            atexit.register(_pool[0].close)
        return _pool[0].call(f"{__package__}.nvrtc:{function}", *args, timeout_s=TIMEOUT_S)


# ---- nvcc --------------------------------------------------------------------------------------------------------------


@cache
def _nvcc_version(nvcc: str) -> str:
    found = re.search(r"V([\d.]+)", run_tool([nvcc, "--version"], timeout_s=30).stdout)
    return found[1] if found else "of unknown version"


def _with_nvcc(source: Source) -> tuple[bytes, str, str, str]:
    nvcc = find_tool("nvcc", hint=HINT)
    what = f"{source.operator} for {source.target}"
    with tempfile.TemporaryDirectory(prefix="portakern-cuda-") as folder:
        text = _written(source, Path(folder))
        common = [nvcc, "--std=c++17", *_arithmetic(source), f"--gpu-architecture={source.target.device.isa}"]
        common += ["-I", folder, str(text)]
        cubin, ptx = text.with_suffix(".cubin"), text.with_suffix(".ptx")
        built = run_tool([*common, "--cubin", "-Xptxas", "-v", "-o", cubin], timeout_s=TIMEOUT_S)
        _checked(source, lambda: built.checked(what, hint=first_error(built.log)))
        run_tool([*common, "--ptx", "-o", ptx], timeout_s=TIMEOUT_S).checked(what)
        return cubin.read_bytes(), ptx.read_text(), built.log, f"nvcc {_nvcc_version(nvcc)}"


def _written(source: Source, folder: Path) -> Path:
    """The text in a file; that from elsewhere beside its headers, less those that stand in for what a host compiler brings."""
    if not _alone(source):
        path = folder / f"{source.operator}.cu"
        path.write_text(inline_headers(source.text, source.headers))
        return path
    given = dict(source.options)
    path = (folder / given[FOREIGN]).with_suffix(".cu")
    uses = " ".join(f"(void)&{name};" for name in given.get(INSTANCES, ()))
    path.write_text(f"{source.text}\nvoid portakern_uses_these() {{ {uses} }}\n")
    for name, text in source.headers:
        if (name, text) not in standard_headers(f"#include <{name}>"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return path


# ---- assembly ----------------------------------------------------------------------------------------------------------


def _assembly(cubin: bytes, ptx: str) -> str:
    """PTX, and the machine code as text where NVIDIA's disassembler is installed."""
    tool = shutil.which("nvdisasm")
    if tool is None:
        return ptx
    with tempfile.TemporaryDirectory(prefix="portakern-cuda-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        result = run_tool([tool, "--print-code", "--print-line-info-inline", path], timeout_s=60, output_limit=4_000_000)
    if not result.ok:
        return ptx
    return f"{ptx.rstrip()}\n\n{_MACHINE_CODE}\n\n{result.stdout}"


