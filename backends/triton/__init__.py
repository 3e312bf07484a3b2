"""NVIDIA and AMD GPUs through Triton.

The emitter prints plain Triton; the toolchain compiles it for any GPU on any machine with the Triton wheel; the runtime
launches it where the GPU is, and the interpreter runs it elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from portakern.backend import MANIFEST_VERSION, Backend, Language

from .adopt import CONVENTION, adopt
from .choices import choices
from .emitter import TritonEmitter
from .runtime import TritonRuntime
from .schedules import OPTIONS, schedules
from .simulator import TritonInterpreter
from .toolchain import ENVIRONMENT, TritonToolchain

triton_language = Language(
    name="triton",
    title="Triton",
    targets=("sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950", "gfx1201"),
    emitter=TritonEmitter(),
    schedules=schedules,
    extra="triton",
    options=OPTIONS,
    toolchain=TritonToolchain(),
    runtime=TritonRuntime(),
    simulator=TritonInterpreter(),
    environment=ENVIRONMENT,
    convention=CONVENTION,
    adopt=adopt,
    choices=choices,
)

backend = Backend("triton", (triton_language,), Path(__file__).parent / "devices", MANIFEST_VERSION)
