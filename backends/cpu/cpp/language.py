"""The language ``cpp``: C++ on the host CPU."""

from __future__ import annotations

import re

from portakern.backend import Language, Source, Target
from portakern.emit.clike import reached
from portakern.emit.clike.spoken import WORDS
from portakern.errors import BackendError
from portakern.ir.planes import PlaneConvolution
from portakern.ir.program import Program

from .emitter import CppEmitter, entry_name, parameters
from .runtime import CppRuntime
from .schedules import OPTIONS, SORTED, schedules
from .toolchain import CppToolchain

CONVENTION = (
    'One function extern "C" void entry(const T* input, ..., T* output, ..., scalars by value, int64_t open dims), named '
    "as the operator unless an entry is given: arrays in the operator's order, row-major unless strides are stated, f16 "
    'and bf16 as pk::f16 and pk::bf16 of #include "pk/element.hpp" (or uint16_t bit patterns). The function writes every '
    "output completely and returns when it is done; it may use threads and any of the headers pk/*.hpp, but no other "
    "libraries, programs or Python."
)


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """A foreign C++ source for the arrays of ``program``.  Raises :class:`BackendError` where no entry is found."""
    name = entry or entry_name(program)
    if not re.search(rf"\b{re.escape(name)}\s*\(", text):
        exported = re.findall(r'extern\s+"C"\s+void\s+(\w+)\s*\(', text)
        if entry or len(exported) != 1:
            raise BackendError(f"the source defines no function {name!r}",
                               hint=f"it exports {', '.join(exported) or 'none'}; {CONVENTION}")
        name = exported[0]
    includes = re.findall(r'^[^\S\n]*#[^\S\n]*include[^\S\n]*"(pk/[^"\n]+)"', text, re.MULTILINE)
    return Source(target, program.name, name, text, ".cpp", program.arrays, program.sizes, (),
                  reached(includes, CppEmitter().library()))


FEW = 16
"""Channels below which a tap that meets every other pixel costs more to find than to multiply."""


def takes_planes(asked: PlaneConvolution) -> bool:
    """Those of which vectors of pixels are read: neighbours lie side by side in memory, or their loads serve many channels."""
    return asked.dtype in ("f32", "bf16") and (asked.stride == 1 or asked.channels >= FEW)


CPP = Language(
    name="cpp",
    title="C++",
    targets=("cpu",),
    emitter=CppEmitter(),
    schedules=schedules,
    sorts=SORTED,
    extra="cpp",
    tools={"g++": "C++ on the CPU", "clang++": "C++ on the CPU"},
    options=OPTIONS,
    toolchain=CppToolchain(),
    runtime=CppRuntime(),
    convention=CONVENTION,
    adopt=adopt,
    takes_pixels=True,
    takes_planes=takes_planes,
    long_steps=False,
    units=lambda device, dtype: dtype == "f16",  # widened element by element, which products do once
    pairs=lambda nest, device: True,
    forks=True,
    words=WORDS,
    shares_process=True,
)

__all__ = ["CPP", "adopt", "parameters"]
