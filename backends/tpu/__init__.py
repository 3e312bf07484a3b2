"""TPUs through Pallas.

``pallas:v5e`` and its siblings: tile programs become plain Pallas (:mod:`.emitter`), libtpu compiles them for a
generation that need not be there (:mod:`.toolchain`), and Pallas's interpreters run them on the CPU (:mod:`.interpreter`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portakern.backend import Backend, Binary, Job, Language, Source

from .adopt import CONVENTION, adopt
from .bare import bare
from .emitter import PallasEmitter
from .environment import ENVIRONMENT
from .estimate.estimator import LibtpuEstimator
from .interpreter import PallasInterpreter
from .schedules import OPTIONS, schedules
from .toolchain import LibtpuToolchain


def jobs(source: Source, binary: Binary, sizes: Mapping[str, int], values: Mapping[str, Any]) -> Job:
    """What a program launches is in its text, which the estimator traces: here are its sizes."""
    return Job((), sizes=tuple(sizes.items()))


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
    estimator=LibtpuEstimator(),
    environment=ENVIRONMENT,
    convention=CONVENTION,
    adopt=adopt,
    bare=bare,
    jobs=jobs,
)

backend = Backend("tpu", (pallas,), Path(__file__).parent / "devices")
