"""NVIDIA's disassemblers, wherever they came from: the toolkit, its wheels, or Triton's."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from portakern.errors import ToolMissing
from portakern.tools.process import run_tool

HINT = "pip install nvidia-cuda-nvdisasm (portakern[cuda] and triton bring it), or put nvdisasm or cuobjdump on PATH"
TIMEOUT_S = 60.0
LIMIT = 40_000_000
"""Characters: an unrolled attention kernel takes some three million."""

_OPTIONS = {"nvdisasm": ("--print-code", "--print-instruction-encoding", "--print-line-info-inline"), "cuobjdump": ("-sass",)}
"""Encodings hold what the compiler decided for each instruction: how long to stall, and which barriers to wait for."""


@cache
def disassembler() -> Path | None:
    """nvdisasm, else cuobjdump; ``None`` where neither is here."""
    for name in _OPTIONS:
        on_path = shutil.which(name)
        if on_path is not None:
            return Path(on_path)
        for folder in _folders():
            if os.access(folder / name, os.X_OK):
                return folder / name
    return None


def _folders() -> list[Path]:
    toolkits = [Path(root) / "bin" for v in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(v))]
    nvidia, triton = (list(s.submodule_search_locations or ()) if (s := find_spec(n)) else [] for n in ("nvidia", "triton"))
    wheels = [bin for root in nvidia for bin in sorted(Path(root).glob("cu*/bin"), reverse=True)]
    older = [Path(root) / "cuda_nvcc" / "bin" for root in nvidia]
    return [*toolkits, Path("/usr/local/cuda/bin"), *wheels, *older, *(Path(x) / "backends/nvidia/bin" for x in triton)]


def disassembled(cubin: bytes) -> str:
    """The machine code of a cubin as text, with encodings, and the lines it comes from where they are kept.

    Raises :class:`ToolMissing` where there is no disassembler, :class:`CompileError` where it does not take the cubin.
    """
    tool = disassembler()
    if tool is None:
        raise ToolMissing("no disassembler of NVIDIA's machine code is here", hint=HINT)
    with tempfile.TemporaryDirectory(prefix="portakern-cuda-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        result = run_tool([tool, *_OPTIONS[tool.name], path], timeout_s=TIMEOUT_S, output_limit=LIMIT)
    return result.checked("a cubin", hint=f"{tool} may be older than the compiler; {HINT}").stdout
