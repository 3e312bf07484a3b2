"""Accesses to shared memory that nothing orders: each barrier that is taken out of an emitted kernel is missed by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import portakern as pk
from portakern.backend import Source
from portakern.dtypes import numpy_dtype
from portakern.errors import SimulatorError
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.registry import registry
from portakern.study import steps
from portakern.study.work import Problem, works

CUDA = registry().language("cuda")
assert CUDA.simulator is not None
SIMULATOR = CUDA.simulator
pytestmark = pytest.mark.skipif(not SIMULATOR.available(registry().target("cuda:sm_80")),
                                reason="needs a C++ compiler on x86-64 Linux")  # fmt: skip


@pk.operator
def itself(x: pk.Tensor["M", "K"]):
    return pk.matmul(x, pk.transpose(x))


@pk.operator
def heads(a: pk.Tensor["B", "H", "S", "D"], w: pk.Tensor["H", "D", "E"]):
    return pk.einsum("bhsd,hde->bse", a, w)


@pk.operator
def dequantised(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N"], scale: pk.Tensor["K"]):
    return pk.matmul(x, w * pk.broadcast_to(pk.reshape(scale, (w.shape[0], 1)), w.shape))


@pk.operator
def twice(x: pk.Tensor["M", "K"], y: pk.Tensor["M", "K"]):
    scores = pk.matmul(x, pk.transpose(y))
    return pk.matmul(pk.softmax(scores, axis=-1), y)


CASES = {
    "itself": (itself, dict(M=40, K=72), None, "f32"),
    "itself, one slot": (itself, dict(M=40, K=72), dict(k=32, stages=1, warps=2), "bf16"),
    "heads": (heads, dict(B=1, H=3, S=17, D=96, E=32), None, "bf16"),
    "dequantised": (dequantised, dict(M=40, N=48, K=100), None, "f32"),
    "attention": (twice, dict(M=72, K=64), None, "bf16"),
}  # fmt: skip


def built(name: str, target: str, dtype: str = "") -> Source:
    op, sizes, schedule, usual = CASES[name]
    (work,) = works(Problem(op, sizes, {}), [registry().target(target)], [dtype or usual], schedule)
    made = steps.emit_row(work).source
    assert made is not None
    return made


def evaluated(array: Array) -> tuple[int, ...]:
    assert isinstance(array.type, BufferType)
    return tuple(evaluate(n, {}) for n in array.type.shape)


def run(source: Source) -> None:
    """Both orders of threads, on numbers that matter to nobody."""
    program = SIMULATOR.load(source, None)
    for _ in range(2):
        program.call([np.ones(evaluated(a), numpy_dtype(a.dtype)) for a in source.by_role("input")], {})


def without(source: Source, line: int) -> Source:
    lines = source.text.splitlines()
    return replace(source, text="\n".join([*lines[:line], "", *lines[line + 1 :]]))


def barriers(source: Source) -> list[int]:
    return [n for n, line in enumerate(source.text.splitlines()) if line.strip().startswith("pk::sync()")]


@pytest.mark.parametrize("name", CASES)
def test_every_barrier_is_needed_and_its_loss_is_named(name: str) -> None:
    source = built(name, "cuda:sm_80")
    run(source)
    assert barriers(source)
    for line in barriers(source):
        with pytest.raises(SimulatorError, match=r"nothing orders two accesses.*line \d+ `.*line \d+ `"):
            run(without(source, line))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_every_barrier_of_every_kind_is_needed(name: str, target: str, dtype: str) -> None:
    source = built(name, target, dtype)
    run(source)
    for line in barriers(source):
        with pytest.raises(SimulatorError, match="nothing orders two accesses"):
            run(without(source, line))


def test_a_copy_that_is_not_waited_for_is_named() -> None:
    source = built("heads", "cuda:sm_80")
    (line,) = [n for n, text in enumerate(source.text.splitlines()) if "pk::wait<" in text]
    with pytest.raises(SimulatorError, match=r"copy to of thread \d+, line \d+ `pk::stage.*read of thread \d+, .*`pk::dot"):
        run(without(source, line))
