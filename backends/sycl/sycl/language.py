"""The ``sycl`` language of the manifest."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.backend import Language, Source, Target
from portakern.device import Device
from portakern.emit.launches import ARRAY_FORM, FORM, adopt_launches
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule

from ..opencl.schedules import SORTED
from ..opencl.schedules import schedules as cpu_schedules
from ..spoken import WORDS
from ..workers import ENVIRONMENT
from .cpu_emitter import INCLUDE
from .emitter import SyclEmitter
from .gpu_schedules import schedules as gpu_schedules
from .runtime import SyclRuntime
from .simulator import SyclOnCpu
from .toolchain import SyclToolchain

CONVENTION = (
    "SYCL free-function kernels (extern \"C\", nd_range_kernel<3>; PK_KERNEL of pk/cpu.hpp writes that), each under a "
    "comment line that says how it is launched:\n"
    f"  {FORM}\n"
    "Grid and block count work-groups and work-items per group with x the fastest (SYCL's last dimension); args names the "
    "operator's arrays (raw pointers), run-time scalars and open dims (int64_t) in the order of the parameters. bf16 arrays "
    "are pk::bf16 or any 16-bit type, f16 and bf16 scalars come as float. The headers pk/*.hpp may be included. Several "
    f"lines are launched in order; arrays that one leaves for another are announced by `{ARRAY_FORM}`, where init may be "
    "left out."
)


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    return gpu_schedules(nest, device) if device.kind == "gpu" else cpu_schedules(nest, device)


def headers() -> tuple[tuple[str, str], ...]:
    return tuple((f"pk/{p.relative_to(INCLUDE)}", p.read_text()) for p in sorted(INCLUDE.rglob("*.hpp")))


def _adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    return adopt_launches(text, entry, program, target, ".cpp", CONVENTION, headers())


SYCL = Language(
    name="sycl",
    title="SYCL",
    targets=("cpu", "pvc"),
    emitter=SyclEmitter(),
    schedules=schedules,
    sorts=SORTED,
    extra="sycl",
    tools={
        "g++": "builds the interface to the SYCL runtime (clang++ or the ziglang wheel do too)",
        "ocloc": "machine code for Intel GPUs",
        "spirv-val": "validates the SPIR-V that Intel GPUs are given",
    },
    toolchain=SyclToolchain(),
    runtime=SyclRuntime(),
    simulator=SyclOnCpu(),
    environment=ENVIRONMENT,
    convention=CONVENTION,
    adopt=_adopt,
    preload=("portakern.backends.sycl.sycl.preloaded",),
    units=lambda device, dtype: device.has("dpas"),
    words=WORDS,
)
