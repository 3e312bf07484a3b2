"""Foreign HIP text as a source of portakern's."""

from __future__ import annotations

import re

from portakern.backend import Source, Target
from portakern.emit.clike import read_headers
from portakern.emit.launches import FORM, adopt_launches
from portakern.ir.program import Program

from .emitter import HEADERS

CONVENTION = f"""\
HIP C++ with one or more `extern "C" __global__` kernels, each announced by a comment line with its launch, in launch order:
`{FORM}`
(grid in blocks: integers or Python expressions of open dims; args: the operator's arrays, then run-time scalars, then open
dims as int64_t, in the order of the kernel's parameters). It is compiled by clang without ROCm's headers: include
"pk/device.h" for __global__, __shared__, blockIdx, threadIdx, barriers and lane exchange, or "pk/pk.h" for the tile
vocabulary; <hip/hip_runtime.h>, <hip/hip_fp16.h> and <hip/hip_bf16.h> are short stand-ins; the amdgcn builtins are there."""


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """Raises :class:`UsageError` where launch comments are missing, malformed or name what the operator does not have."""
    return adopt_launches(text, entry, program, target, ".hip", CONVENTION, headers_of(text))


def headers_of(text: str) -> tuple[tuple[str, str], ...]:
    """Ours, and the stand-ins for ROCm's where the text includes any."""
    found = read_headers(HEADERS)
    return (*found, *read_headers(HEADERS.parent / "hip", "hip")) if re.search(r"#\s*include\s*[<\"]hip/", text) else found
