"""The ``opencl`` language of the manifest."""

from __future__ import annotations

from portakern.backend import Language, Source, Target
from portakern.emit.launches import ARRAY_FORM, FORM, adopt_launches
from portakern.ir.program import Program

from ..spoken import WORDS
from ..workers import ENVIRONMENT, INSIDE
from .emitter import OpenCLEmitter
from .runtime import OpenCLRuntime
from .schedules import SORTED, schedules
from .toolchain import OpenCLToolchain

CONVENTION = (
    "OpenCL C kernels, each under a comment line that says how it is launched:\n"
    f"  {FORM}\n"
    "Grid and block count work-groups and work-items per group; args names the operator's arrays, run-time scalars "
    "and open dims (64-bit integers) in the order of the kernel's parameters. bf16 arrays are `ushort`, bool arrays "
    "`uchar`; f16 and bf16 scalars come as float. Local arrays are declared in the kernel (shared=0). Several lines are "
    f"launched in order; arrays that one leaves for another are announced by `{ARRAY_FORM}`, where init may be left out."
)


def _adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    return adopt_launches(text, entry, program, target, ".cl", CONVENTION)


OPENCL = Language(
    name="opencl",
    title="OpenCL C",
    targets=("cpu",),
    emitter=OpenCLEmitter(),
    schedules=schedules,
    sorts=SORTED,
    extra="opencl",
    toolchain=OpenCLToolchain(),
    runtime=OpenCLRuntime(),
    environment={**ENVIRONMENT, INSIDE: "1"},
    convention=CONVENTION,
    adopt=_adopt,
    preload=("pyopencl",),
    units=lambda device, dtype: False,
    words=WORDS,
)
