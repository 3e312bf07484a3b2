"""C++ on the CPU: every sample emitted, compiled, run and compared with float64."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from portakern.backend import Target
from portakern.errors import CompileError, RuntimeFault
from portakern.ir.program import Program
from portakern.registry import registry
from tests import samples
from tests.cpu.references import buffers_for, expected, intact, tolerance

SAMPLES = samples.all_samples()


@pytest.fixture(scope="module")
def target() -> Target:
    return registry().target("cpp:cpu")


@pytest.fixture(scope="module")
def language():
    return registry().language("cpp")


def run(program: Program, language, target: Target, sizes=None, seed: int = 0):
    sizes = sizes or {name: 19 + 7 * n for n, name in enumerate(program.sizes)}
    source = language.emitter.emit(program, target)
    executable = language.runtime.load(source, language.toolchain.compile(source))
    buffers = buffers_for(program, sizes, seed)
    inputs = {a.name: buffers[a.name].storage.copy() for a in program.by_role("input")}
    executable.run(buffers, sizes)
    for name, before in inputs.items():
        assert (buffers[name].storage == before).all(), f"the input {name} was changed"
    for a in program.by_role("output"):
        assert intact(buffers[a.name]), f"something was written around {a.name}"
    return buffers


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name: str, language, target: Target) -> None:
    program = SAMPLES[name]
    buffers = run(program, language, target)
    for out, want in expected(program, buffers).items():
        have = buffers[out].array.astype(np.float64)
        limit = tolerance(program.array(out).dtype) * max(np.abs(want).max(), 1e-30)
        assert np.abs(have - want).max() <= limit, name
