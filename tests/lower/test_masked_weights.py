"""Products over the rows of masked weights walk no tile that is masked whole, and rows of NaN reach all of their results."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.ir.tensor import tensor_type
from portakern.ir.tile import Compare, For
from portakern.lower import lower, masked_weights
from portakern.operators.attention import attention
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from tests.lower.test_lowering import chooser

pytestmark = pytest.mark.quick

T = pk.Tensor


def masked(q, k, v, visible):
    s = pk.einsum("md,nd->mn", q, k, dtype=pk.f32) * 0.25
    return pk.cast(pk.softmax(pk.where(visible(pk.arange(q.shape[0])[:, None], pk.arange(k.shape[0])), s, -math.inf)), v.dtype)


@pk.operator
def causal(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
    return masked(q, k, v, lambda i, j: j <= i) @ v


@pk.operator
def strictly(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
    """The first row sees no key: its weights are 0 / 0."""
    return masked(q, k, v, lambda i, j: j < i) @ v


@pk.operator
def ends_together(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
    """Of more queries than keys the first ones see none."""
    return masked(q, k, v, lambda i, j: j <= i + (k.shape[0] - q.shape[0])) @ v


@pk.operator
def to_come(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
    return masked(q, k, v, lambda i, j: j >= i) @ v


@pk.operator
def windowed(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
    return masked(q, k, v, lambda i, j: (j <= i) & (j > i - 20)) @ v


@pk.operator
def dropped(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"], seed: pk.Scalar[pk.i64]):
    keep = pk.bernoulli(seed, (q.shape[0], k.shape[0]), 0.75)
    return (masked(q, k, v, lambda i, j: j <= i) * pk.where(keep, 1.0 / 0.75, 0.0)) @ v


@pk.operator
def weighed(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"], by: T["M", "N"]):
    return (masked(q, k, v, lambda i, j: j <= i) * by) @ v


OPERATORS = {op.name: op for op in (causal, strictly, ends_together, to_come, windowed, dropped, weighed)}
SIZES = [dict(M=70, N=70, D=4), dict(M=70, N=40, D=4), dict(M=40, N=70, D=4)]


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_weights, "LEAST", 1)


def made(op: Operator, dims: dict[str, int], split: int, **params: object) -> Program:
    choose = chooser()
    return lower(op.program(dims, params=params, dtype="f32"), lambda nest: replace(choose(nest), options=(("split", split),)))


def walks(program: Program) -> list[For]:
    """The innermost loops of the kernel that gives what belongs to keys."""
    kernel = program.kernels[-1]
    loops = [op for op in kernel.body.walk() if isinstance(op, For)]
    return [op for op in loops if not any(isinstance(x, For) for x in op.body.walk())]


def inputs_of(op: Operator, dims: dict[str, int], plant: float | None = None) -> dict[str, np.ndarray]:
    rng, program = np.random.default_rng(0), op.program(dims, {}, "f32")
    given = {a.name: rng.standard_normal([int(str(s)) for s in tensor_type(a).shape]).astype(np.float32)
             for a in program.args if a.name not in program.scalars}  # fmt: skip
    given |= {n: np.asarray(5, np.int64) for n in program.scalars}
    if plant is not None:
        given["q"][dims["M"] // 2, 3] = plant
    return given


@pytest.mark.parametrize("plant", [None, math.nan])
@pytest.mark.parametrize("name", OPERATORS)
def test_every_element_is_right(name: str, plant: float | None) -> None:
    op = pk.grad(OPERATORS[name], ("q", "k", "v"))
    for dims in SIZES if plant is None else SIZES[:1]:
        given = inputs_of(op, dims, plant)
        want = dict(evaluate(op.program(dims, {}, "f32"), given))
        for split in (0, 1):
            got = run(made(op, dims, split), given, {})
            # A gradient of scores that is 0 may meet a query of NaN, as for d_k: that product may be left out.
            want["d_k"] = np.where(np.isfinite(got["d_k"]) & np.isnan(want["d_k"]), got["d_k"], want["d_k"])
            for n in want:
                np.testing.assert_allclose(got[n], want[n], rtol=1e-3, atol=1e-4, equal_nan=True)


def test_a_row_of_nan_reaches_keys_that_it_does_not_see() -> None:
    op, dims = pk.grad(causal, ("k", "v")), SIZES[0]
    assert walks(made(op, dims, 1))[0].lo is not None
    assert np.isnan(run(made(op, dims, 1), inputs_of(op, dims, math.nan), {})["d_v"]).all()


@pytest.mark.parametrize(("name", "ends"), [
    ("causal", [(True, True), (True, False)]), ("to_come", [(False, True), (True, True)]), ("windowed", [(True, True)]),
])  # fmt: skip
def test_only_what_is_masked_in_part_is_compared(name: str, ends: list[tuple[bool, bool]]) -> None:
    """``ends``: of each walk over the rows, whether it has a bound below and above."""
    found = walks(made(pk.grad(OPERATORS[name], ("k", "v")), SIZES[0], 1))
    assert [(x.lo is not None, x.hi is not None) for x in found] == ends
    compares = [any(isinstance(op, Compare) for op in x.body.walk()) for x in found]
    assert sum(compares) == 1 and compares[-1] == (name != "causal")


def test_masked_weights_of_which_an_infinity_makes_nan_are_summed_as_they_are() -> None:
    op, dims = pk.grad(weighed, ("k", "v")), SIZES[0]
    (plain,) = walks(made(op, dims, 1))
    assert plain.lo is None and walks(made(pk.grad(dropped, ("k", "v")), dims, 1))[0].lo is not None
    given = inputs_of(op, dims)
    given["by"][2, 60] = math.inf  # a masked place
    got, want = run(made(op, dims, 1), given, {})["d_v"], evaluate(op.program(dims, {}, "f32"), given)["d_v"]
    assert np.isnan(want[60]).all()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4, equal_nan=True)


def test_few_weights_are_summed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    op, dims = pk.grad(attention, ("q", "k", "v")), dict(B=2, H=4, G=1, SQ=300, SK=300, D=16)
    more = len(made(op, dims, 0, causal=True).kernels)
    monkeypatch.setattr(masked_weights, "LEAST", 2 * 4 * 300 * 300 + 1)
    assert more == len(made(op, dims, 0, causal=True).kernels) + 1


def test_attention_itself_is_left_alone() -> None:
    dims = dict(B=2, H=4, G=1, SQ=300, SK=300, D=16)
    assert [k.family for k in made(attention, dims, 1, causal=True).kernels] == ["attention"]
