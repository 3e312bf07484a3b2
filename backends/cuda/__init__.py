"""NVIDIA GPUs through CUDA C++."""

from __future__ import annotations

from pathlib import Path

from portakern.backend import Backend, Language, Source, Target
from portakern.emit.clike.spoken import WORDS
from portakern.emit.launches import ARRAY_FORM, FORM, adopt_launches
from portakern.ir.program import Program

from .bare import bare, remarks
from .choices import choices
from .cost.estimator import CudaEstimator
from .emitter import MATRIX_OPERANDS, OPTIONS, CudaEmitter, included_headers
from .interpreter import CudaInterpreter
from .pairs import pairs
from .planes import takes_planes
from .runtime import CudaRuntime
from .schedules import SORTED, schedules
from .toolchain import ENVIRONMENT, CudaToolchain

CONVENTION = (
    "CUDA C++ compiled by NVRTC as C++17. Above each kernel, in launch order, stands a comment of this form: "
    f"`{FORM}`, with sizes that may be expressions of the open dims. Parameters are pointers to the arrays, then run-time "
    "scalars by value, then the open dims as int64_t, in the order of args; arrays that one kernel leaves for another are "
    f"announced by `{ARRAY_FORM}`, where init may be left out. bf16 and f16 are "
    '__nv_bfloat16 and __half of cuda_bf16.h and cuda_fp16.h, or pk::bf16 and pk::f16 of the tile library ("pk/pk.cuh").'
)


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """A foreign kernel as a source; raises :class:`UsageError` where its launch comments do not say how to run it."""
    return adopt_launches(text, entry, program, target, ".cu", CONVENTION, included_headers(text))


CUDA = Language(
    name="cuda",
    title="CUDA C++",
    targets=("sm_80", "sm_90a", "sm_100a", "sm_120"),
    emitter=CudaEmitter(),
    takes_pixels=True,
    takes_planes=takes_planes,
    sorts=SORTED,
    schedules=schedules,
    pairs=pairs,
    multiplies=lambda device, dtype, summed: dtype in MATRIX_OPERANDS,
    halves_of_heads=True,
    extra="cuda",
    options=OPTIONS,
    tools={"nvcc": "compiles CUDA C++ where NVRTC is not installed", "nvdisasm": "machine code as text"},
    toolchain=CudaToolchain(),
    runtime=CudaRuntime(),
    simulator=CudaInterpreter(),
    estimator=CudaEstimator(),
    environment=ENVIRONMENT,
    convention=CONVENTION,
    adopt=adopt,
    bare=bare,
    remarks=remarks,
    choices=choices,
    forks=True,
    words=WORDS,
    shares_process=True,
)

backend = Backend(name="cuda", languages=(CUDA,), devices=Path(__file__).parent / "devices")
