"""The cost model's waves beside the machine's: they compute without data, and take the same way."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.backend import Dispatch
from portakern.backends.rocm.amdgcn.cost.model import CostedKernel
from portakern.backends.rocm.amdgcn.execution.simulator import AmdMachine
from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.toolchain import HipToolchain
from portakern.ir.tile import BufferType
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.spec.inputs import numpy_dtype
from tests.rocm.helpers import ISAS, needs_clang, target
from tests.samples import all_samples


@pytest.mark.parametrize(("name", "isa"), [*(("softmax_long", isa) for isa in ISAS), ("matmul_bias", "gfx942")])
def test_waves_execute_as_many_instructions_as_on_the_machine(name: str, isa: str) -> None:
    needs_clang(isa)
    source = HipEmitter().emit(all_samples()[name], target(isa))
    binary = HipToolchain().compile(source)
    waves = 0
    for step in dispatch_sequence_of(source, binary, {}, {}).steps:
        assert isinstance(step, Dispatch)
        kernel = CostedKernel(step, isa)
        traces = [kernel.trace(block, wave) for block in range(kernel.blocks) for wave in range(kernel.waves)]
        assert not any(trace.guesses or trace.cut for trace in traces)
        at_once = {at for at, i in enumerate(kernel.code.instructions) if i.paired}  # of a pair the machine counts one
        waves += sum(at not in at_once for trace in traces for at in trace.steps)
    machine = AmdMachine().load(source, binary)
    inputs = [(a.type.shape, a.dtype) for a in source.by_role("input") if isinstance(a.type, BufferType)]
    machine.call([np.ones(shape, numpy_dtype(dtype)) for shape, dtype in inputs], {})  # type: ignore[arg-type]
    assert machine.executed == waves
