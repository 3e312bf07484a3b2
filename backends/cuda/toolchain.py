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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.emit.clike import inline_headers
from portakern.emit.room import explained
from portakern.errors import CompileError, ToolMissing
from portakern.tools.process import find_tool, run_tool
from portakern.tools.workers import WorkerPool

from .cubin import resources
from .nvrtc import first_error

T = TypeVar("T")

HINT = "pip install 'portakern[cuda]' (cuda-bindings and nvidia-cuda-nvrtc), or put nvcc on PATH"
TIMEOUT_S = 120.0
_DIVISION = "--prec-div=false"
"""Divisions of f32 within 2 ulp (CUDA C++ Programming Guide, "Standard Functions"): a branch less for each, which is 14 of the
34 instructions that softmax takes for an element."""

_OPTIONS = ("--std=c++17", "--ptxas-options=-v", "--generate-line-info", _DIVISION)
"""Line information lets a report put instructions under the lines that they come from; machine code is the same without."""
_UNFUSED = "--fmad=false"
"""For texts in the words of ``pk/``, where ``pk::fma`` says what is fused: a maximum of products and the same products less
that maximum must be rounded alike.  Foreign texts are compiled as their authors' compiler does."""
_ABI = 3
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
        return f"{have.detail} {' '.join(_OPTIONS)} {_UNFUSED} {target.device.isa} {_ABI}"

    def compile(self, source: Source) -> CompiledBinary:
        compile_ = _with_nvrtc if _nvrtc() else _with_nvcc
        cubin, ptx, log, tool = compile_(source)
        return CompiledBinary("cubin", cubin, tool, _resources(source, cubin, log), _assembly(cubin, ptx), _kept(log))


def _resources(source: Source, cubin: bytes, log: str) -> tuple[Resources, ...]:
    launches = {x.kernel: (x.block[0] * x.block[1] * x.block[2], x.shared_bytes) for x in source.launches}
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


def _fusing(source: Source) -> tuple[str, ...]:
    return (_UNFUSED,) if source.headers or "namespace pk {" in source.text else ()


_lock = threading.Lock()
_pool: list[WorkerPool] = []


def _with_nvrtc(source: Source) -> tuple[bytes, str, str, str]:
    options = [f"--gpu-architecture={source.target.device.isa}", *_OPTIONS, *_fusing(source)]
    if re.search(r"#\s*include\s*<", source.text):
        options += [f"--include-path={folder}" for folder in _call("toolkit_headers")]
    words = source.text, f"{source.operator}.cu", source.headers, options
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
    """A function of the module nvrtc in the worker, which lives as long as this process."""
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
        text = Path(folder) / f"{source.operator}.cu"
        text.write_text(inline_headers(source.text, source.headers))
        common = [nvcc, "--std=c++17", _DIVISION, *_fusing(source), f"--gpu-architecture={source.target.device.isa}", text]
        cubin, ptx = text.with_suffix(".cubin"), text.with_suffix(".ptx")
        built = run_tool([*common, "--cubin", "-Xptxas", "-v", "-o", cubin], timeout_s=TIMEOUT_S)
        _checked(source, lambda: built.checked(what, hint=first_error(built.log)))
        run_tool([*common, "--ptx", "-o", ptx], timeout_s=TIMEOUT_S).checked(what)
        return cubin.read_bytes(), ptx.read_text(), built.log, f"nvcc {_nvcc_version(nvcc)}"


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
    return f"{ptx.rstrip()}\n\n// ---- machine code (nvdisasm) ----\n\n{result.stdout}"


