"""A HIP kernel that belongs to no operator, as a source to be compiled and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from portakern.backend import InspectedKernel, Source, Target
from portakern.emit.strangers import bare_source

from .adopt import headers_of, with_instances
from .toolchain import TEXT

_SUFFIXES = (".hip", ".cpp", ".cc", ".cxx", ".cu")


def bare(kernel: InspectedKernel, target: Target, found: Sequence[str] = ()) -> Source:
    """``found`` are the kernels of the compiled text; before they are known, the source is there to be compiled only.

    Raises :class:`UsageError` where the text holds no such kernel, or several and none is named.
    """
    text = with_instances(kernel.text, [kernel.entry] if "<" in kernel.entry else [])
    file = Path(kernel.file).name if Path(kernel.file).suffix in _SUFFIXES else TEXT
    return bare_source(kernel, target, found, text, ".hip", file, headers_of(text))
