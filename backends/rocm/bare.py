"""A HIP kernel that belongs to no operator, as a source to be compiled and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from portakern.backend import InspectedKernel, Remark, Source, Target
from portakern.emit.host_side import device_side
from portakern.emit.strangers import bare_source

from .adopt import headers_of, with_instances
from .from_cuda.headers import FIRST, cuda_headers
from .from_cuda.remarks import remarks as cuda_remarks
from .toolchain import FIRST_HEADER, TEXT

_SUFFIXES = (".hip", ".cpp", ".cc", ".cxx", ".cu")


def bare(kernel: InspectedKernel, target: Target, found: Sequence[str] = ()) -> Source:
    """``found`` are the kernels of the compiled text; before they are known, the source is there to be compiled only.

    Raises :class:`UsageError` where the text holds no such kernel, or several and none is named.
    """
    asked = [kernel.entry] if "<" in kernel.entry else []
    file = Path(kernel.file).name if Path(kernel.file).suffix in _SUFFIXES else TEXT
    if kernel.origin == "cuda":
        side = device_side(kernel.text)
        text = with_instances(side.text, dict.fromkeys([*asked, *side.instances]))
        return bare_source(kernel, target, found, text, ".hip", file, cuda_headers, ((FIRST_HEADER, FIRST),), device_only=True)
    text = with_instances(kernel.text, asked)
    return bare_source(kernel, target, found, text, ".hip", file, lambda *texts: headers_of(text))


def remarks(kernel: InspectedKernel, target: Target) -> tuple[Remark, ...]:
    return cuda_remarks(kernel, target) if kernel.origin == "cuda" else ()
