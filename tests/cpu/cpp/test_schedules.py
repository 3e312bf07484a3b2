"""The schedule space of C++: what it promises, and that every schedule in it gives the same results."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.errors import ScheduleError
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.ir.size import Sym
from portakern.ir.tensor import tensor_type
from portakern.lower import lower
from portakern.registry import registry
from portakern.spec.load import load_operator
from tests.cpu.cpp.references import guarded

pytestmark = pytest.mark.quick

M = Sym.named("M")
NESTS = {
    "one element": Nest("elementwise", (NestAxis("i", "parallel", 1),), "f32", "f32"),
    "line": Nest("elementwise", (NestAxis("n", "parallel", 10_000),), "f32", "f32"),
    "short lines": Nest("elementwise", (NestAxis("m", "parallel", 500), NestAxis("n", "parallel", 7)), "bf16", "f32"),
    "open": Nest("elementwise", (NestAxis("m", "parallel", M), NestAxis("n", "parallel", M)), "bf16", "f32"),
    "rows": Nest("rows", (NestAxis("m", "parallel", 64), NestAxis("n", "reduced", 1000)), "f32", "f32"),
    "long rows": Nest("rows", (NestAxis("m", "parallel", 64), NestAxis("n", "reduced", 100_000)), "f32", "f32"),
    "open rows": Nest("rows", (NestAxis("m", "parallel", 64), NestAxis("n", "reduced", M)), "f32", "f32"),
    "columns": Nest("rows", (NestAxis("n", "parallel", 640, contiguous=True), NestAxis("m", "reduced", 1000)), "f32", "f32"),
    "product": Nest("contraction", tuple(NestAxis(x, x, 1) for x in "mnk"), "bf16", "f32", dots="bf16"),
    "large product": Nest("contraction", tuple(map(NestAxis, "mnk", "mnk", (M, 4096, 4000))), "f32", "f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTS)
def test_space(name: str) -> None:
    language, target = registry().language("cpp"), registry().target("cpp:cpu")
    nest = NESTS[name]
    space = language.schedules(nest, target.device)
    assert space and len(set(space)) == len(space)
    for s in space:
        assert [axis for axis, _ in s.tiles] == [a.name for a in nest.axes]
        wide = [axis for axis, tile in s.tiles if tile > 1]
        if nest.family == "elementwise":
            assert len(wide) <= 2
        if nest.family == "contraction":
            assert s.tile("m") % 8 == 0 and s.tile("n") % 32 == 0 and s.tile("k") % 16 == 0


@pytest.mark.slow
@pytest.mark.parametrize(("op", "dims"), [
    ("softmax", {"M": 33, "N": 5000}), ("transpose", {"M": 131, "N": 77}), ("add_relu", {"M": 9, "N": 3000}),
    ("matmul", {"M": 150, "N": 300, "K": 270}), ("attention", {"B": 1, "H": 2, "G": 2, "SQ": 70, "SK": 150, "D": 40}),
])  # fmt: skip
def test_every_schedule_gives_the_same(op: str, dims: dict[str, int]) -> None:
    language, target = registry().language("cpp"), registry().target("cpp:cpu")
    assert language.toolchain is not None and language.runtime is not None
    operator = load_operator(op)
    tensor = operator.program({**operator.typical.dims, **dims}, dtype="f32")
    rng = np.random.default_rng(0)
    shapes = {a.name: tuple(map(int, map(str, tensor_type(a).shape))) for a in tensor.args}
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    want = evaluate(tensor, inputs)
    position, longest = 0, 1
    while position < longest:

        def choose(nest: Nest, position: int = position) -> Schedule:
            nonlocal longest
            space = language.schedules(nest, target.device)
            longest = max(longest, len(space))
            return space[min(position, len(space) - 1)]

        program = lower(tensor, choose)
        source = language.emitter.emit(program, target)
        arrays = program.by_role("input", "output")
        buffers = {a.name: guarded(a, program.shape(a.name, {}), inputs.get(a.name)) for a in arrays}
        language.runtime.load(source, language.toolchain.compile(source)).run(buffers, {})
        for name, value in want.items():
            assert np.allclose(buffers[name].array, value, rtol=1e-4, atol=1e-4), source.schedule
        position += 1
    assert longest > 1


def test_tiles_that_no_stack_holds_are_refused() -> None:
    """They ended the process by SIGSEGV."""
    sizes = {"B": 1, "H": 1, "G": 1, "SQ": 2048, "SK": 2048, "D": 64}
    with pytest.raises(ScheduleError, match="of a thread's stack"):
        pk.build("attention", "cpp:cpu", dtype="f32", schedule="m=1024,n=2048", **sizes)
