"""Products whose contracted axis is cut into parts: what lowering makes of them, and that the sums are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.core import yielded
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import tensor_type
from portakern.lower import lower
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from tests.lower import user_operators
from tests.lower.test_lowering import chooser, normal

MATMUL = load_operator("matmul")
PRODUCTS = ("strange", "norm_mm", "mm_softmax", "mean_mm")


def in_parts(parts: int, step: int = 4):
    """The made-up target's schedules, products in ``parts`` with ``step`` coordinates to a tile of the contracted axis."""
    choose = chooser()

    def cut(nest: Nest) -> Schedule:
        made = choose(nest)
        if nest.family != "contraction":
            return made
        (k,) = nest.role("k")
        tiles = tuple((a, step if a == k.name else n) for a, n in made.tiles)
        return replace(made, tiles=tiles, options=(("split_k", parts),))

    return cut


def lowered(op: Operator, dims: Mapping[str, Any], parts: int, dtype: str = "f32", **params: Any) -> Program:
    return lower(op.program(dims, params, dtype), in_parts(parts))


def loops(kernel: t.Kernel) -> list[t.For]:
    return [op for op in kernel.body.walk() if isinstance(op, t.For)]


def test_one_part_is_one_kernel() -> None:
    program = lowered(MATMUL, {"M": 40, "N": 33, "K": 30}, 1)
    (kernel,) = program.kernels
    assert loops(kernel)[0].lo is None and not program.by_role("temporary")


def test_parts_are_stored_unrounded_and_joined_as_the_loop_says() -> None:
    program = lowered(MATMUL, {"M": 40, "N": 33, "K": 30}, 3, "bf16")
    product, join = program.kernels
    (partial,) = program.by_role("temporary")
    assert (product.family, join.family) == ("contraction", "elementwise")
    assert partial.type == t.BufferType((3, 40, 33), "f32")
    assert product.axes[0] == t.Axis("part", "grid", 3, 1)
    # 8 tiles of 4 in three parts: 3, 3 and 2 of them.
    assert {op.size for op in product.body.walk() if isinstance(op, t.Extent)} == {12, 30}
    (walk,), (over_parts,) = loops(product), loops(join)
    assert walk.lo is not None and walk.hi is not None
    assert over_parts.axis == "part" and join.axis["part"] == t.Axis("part", "loop", 3, 1)
    joined, said = (yielded(b)[0] for b in (over_parts.body, walk.combine))
    assert isinstance(joined, t.Binary) and isinstance(said, t.Binary) and joined.fn == said.fn == "add"
    stores = [[op.buffer.name for op in k.body.walk() if isinstance(op, t.Store)] for k in program.kernels]  # type: ignore[attr-defined]
    assert stores == [["matmul_partial"], ["out"]]


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_users(name: str, dtype: str, parts: int) -> None:
    """Prologues and epilogues, several products, results that later kernels reduce."""
    op, dims = getattr(user_operators, name), user_operators.CASES[name]
    agrees(op, dims, in_parts(parts, 2), dtype)


@pytest.mark.parametrize("dims", [{"M": 2, "N": 2, "K": 18}, {"M": 3, "N": 70, "K": 41}, {"M": 65, "N": 2, "K": 37}])
@pytest.mark.parametrize("parts", [2, 4, 8, 9])
def test_ragged_sizes(dims: dict[str, int], parts: int) -> None:
    """Parts of unlike length; with 9 tiles in 8 parts some parts are empty."""
    agrees(MATMUL, dims, in_parts(parts, 2), "f32")
    agrees(load_operator("matmul_bias_gelu"), dims, in_parts(parts, 2), "f32")


def test_sizes_that_are_open() -> None:
    bound = MATMUL.program({"M": 20, "N": 36, "K": 50}, dtype="f32")
    program = lower(MATMUL.program({"N": 36}, dtype="f32"), in_parts(3))
    assert set(program.sizes) == {"M", "K"}
    same(program, bound, {"M": 20, "K": 50})
    same(program, MATMUL.program({"M": 20, "N": 36, "K": 3}, dtype="f32"), {"M": 20, "K": 3})  # two of the parts are empty


def test_products_that_are_results_and_go_on() -> None:
    @pk.operator
    def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"], b: pk.Tensor["K"]):
        y = x @ w
        return y, y + b, pk.relu(y)

    for m in (2, 5):
        agrees(op, {"M": m, "N": 30, "K": 7}, in_parts(3), "f32")


def agrees(op: Operator, dims: Mapping[str, Any], choose: Any, dtype: str) -> None:
    bound = op.program(dims, dtype=dtype)
    program = lower(bound, choose)
    assert any(a.name.endswith("_partial") for a in program.by_role("temporary"))
    same(program, bound, {}, 1e-3 if dtype == "f32" else 0.06)


def same(program: Program, bound: Any, sizes: dict[str, int], share: float = 1e-3) -> None:
    """The program, run literally, gives what the oracle does."""
    rng = np.random.default_rng(0)
    inputs = {a.name: normal(rng, [int(str(s)) for s in tensor_type(a).shape], tensor_type(a).dtype) for a in bound.args}
    got, want = run(program, inputs, sizes), evaluate(bound, inputs)
    for name in bound.outputs:
        g, w = np.asarray(got[name], np.float64), np.asarray(want[name], np.float64)
        assert np.all(np.abs(g - w) <= share * (np.abs(w) + 0.1 * np.max(np.abs(w)) + 1e-6)), name


@pytest.mark.parametrize(("parts", "words"), [(0, "a positive integer is needed"), ("4", "a positive integer is needed"),
                                              (9, "8 tiles of 4, too few for split_k=9")])  # fmt: skip
def test_what_cannot_be_cut_is_refused(parts: Any, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        lowered(MATMUL, {"M": 40, "N": 33, "K": 30}, parts)


def test_the_option_belongs_to_what_reduces() -> None:
    with pytest.raises(ScheduleError, match="no kernel of add_relu has 'split_k'"):
        pk.build("add_relu", target="cpp:cpu", dtype="f32", M=4, N=30, schedule={"split_k": 2})


@pytest.mark.parametrize("target", ["cpp:cpu", "cuda:sm_90a", "cuda:sm_80"])
def test_it_runs(target: str) -> None:
    """On the CPU and, where its sources are interpreted, for GPUs; on the copy engine's pipeline where that is the default."""
    asked = {"split_k": 3, "m": 64, "n": 64, "k": 64, "stages": 4, "warps": 4} if target == "cuda:sm_90a" else {"split_k": 3}
    (row,) = pk.check("matmul", targets=[target], dtype="bf16", M=72, N=136, K=520, schedule=asked).rows
    assert row.error is None and row.evidence in ("executed", "interpreted")
