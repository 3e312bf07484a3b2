"""The SYCL emitter: what a device is decides how a kernel is written."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.backend import Emitter, Missing, Plan, Source, Target
from portakern.ir.program import Program

from .cpu_emitter import SyclCpuEmitter
from .gpu_emitter import SyclGpuEmitter


class SyclEmitter:
    """Loops over vectors for CPUs, the tile vocabulary on sub-groups for GPUs."""

    def __init__(self) -> None:
        self.cpu = SyclCpuEmitter()
        self.gpu = SyclGpuEmitter()

    def of(self, target: Target) -> Emitter:
        return self.gpu if target.device.kind == "gpu" else self.cpu

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        return self.of(target).missing(program, target)

    def plan(self, program: Program, target: Target) -> Plan | None:
        return self.of(target).plan(program, target)

    def emit(self, program: Program, target: Target) -> Source:
        return self.of(target).emit(program, target)

    def standalone(self, source: Source) -> str:
        return self.of(source.target).standalone(source)
