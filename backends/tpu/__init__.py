"""TPUs through Pallas.

``pallas:v5e`` and its siblings: tile programs become plain Pallas (:mod:`.text`), libtpu compiles them for a
generation that need not be there (:mod:`.compile`), Pallas's interpreters run them on the CPU (:mod:`.interpret`), and jax
runs them on a TPU that is there (:mod:`.run`).
README.md says what each room holds and which may import which.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portakern.backend import Backend, CompiledBinary, DispatchSequence, Language, Source

from .compile.toolchain import LibtpuToolchain
from .estimate.estimator import LibtpuEstimator
from .foreign.adopt import CONVENTION, adopt
from .foreign.inspected import inspected
from .interpret.simulator import PallasInterpreter
from .run.runtime import TpuRuntime
from .schedule.families import OPTIONS, SORTED, joins, schedules
from .spoken import WORDS
from .text.emitter import PallasEmitter


def dispatch_sequence(source: Source, binary: CompiledBinary, sizes: Mapping[str, int],
                      values: Mapping[str, Any]) -> DispatchSequence:  # fmt: skip
    """What a program launches is in its text, which the estimator traces: here are its sizes."""
    return DispatchSequence((), sizes=tuple(sizes.items()))


pallas = Language(
    name="pallas",
    title="Pallas (JAX)",
    targets=("v4", "v5e", "v5p", "v6e", "tpu7x"),
    emitter=PallasEmitter(),
    schedules=schedules,
    extra="tpu",
    options=OPTIONS,
    toolchain=LibtpuToolchain(),
    runtime=TpuRuntime(),
    simulator=PallasInterpreter(),
    estimator=LibtpuEstimator(),
    convention=CONVENTION,
    adopt=adopt,
    bare=inspected,
    picks_elements=False,
    partial=True,
    multiplies=lambda device, dtype, summed: bool(device.matrix_for(dtype)),
    least_step=128,
    joins=joins,
    holds_parts=False,
    sorts=SORTED,
    shares_arrays=False,  # a kernel owns its outputs
    strided=False,  # jax's arrays have no strides
    dispatch_sequence=dispatch_sequence,
    preload=("jax.experimental.pallas.tpu",),
    words=WORDS,
)

backend = Backend("tpu", (pallas,), Path(__file__).parent / "devices")
