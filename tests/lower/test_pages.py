"""Attention of few queries over keys in pages: one kernel that picks them, right for tables and lengths of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import lower
from portakern.lower.pages import FEW, taken_apart
from portakern.spec.inputs import make_inputs
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from tests.lower import paged_operators

OPERATORS = {name: op for name, op in vars(paged_operators).items() if isinstance(op, Operator)}
SIZES = {"B": 3, "H": 2, "G": 2, "D": 4, "P": 6, "page": 4, "N": 5, "M": 3}


def dims_of(name: str, **changed: Any) -> dict[str, Any]:
    asked = {str(s) for a in OPERATORS[name].trace({}, "f32").args for s in getattr(a.type, "shape", ())}
    return {n: size for n, size in {**SIZES, **changed}.items() if n in asked or f"3*{n}" in asked}


def choose(nest: Nest) -> Schedule:
    sizes = {"m": 4, "n": 8, "k": 4, "d": 4, "reduced": 64, "parallel": 1}
    return Schedule(tuple((a.name, sizes.get(a.role, 1)) for a in nest.axes))


def lowered(name: str, **changed: Any) -> Program:
    return lower(OPERATORS[name].program(dims_of(name, **changed), {}, "f32"), choose)


def walk_of(program: Program) -> t.For:
    (kernel,) = program.kernels
    assert kernel.family == "attention"
    (loop,) = (op for op in kernel.body.walk() if isinstance(op, t.For))
    return loop


def read(op: t.Op | None) -> set[str]:
    if op is None:
        return set()
    return {op.buffer.name} if isinstance(op, t.Load) else set().union(*map(read, op.operands))  # type: ignore[attr-defined]


@pytest.mark.quick
@pytest.mark.parametrize("name", OPERATORS)
def test_keys_are_picked_where_they_lie_once_for_all_heads(name: str) -> None:
    """Each array of keys is loaded once, for a tile of all queries that share it, and the walk ends at the length."""
    loop = walk_of(lowered(name))
    picked = [op for op in loop.body.walk() if isinstance(op, t.Load) and op.gathers]
    assert len(picked) == (3 if name == "of_narrow_pages" else 2)
    assert all(read(op.gathers[0]) == {"table"} for op in picked)
    assert read(loop.hi) == {"length"}
    scores = next(op for op in loop.body.walk() if isinstance(op, t.Dot))
    (kernel,), axes = lowered(name).kernels, t.tile_type(scores).axes
    assert {"of_repeated_heads": 3, "of_last_queries": 6}.get(name, 2) in {kernel.axis[a].extent for a in axes}


@pytest.mark.quick
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("changed", [{}, {"page": 1, "N": 9}, {"page": 7, "N": 3}, {"N": 1}, {"B": 1, "H": 1, "G": 1}])
def test_right(name: str, changed: dict[str, int]) -> None:
    """Whatever the table says of pages that are not there, and however long a sequence is."""
    dims = dims_of(name, **changed)
    program = OPERATORS[name].program(dims, {}, "f32")
    inputs = make_inputs(program)
    rng = np.random.default_rng(1)
    inputs["table"] = rng.integers(-1, SIZES["P"] + 1, inputs["table"].shape).astype(np.int32)
    keys = dims["N"] * dims.get("page", 1)
    inputs["length"] = rng.choice([1, keys, keys - 1, keys + 3], inputs["length"].shape).astype(np.int32)
    if name == "of_slots":  # a page that is not there has slots that may be
        inputs["table"] = inputs["table"].clip(0, SIZES["P"] - 1)
    wanted = evaluate(program, inputs)["out"]
    np.testing.assert_allclose(run(lower(program, choose), inputs, {})["out"], wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.quick
def test_open_tables_are_picked_from_as_well() -> None:
    assert read(walk_of(lowered("of_pages", N=pk.dynamic, B=pk.dynamic)).hi) == {"length"}


@pytest.mark.quick
def test_many_queries_have_keys_in_a_row() -> None:
    assert len(lowered("of_last_queries", M=FEW).kernels) > 1


@pytest.mark.quick
@pytest.mark.parametrize(("inner", "outer", "pieces"), [
    ((2, 5, 16, 3), (2, 80, 3), [[(0, 1, 1, 0)], [(1, 1, 16, 0)], [(1, 1, 1, 16)], [(2, 1, 1, 0)]]),
    ((10, 16), (2, 80), [[(0, 5, 1, 0), (1, 1, 16, 0)], [(1, 1, 1, 16)]]),  # 5 b + s // 16, s % 16
    ((6, 4), (4, 6), [[(0, 3, 2, 0)], None]),
    ((5, 7), (35,), [[(0, 1, 7, 0)], [(0, 1, 1, 7)]]),
])  # fmt: skip
def test_dims_of_a_reshape_are_pieces_of_others(inner: Any, outer: Any, pieces: Any) -> None:
    found = taken_apart(inner, outer)
    if None in pieces:
        assert found is None, "4 and 6 have no common parts in this order"
        return
    assert found is not None
    got = [sorted((p.dim, p.scale, p.div, p.mod) for p in x) for x in found]
    assert got == [sorted(x) for x in pieces]


@pytest.mark.parametrize("target", ["cpp:cpu", "numba:cpu", "opencl:cpu", "hip:gfx942", "triton:sm_90", "cuda:sm_90a",
                                    "cuda:sm_80"])  # fmt: skip
def test_right_in_every_language(target: str) -> None:
    sizes: dict[str, Any] = {"B": 2, "H": 2, "G": 3, "D": 24, "P": 9, "page": 16, "N": 4}
    row = pk.check(OPERATORS["of_pages"], target, **sizes, dtype="bf16").rows[0]
    assert row.correct and row.error is None


@pytest.mark.parametrize("target", ["cpp:cpu", "hip:gfx942", "cuda:sm_90a"])
def test_parts_of_picked_keys(target: str) -> None:
    schedule = {"split_k": 2, "i": 32}
    row = pk.check(OPERATORS["of_pages"], target, **dims_of("of_pages", page=16, D=16), dtype="bf16", schedule=schedule).rows[0]
    assert row.correct and row.error is None and "split_k=2" in (row.schedule or "")
