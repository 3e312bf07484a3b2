"""A CUDA kernel that belongs to no operator, as a source to be compiled and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from portakern.backend import InspectedKernel, Remark, Source, Target
from portakern.emit.host_side import device_side
from portakern.emit.strangers import bare_source

from .emitter import included_headers
from .standard import standard_headers
from .toolchain import INSTANCES

TEXT = "kernel.cu"
_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")


def bare(kernel: InspectedKernel, target: Target, found: Sequence[str] = ()) -> Source:
    """The device's side of the text; ``found`` are the kernels of the compiled text.

    Raises :class:`UsageError` where the text holds no such kernel, or several and none is named.
    """
    side = device_side(kernel.text)
    file = Path(kernel.file).name if Path(kernel.file).suffix in _SUFFIXES else TEXT
    asked = [kernel.entry] if "<" in kernel.entry else []
    instances = tuple(dict.fromkeys([*asked, *side.instances]))
    options = ((INSTANCES, instances),)
    return bare_source(kernel, target, found, side.text, ".cu", file, _headers, options, device_only=True)


def _headers(*texts: str) -> tuple[tuple[str, str], ...]:
    return (*included_headers("\n".join(texts)), *standard_headers(*texts))


def remarks(kernel: InspectedKernel, target: Target) -> tuple[Remark, ...]:
    """Instances of templates that hang on who calls a host function, which nobody does here."""
    if "<" in kernel.entry:
        return ()
    return tuple(
        Remark(
            line,
            "note",
            f"{name} is launched with what its callers know, and has no code",
            f"ask for 'FILE:{name}' with values",
        )
        for line, name in device_side(kernel.text).unknown
    )
