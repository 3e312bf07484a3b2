"""AMD GPUs through HIP: CDNA 2 to 4 and RDNA 3 and 4, compiled and executed (:mod:`.amdgcn`) on any machine."""

from __future__ import annotations

from pathlib import Path

from portakern.backend import Backend, Language, Machine
from portakern.emit.clike.spoken import WORDS

from .adopt import CONVENTION, adopt
from .amdgcn.cost.estimator import AmdEstimator
from .amdgcn.execution.simulator import AmdMachine
from .bare import bare, remarks
from .emitter import OPTIONS, HipEmitter, multiplies
from .runtime import HipRuntime
from .schedules import SORTED, pairs, schedules
from .toolchain import HipToolchain

HIP = Language(
    name="hip",
    title="HIP C++ on AMD GPUs",
    targets=("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
    emitter=HipEmitter(),
    schedules=schedules,
    pairs=pairs,
    multiplies=multiplies,
    sorts=SORTED,
    extra="rocm",
    tools={"clang-19": "HIP compiling where the ziglang wheel is not installed", "amdclang": "the same, from ROCm"},
    toolchain=HipToolchain(),
    runtime=HipRuntime(),
    convention=CONVENTION,
    adopt=adopt,
    options=OPTIONS,
    format=lambda device: "hsaco",
    bare=bare,
    remarks=remarks,
    reads=("cuda",),
    forks=True,
    words=WORDS,
    shares_process=True,
)

CODE_OBJECTS = Machine("hsaco", HIP.targets, simulator=AmdMachine(), estimator=AmdEstimator())

backend = Backend("rocm", (HIP,), Path(__file__).parent / "devices", machines=(CODE_OBJECTS,))
