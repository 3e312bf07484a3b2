"""Walks whose operands are strips: which kernels have them, their text, what their machine code computes and holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import portakern as pk
from portakern.backends.rocm.attention import StripWalk
from portakern.backends.rocm.emitter import HipEmitter
from portakern.emit.clike import plan as p
from portakern.spec.load import load_operator
from portakern.study.steps import emission
from portakern.study.work import Problem, works
from tests.rocm.helpers import needs_clang, target

quick = pytest.mark.quick
backward = pk.grad(load_operator("attention"), ("q", "k", "v"))
LARGE: dict[str, Any] = dict(B=1, H=2, G=2, SQ=1024, SK=1024, D=128)


def walks(op: Any, isa: str, sizes: dict[str, Any], dtype: str = "bf16", **params: Any) -> list[list[StripWalk]]:
    """Those of each kernel."""
    (work,) = works(Problem(op, sizes, params), [target(isa)], [dtype], "default")
    plan = HipEmitter().plan(emission(work).program, target(isa))
    return [[s for s in p.statements(k.body) if isinstance(s, StripWalk)] for k in plan.kernels]


@quick
@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
def test_the_text_of_the_backward(isa: str, golden: Callable[[str, str], None]) -> None:
    golden(f"attention_grad_{isa}.hip", pk.build(backward, f"hip:{isa}", dtype="bf16", **LARGE).source)


@quick
@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
@pytest.mark.parametrize("width", [64, 128])
def test_the_queries_gradient_is_walked_in_turns_and_the_others_by_waves_alone(isa: str, width: int) -> None:
    (numbers,), (queries,), (keys,) = walks(backward, isa, {**LARGE, "D": width})
    assert numbers.strips and queries.turns and not queries.halves and keys.halves and not keys.turns
    assert queries.direct == (isa == "gfx950") and not keys.direct  # where registers are of two kinds, reads are the compiler's


@quick
@pytest.mark.parametrize(("isa", "sizes", "dtype"), [
    ("gfx950", dict(D=33), "bf16"), ("gfx950", {}, "f32"), ("gfx1201", {}, "bf16"), ("gfx90a", {}, "f16"),
])  # fmt: skip
def test_elsewhere_there_are_none(isa: str, sizes: dict[str, Any], dtype: str) -> None:
    assert not any(walks(backward, isa, {**LARGE, **sizes}, dtype))


@pk.operator
def capped(q: pk.Tensor["B", "M", "D"], k: pk.Tensor["B", "N", "D"], v: pk.Tensor["B", "N", "D"], cap: float = 20.0):
    scores = cap * pk.tanh(pk.einsum("bmd,bnd->bmn", q, k, dtype=pk.f32) * 0.125 / cap)
    seen = pk.iota(scores.shape, 2) <= pk.iota(scores.shape, 1)
    weights = pk.cast(pk.softmax(pk.where(seen, scores, -math.inf)), v.dtype)
    return pk.tanh(pk.einsum("bmn,bnd->bmd", weights, v))


@quick
def test_scores_that_no_turns_of_words_compute_are_walked_over_strips() -> None:
    built = pk.build(capped, "hip:gfx950", dtype="bf16", B=1, M=512, N=512, D=64)
    assert "pk::StripFeed" in built.source
    assert built.source.count("pk::tanh_of_score(") and built.source.count("pk::tanh(") == 1  # a result is exact near 0


def test_capped_scores_on_the_machine() -> None:
    needs_clang("gfx950")
    (row,) = pk.check(capped, targets=["hip:gfx950"], dtype="bf16", B=1, M=140, N=150, D=64).rows
    assert row.evidence == "simulated" and row.correct


@pytest.mark.parametrize(("isa", "sizes", "causal", "dtype"), [
    ("gfx950", dict(SQ=132, SK=135, D=64), True, "f16"), ("gfx942", dict(SQ=132, SK=135, D=64), False, "bf16"),
    pytest.param("gfx950", dict(G=2, SQ=300, SK=270, D=128), False, "bf16", marks=pytest.mark.slow),
    pytest.param("gfx942", dict(G=2, SQ=300, SK=270, D=128), True, "f16", marks=pytest.mark.slow),
])  # fmt: skip
def test_the_backward_on_the_machine(isa: str, sizes: dict[str, Any], causal: bool, dtype: str) -> None:
    needs_clang(isa)
    sizes = {"B": 1, "H": 1, "G": 1, **sizes}
    assert any(x.turns for part in walks(backward, isa, sizes, dtype, causal=causal) for x in part)
    (row,) = pk.check(backward, targets=[f"hip:{isa}"], dtype=dtype, causal=causal, **sizes).rows
    assert row.evidence == "simulated" and row.correct


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
def test_the_backward_of_many_masked_weights_on_the_machine(isa: str) -> None:
    needs_clang(isa)
    sizes: dict[str, Any] = dict(B=1, H=16, G=2, SQ=200, SK=700, D=64)
    assert len(walks(backward, isa, sizes, causal=True)) == 4  # what masked weights are is summed by a kernel of its own
    (row,) = pk.check(backward, targets=[f"hip:{isa}"], dtype="bf16", causal=True, **sizes).rows
    assert row.evidence == "simulated" and row.correct


@quick
@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
def test_tiles_of_the_backward_that_no_row_is_masked_in_are_walked_without_masks(isa: str) -> None:
    *_, queries, _, keys = walks(backward, isa, LARGE, causal=True)
    for pair, whole in ((queries, 0), (keys, 1)):
        compares = [" >= " in str(loop) for loop in pair]
        assert len(compares) == 2 and not compares[whole] and compares[1 - whole]
        assert [x.follows for x in pair] == [False, True]


@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("keys", "causal"), [(1001, True), (1024, False), (1024, True)])
def test_the_backward_leaves_nothing_in_memory(isa: str, keys: int, causal: bool) -> None:
    needs_clang(isa)
    built = pk.build(backward, f"hip:{isa}", dtype="bf16", causal=causal, **{**LARGE, "SK": keys})
    kernels = (built.resources or {})["kernels"]
    assert [(k["spills"], k["scratch_bytes"]) for k in kernels] == [(0, 0)] * len(kernels)
