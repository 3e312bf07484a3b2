"""Operators whose arithmetic every language must agree on, and a job that runs one of them in a worker."""

from __future__ import annotations

from typing import Any

import numpy as np

import portakern as pk
from portakern.check.buffers import Poison, guarded
from portakern.dtypes import numpy_dtype
from portakern.ir.oracle import static
from portakern.ir.tensor import tensor_type
from portakern.lower import lower_for
from portakern.registry import registry
from portakern.study import steps

T = pk.Tensor


@pk.operator
def tempered(x: T["M", "N"], tau: pk.Scalar[pk.f32]):
    return pk.softmax(x * tau)


@pk.operator
def tempered_by_constant(x: T["M", "N"]):
    return pk.softmax(x * 0.3)


@pk.operator
def remainders(x: T["N"], y: T["N"]):
    return x % y


@pk.operator
def divisions(x: T["N"], y: T["N"]):
    return x % y, x // y


@pk.operator
def to_e4m3(x: T["N", pk.f32]):
    return pk.cast(x, pk.f8e4m3)


@pk.operator
def to_e5m2(x: T["N", pk.f32]):
    return pk.cast(x, pk.f8e5m2)


@pk.operator
def from_e4m3(x: T["N", pk.f8e4m3]):
    return pk.cast(x, pk.f32)


@pk.operator
def from_e5m2(x: T["N", pk.f8e5m2]):
    return pk.cast(x, pk.f32)


def run(name: str, target_name: str, dims: dict[str, int], inputs: dict[str, Any], dtype: str) -> dict[str, np.ndarray]:
    """The outputs of one of these operators on what stands for ``target_name`` here; called inside a worker."""
    target = registry().target(target_name)
    language = registry().language(target.language)
    program = globals()[name].program(dims, {}, dtype)
    source = language.emitter.emit(lower_for(program, target, language), target)
    runner = steps.runner_for(language, target)[0]
    part = steps.runner_part(language, target, runner)
    binary = language.toolchain.compile(source) if language.toolchain is not None and runner != "simulator" else None
    buffers = {n: guarded(n, np.asarray(x), Poison(0xA5)) for n, x in inputs.items()}
    for output, result in zip(program.outputs, program.results, strict=True):
        of = tensor_type(result)
        buffers[output] = guarded(output, np.zeros(static(of.shape), numpy_dtype(of.dtype)), Poison(0xA5))
    assert part is not None
    part.load(source, binary).run(buffers, {})
    return {n: buffers[n].array.copy() for n in program.outputs}
