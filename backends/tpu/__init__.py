"""TPUs through Pallas.

``pallas:v5e`` and its siblings: tile programs become plain Pallas (:mod:`.emitter`), libtpu compiles them for a
generation that need not be there (:mod:`.toolchain`), and Pallas's interpreters run them on the CPU (:mod:`.interpreter`).
"""

from __future__ import annotations

from pathlib import Path

from portakern.backend import Backend, Language

from .adopt import CONVENTION, adopt
from .emitter import PallasEmitter
from .environment import ENVIRONMENT
from .interpreter import PallasInterpreter
from .schedules import OPTIONS, schedules
from .toolchain import LibtpuToolchain

pallas = Language(
    name="pallas",
    title="Pallas (JAX)",
    targets=("v4", "v5e", "v5p", "v6e", "tpu7x"),
    emitter=PallasEmitter(),
    schedules=schedules,
    extra="tpu",
    options=OPTIONS,
    toolchain=LibtpuToolchain(),
    simulator=PallasInterpreter(),
    environment=ENVIRONMENT,
    convention=CONVENTION,
    adopt=adopt,
)

backend = Backend("tpu", (pallas,), Path(__file__).parent / "devices")
