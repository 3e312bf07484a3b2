"""Calls NVRTC, NVIDIA's run-time compiler, which needs neither a driver nor a GPU.  Runs in a worker process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from portakern.errors import CompileError, ToolMissing


def compile_text(
    text: str, name: str, headers: Sequence[tuple[str, str]], options: Sequence[str], instances: Sequence[str] = ()
) -> tuple[bytes, str, str, str]:
    """The cubin, PTX, log and version for one source.

    Args:
        name: what messages call the text.
        headers: (name, text) of what it includes.
        options: of the compiler, ``--gpu-architecture`` among them.
        instances: of the text's templates that there shall be code of.

    Raises:
        ToolMissing: NVRTC or its Python binding is not installed.
        CompileError: the text does not compile; ``log`` says why.
    """
    nvrtc, version = _loaded()
    names, texts = [n.encode() for n, _ in headers], [t.encode() for _, t in headers]
    (program,) = _checked(nvrtc, nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), len(names), texts, names))
    try:
        for instance in instances:
            _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, instance.encode()))
        encoded = [o.encode() for o in options]
        with contextlib.chdir("/"):  # line information names files in the working folder, and binaries must not hang on that
            status = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)[0]
        log = _text(nvrtc, "ProgramLog", program).decode(errors="replace").strip("\0 \n")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"NVRTC {version} cannot compile {name} ({status.name})", hint=first_error(log), log=log)
        return _text(nvrtc, "CUBIN", program), _text(nvrtc, "PTX", program).decode().strip("\0"), log, version
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def loaded() -> None:
    """Has NVRTC in this process as far as it opens no GPU, which it does with the first text that it compiles."""
    with contextlib.suppress(ToolMissing):
        _loaded()


def _loaded() -> tuple[Any, str]:
    """The binding, and the compiler's version, which loads it.  Raises :class:`ToolMissing`."""
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")  # a binary without stubs
        return nvrtc, ".".join(map(str, _checked(nvrtc, nvrtc.nvrtcVersion())))
    except (ImportError, RuntimeError) as error:
        raise ToolMissing(f"NVRTC cannot be loaded: {error}", hint="pip install 'portakern[cuda]'") from None


def _text(nvrtc: Any, what: str, program: Any) -> bytes:
    (size,) = _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = b" " * size
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer


def _checked(nvrtc: Any, result: tuple[Any, ...]) -> tuple[Any, ...]:
    if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolMissing(f"NVRTC answers {result[0].name}", hint="pip install 'portakern[cuda]'")
    return result[1:]


def first_error(log: str) -> str:
    return next((line.strip() for line in log.splitlines() if "error" in line), "")


def toolkit_headers() -> list[str]:
    """Folders with the toolkit's own headers, which foreign kernels may include: those of the installed wheels."""
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    found: list[str] = []
    for root in (spec.submodule_search_locations or []) if spec else []:
        for folder in (*sorted(Path(root).glob("cu*/include")), Path(root) / "cuda_runtime" / "include"):
            if (folder / "cuda_fp16.h").is_file():
                found += [str(folder), *([str(folder / "cccl")] if (folder / "cccl").is_dir() else [])]
    return found
