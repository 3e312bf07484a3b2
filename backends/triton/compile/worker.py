"""Compiling in a worker process: the host function runs on tensors without storage and every launch it makes is compiled.

Running the text's own host function is what makes our kernels and foreign ones alike: block sizes, warps, argument
types and divisibility are those that Triton's launcher would see, because Triton's launcher computes them.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from portakern.backend import Source
from portakern.errors import CompileError, PortakernError, ToolMissing
from portakern.tools.cache import default_directory

from .assembler import use_sound_assembler
from .faces import is_kernel, known_sizes, launch_of, text_of
from .source_module import divisible_sizes, example_sizes, load_module, parameters, shape_of, strides_of, torch_dtype


@dataclass(frozen=True)
class KernelBinary:
    """One launched kernel: machine code, its assembly text, and what Triton says of the launch."""

    name: str
    format: str
    data: bytes
    assembly: str
    shared_bytes: int
    warps: int
    signature: str


@dataclass(frozen=True)
class Launched:
    """A kernel that Triton compiled, the function that it was, and the digests of its launches."""

    compiled: Any
    function: Any
    digests: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CompiledSource:
    """``digests`` are those of what may be launched (see :mod:`.faces`)."""

    kernels: tuple[KernelBinary, ...]
    tool: str
    digests: tuple[str, ...] = ()


def versions() -> str:
    return f"triton {importlib.metadata.version('triton')}"


def prepare_compiler() -> None:
    """Keep Triton's own cache beside ours, not in the home directory, and assemble with a ptxas without known faults."""
    os.environ.setdefault("TRITON_CACHE_DIR", str(default_directory() / "triton"))
    use_sound_assembler()


def compile_source(source: Source) -> CompiledSource:
    """Compile every kernel the host function launches, for a device that need not be here.

    With open dims the binaries are those of sizes that nothing divides, and the shared memory is the most that either these or
    multiples of 16 take, whose loads Triton pipelines through it.  Raises :class:`CompileError` with what Triton said.
    """
    prepare_compiler()
    try:
        import torch  # noqa: F401
        import triton  # noqa: F401
    except ImportError as error:
        raise ToolMissing(f"compiling Triton needs {error.name}", hint="pip install 'portakern[triton]'") from None
    launched = _launched(source, example_sizes(source.sizes))
    kernels = [_describe(x.compiled) for x in launched]
    if source.sizes:  # what it takes with other sizes must fit as well
        others = [x.compiled for x in _launched(source, divisible_sizes(source.sizes))]
        most = {k.metadata.name: k.metadata.shared for k in others}
        kernels = [replace(k, shared_bytes=max(k.shared_bytes, most.get(k.name, 0))) for k in kernels]
    return CompiledSource(tuple(kernels), versions(), digests_of(source, launched))


def digests_of(source: Source, launched: Iterable[Launched]) -> tuple[str, ...]:
    """Of the launches; with open dims of all kernels that the text has, since at other sizes it may launch others."""
    if known_sizes(source):
        return tuple(sorted({d for x in launched for d in x.digests}))
    functions = [*(x.function for x in launched), *filter(is_kernel, vars(load_module(source)).values())]
    return tuple(sorted(set(map(text_of, functions))))


def _launched(source: Source, sizes: dict[str, int]) -> list[Launched]:
    """The kernels that the host function launches at ``sizes``, compiled."""
    import torch

    arguments: list[Any] = []
    for array in parameters(source):
        if array.role == "scalar":
            arguments.append(1 if array.dtype.startswith(("i", "u")) else 1.5)
        else:
            shape = shape_of(array, sizes)
            arguments.append(torch.empty_strided(shape, strides_of(array, sizes), dtype=torch_dtype(array.dtype),
                                                 device="meta"))  # fmt: skip
    with compiling_for(source.target.device.isa) as launched:
        module = load_module(source)
        try:
            getattr(module, source.entry)(*arguments)
        except PortakernError:
            raise
        except Exception as error:
            raise CompileError(f"Triton cannot compile {source.operator} for {source.target}: {_summary(error)}",
                               log=f"{type(error).__name__}: {error}") from error  # fmt: skip
    empty = all(0 in shape_of(a, sizes) for a in source.by_role("output"))
    if not launched and not empty:
        raise CompileError(f"the host function of {source.operator} launches no Triton kernel", kind="no-kernel")
    return launched


def _summary(error: BaseException) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"


def gpu_target(isa: str) -> Any:
    """Triton's name for an instruction set."""
    from triton.backends.compiler import GPUTarget

    if isa.startswith("sm_"):
        return GPUTarget("cuda", int(isa[3:].rstrip("a")), 32)
    return GPUTarget("hip", isa, 64 if isa.startswith("gfx9") else 32)


class _NoDevice:
    """Stands in for Triton's driver: knows the target and has no device behind it."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("meta")

    def __getattr__(self, name: str) -> Any:
        raise CompileError(f"the host function asks Triton's driver for {name}, and there is no device while compiling")


@contextmanager
def compiling_for(isa: str, launch: bool = False) -> Iterator[list[Launched]]:
    """While this is open, launching a kernel compiles it for ``isa`` and adds it to the list, instead of running it.

    With ``launch``, the kernel is also launched, which must be noted by somebody since there is no device.
    """
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime import driver  # type: ignore[attr-defined]
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    launched: list[Launched] = []
    seen: dict[str, Launched] = {}
    tuning: list[Any] = []
    run, tuned_run, metadata = JITFunction.run, Autotuner.run, CompiledKernel.launch_metadata

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool = True, **kwargs: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=not launch, **kwargs)
        if kernel is not None and kernel.hash not in seen:
            seen[kernel.hash] = Launched(kernel, self)
            launched.append(seen[kernel.hash])
        if kernel is not None:
            seen[kernel.hash].digests.append(launch_of(self, args, kwargs, grid, bool(tuning)))
        return kernel

    def first_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Without a device nothing can be tuned: the first configuration stands for all."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        tuning.append(self)
        try:
            return self.fn.run(*args, **kwargs, **self.configs[0].all_kwargs())
        finally:
            tuning.pop()

    before = getattr(driver, "_active", None)
    driver.set_active(_NoDevice(gpu_target(isa)))  # type: ignore[arg-type]
    JITFunction.run, Autotuner.run = compile_only, first_config  # type: ignore[method-assign]
    CompiledKernel.launch_metadata = lambda self, grid, stream, *args: None  # what profilers read would load the kernel
    try:
        yield launched
    finally:
        JITFunction.run, Autotuner.run = run, tuned_run  # type: ignore[method-assign]
        CompiledKernel.launch_metadata = metadata
        driver.set_active(before)  # type: ignore[arg-type]


def _describe(kernel: Any) -> KernelBinary:
    code = "cubin" if "cubin" in kernel.asm else "hsaco"
    text = kernel.asm["ptx"] if code == "cubin" else kernel.asm["amdgcn"]
    signature = ", ".join(f"{k}: {v}" for k, v in kernel.src.signature.items() if v != "constexpr")
    return KernelBinary(kernel.metadata.name, code, kernel.asm[code], text, kernel.metadata.shared,
                          kernel.metadata.num_warps, signature)  # fmt: skip
