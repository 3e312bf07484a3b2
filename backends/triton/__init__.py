"""NVIDIA and AMD GPUs through Triton.

The emitter prints plain Triton; the toolchain compiles it for any GPU on any machine with the Triton wheel; the runtime
launches it where the GPU is, and the interpreter runs it elsewhere.

Each room imports only those before it: :mod:`.prepare` (what is rewritten before printing), :mod:`.text` (printing),
:mod:`.schedule`, :mod:`.compile` (machine code for any GPU), :mod:`.launch` (host functions on tensors), :mod:`.interpret`;
:mod:`.foreign` (kernels from elsewhere) stands by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portakern.backend import MANIFEST_VERSION, Backend, CompiledBinary, DispatchSequence, Language, Source
from portakern.device import Device

from .compile.toolchain import ENVIRONMENT, TritonToolchain
from .foreign.adopt import CONVENTION, adopt
from .foreign.inspected import inspected
from .interpret.simulator import TritonInterpreter
from .launch.runtime import TritonRuntime
from .schedule.choices import choices
from .schedule.families import OPTIONS, SORTED, schedules
from .schedule.pairs import pairs
from .spoken import WORDS
from .text.emitter import TritonEmitter


def _format(device: Device) -> str:
    """AMD's code objects run on machines of other backends, NVIDIA's on none."""
    return "cubin" if device.vendor == "NVIDIA" else "hsaco"


def _dispatch_sequence(source: Source, binary: CompiledBinary, sizes: Mapping[str, int],
                       scalars: Mapping[str, Any]) -> DispatchSequence:  # fmt: skip
    from .launch.dispatch_sequence import dispatch_sequence  # it needs the packages that compile

    return dispatch_sequence(source, binary, sizes, scalars)


triton_language = Language(
    name="triton",
    title="Triton",
    targets=("sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950", "gfx1201"),
    emitter=TritonEmitter(),
    takes_pixels=True,
    schedules=schedules,
    pairs=pairs,
    halves_of_heads=True,
    sorts=SORTED,
    extra="triton",
    options=OPTIONS,
    toolchain=TritonToolchain(),
    runtime=TritonRuntime(),
    simulator=TritonInterpreter(),
    environment=ENVIRONMENT,
    convention=CONVENTION,
    adopt=adopt,
    choices=choices,
    format=_format,
    dispatch_sequence=_dispatch_sequence,
    bare=inspected,
    preload=("torch", "triton"),
    forks=True,
    words=WORDS,
    shares_process=True,
)

backend = Backend("triton", (triton_language,), Path(__file__).parent / "devices", MANIFEST_VERSION)
