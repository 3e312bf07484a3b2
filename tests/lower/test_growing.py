"""Concatenations that grow are one array, to which every layer stores its piece once."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.ir.program import Program
from portakern.ir.tile import Store
from portakern.registry import registry
from portakern.spec.operator import Operator
from portakern.study.study import Runner
from portakern.study.work import Problem, works
from tests.lower import growing_operators as ops
from tests.lowering import lowered_for


def made(op: Operator, dims: dict[str, int], target: str = "numba:cpu") -> Program:
    return lowered_for(registry().target(target), op.program(dims, {}, "f32"))


def stores_to(program: Program, array: str) -> int:
    return sum(isinstance(s, Store) and s.buffer.name == array  # type: ignore[attr-defined]
               for k in program.kernels for s in k.body.walk())  # fmt: skip


def block(layers: int) -> Operator:
    """A dense block of so many layers."""
    sizes = [6 + 4 * n for n in range(layers)]
    parameters = ", ".join(f'w{n}: pk.Tensor[{s}, 4], b{n}: pk.Tensor[{s}]' for n, s in enumerate(sizes))
    each = ", ".join(f"(w{n}, b{n})" for n in range(layers))
    names: dict[str, object] = {"pk": pk, "grown": ops.grown}
    exec(f'def block(x: pk.Tensor[9, 6], {parameters}):\n    *_, whole = grown(x, [{each}])\n    return whole', names)
    return pk.operator(names["block"])  # type: ignore[arg-type]


def test_every_layer_adds_as_many_kernels() -> None:
    counts = [len(made(block(n), {}).kernels) for n in (2, 3, 4, 8)]
    assert counts[1] - counts[0] == counts[2] - counts[1] and counts[3] - counts[2] == 4 * (counts[1] - counts[0])


@pytest.mark.quick
def test_pieces_are_stored_once() -> None:
    program = made(ops.dense, {"M": 13})
    assert stores_to(program, "out") == 4  # the input, and three layers
    whole = [a for a in made(ops.dense_sums, {"M": 13}).by_role("temporary") if a.type.shape[-1] == 18]  # type: ignore[union-attr]
    assert len(whole) == 1


@pytest.mark.quick
def test_no_kernel_reads_the_array_it_stores_a_piece_of() -> None:
    for op, dims in ops.CASES:
        for kernel in made(op, dims).kernels:
            names = [a.name for a in kernel.args]
            assert len(set(names)) == len(names)


@pytest.mark.quick
def test_where_kernels_own_their_outputs_arrays_are_apart() -> None:
    assert stores_to(made(ops.dense, {"M": 13}, "pallas:v6e"), "out") == 4
    assert any(a.name != "out" and a.type.shape == (13, 10)  # type: ignore[union-attr]
               for a in made(ops.dense, {"M": 13}, "pallas:v6e").arrays)




def wrong_rows(targets: str, dtype: str) -> list[str]:
    found = [registry().target(n) for n in targets.split(",")]
    asked = [w for op, dims in ops.CASES for w in works(Problem(op, dims, {}), found, [dtype])]
    rows = Runner("checked", jobs=2).run(asked).rows
    assert len(rows) == len(ops.CASES) * len(found)
    return [f"{r.operator} {r.target} {r.evidence}: {r.error}" for r in rows
            if r.error is not None or r.evidence not in ("executed", "simulated", "interpreted")]


def test_they_are_right() -> None:
    assert wrong_rows("cpp:cpu", "bf16") == []


@pytest.mark.slow
@pytest.mark.parametrize(("targets", "dtype"), [("numba:cpu,opencl:cpu", "f32"), ("hip:gfx942", "bf16"),
                                                ("triton:sm_90,cuda:sm_90a,pallas:v6e,sycl:cpu", "f32")])  # fmt: skip
def test_they_are_right_everywhere(targets: str, dtype: str) -> None:
    assert wrong_rows(targets, dtype) == []
