"""Products of rows by group: tile programs against the oracle, with groups of any length, and how much is walked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.check.bounds import propagate
from portakern.check.compare import error_ratio
from portakern.errors import PortakernError
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import lower
from portakern.spec.cost import cost
from portakern.spec.inputs import make_inputs
from portakern.spec.load import load_operator
from portakern.testing import tile_interpreter
from portakern.testing.tile_interpreter import run

pytestmark = pytest.mark.quick
T = pk.Tensor


@pk.operator
def grouped(x: T["P", "K"], w: T["G", "K", "N"], offsets: T["G+1", pk.i64]):
    return pk.grouped_matmul(x, w, offsets)


@pk.operator
def experts(x: T["P", "K"], w: T["G", "N", "K"], bias: T["N"], gate: T["P"], offsets: T["G+1", pk.i32]):
    """Matrices that lie the other way, work on both sides of the product, and a normalisation behind it."""
    y = pk.silu(pk.grouped_matmul(pk.tanh(x), pk.swapaxes(w, 1, 2), offsets) + bias) * gate[:, None]
    return y * pk.rsqrt(pk.mean(y * y, axis=-1, keepdims=True) + 1e-3)


def choose(nest: Nest) -> Schedule:
    sizes = {"m": 8, "n": 4, "k": 4, "reduced": 64}
    return Schedule(tuple((a.name, sizes.get(a.role, 1)) for a in nest.axes))


SIZES = [dict(P=37, K=9, N=6, G=5), dict(P=1, K=1, N=1, G=1), dict(P=0, K=4, N=4, G=3), dict(P=9, K=4, N=5, G=23)]


@pytest.mark.parametrize("how", ["ascending", "any"])
@pytest.mark.parametrize("operator", [grouped, experts], ids=lambda o: o.name)
def test_right(operator: Any, how: str) -> None:
    for sizes in SIZES:
        bound = operator.program(sizes, {}, "f32")
        inputs = make_inputs(bound)
        if how == "any":
            inputs["offsets"] = np.random.default_rng(0).integers(-4, 50, sizes["G"] + 1).astype(inputs["offsets"].dtype)
        want = evaluate(bound, inputs)
        for program, open_sizes in ((bound, {}), (operator.program({}, {}, "f32"), sizes)):
            got = run(lower(program, choose), inputs, open_sizes)
            np.testing.assert_allclose(got["out"], want["out"], rtol=2e-5, atol=2e-5)


def test_a_block_walks_the_groups_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5 blocks of 8 rows, the second meets the end of 41 groups, of which 40 are empty, and the third that of two."""
    bound = grouped.program(dict(P=40, K=4, N=4, G=50), {}, "f32")
    offsets = np.array([0, *[12] * 41, 20, 21, 24, *[40] * 6], np.int64)
    made: list[str] = []
    product = tile_interpreter._Run.dot

    def counted(self: Any, op: t.Dot, *args: np.ndarray) -> np.ndarray:
        made.append(self.kernel.name)
        return product(self, op, *args)

    monkeypatch.setattr("portakern.testing.tile_interpreter._Run.dot", counted)
    run(lower(bound, choose), {**make_inputs(bound), "offsets": offsets}, {})
    assert len(made) == 1 + 42 + 3 + 1 + 1


def test_a_matrix_of_infinities_is_no_other_group_s() -> None:
    bound = grouped.program(dict(P=20, K=4, N=4, G=3), {}, "f32")
    inputs = {**make_inputs(bound), "offsets": np.array([2, 5, 11, 18])}
    inputs["w"][1] = np.inf
    got = run(lower(bound, choose), inputs, {})["out"]
    assert np.isfinite(got[:5]).all() and np.isfinite(got[11:]).all() and not np.isfinite(got[5:11]).any()
    assert (got[:2] == 0).all() and (got[18:] == 0).all()


def test_work_is_that_of_the_rows_and_bounds_catch_a_wrong_group() -> None:
    few, many = (cost(load_operator("moe_grouped_matmul").program(dict(P=64, K=8, N=8, G=g), {}, "f32")) for g in (2, 20))
    assert few.flops == many.flops == 2 * 64 * 8 * 8
    bound = grouped.program(dict(P=30, K=40, N=8, G=3), {}, "f32")
    inputs = {**make_inputs(bound), "offsets": np.array([0, 11, 20, 30])}
    want = propagate(bound, inputs)["out"]
    for last, wrong in ((11, False), (10, True)):
        parts = zip((0, last, 20), (last, 20, 30), inputs["w"], strict=True)
        made = np.concatenate([inputs["x"][a:b] @ m for a, b, m in parts])
        assert (error_ratio(want, "f32", made).max() > 1) == wrong


@pytest.mark.parametrize(("of", "says"), [
    (lambda x, w, o: pk.grouped_matmul(x, x, o), "is [P, K] and w [G, K, N]"),
    (lambda x, w, o: pk.grouped_matmul(x, w, o[1:]), "one more is needed"),
    (lambda x, w, o: pk.grouped_matmul(x, w, pk.cast(o, pk.f32)), "i32 or i64"),
])  # fmt: skip
def test_bad_input_is_said(of: Any, says: str) -> None:
    @pk.operator
    def bad(x: T["P", "K"], w: T["G", "K", "N"], offsets: T["G+1", pk.i32]):
        return of(x, w, offsets)

    with pytest.raises(PortakernError) as error:
        bad.program({}, {}, "f32")
    assert says in str(error.value)
