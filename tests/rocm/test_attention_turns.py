"""Attention whose waves take turns: what it waits for, its text, where it is not possible, what its machine code computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.backends.rocm.attention import AttentionPlan, KeyStrip, ReadTurn
from portakern.backends.rocm.attention.plan import in_order
from portakern.backends.rocm.emitter import HipEmitter
from portakern.check.mutants import inject
from portakern.dtypes import numpy_dtype
from portakern.emit.clike.terms import ZERO, whole
from portakern.errors import IRError, MissingRuleError, ScheduleError
from portakern.ir.program import Program
from portakern.spec.load import load_operator
from portakern.study.steps import emission, lowered
from portakern.study.work import Problem, works
from tests import samples
from tests.rocm.helpers import needs_clang, run, target

quick = pytest.mark.quick
SIZES: dict[str, Any] = dict(B=2, H=2, G=1, SQ=600, SK=600, D=128)


def program(**given: Any) -> Program:
    made = samples.attention(tile=(256, 64), **given)
    (k,) = made.kernels
    schedule = replace(k.schedule, stages=2, warps=8, options=(("waves", "turns"),))
    return replace(made, kernels=(replace(k, schedule=schedule),))


def strip(name: str, copies: int) -> KeyStrip:
    return KeyStrip(name, "bf16", 64, 128, True, ZERO, whole(128), whole(128), copies, f"{name}_feed", f"{name}_reader", name)


K, V = strip("k", 3), strip("v", 5)


@quick
def test_behind_what_is_read_next_only_newer_copies_are_under_way() -> None:
    made = in_order([ReadTurn(V, 0, K, 3), ReadTurn(K, 2, V, 2)])
    assert [x.wait for x in made] == [5 + 3, 3 + 5]


@quick
@pytest.mark.parametrize(("turns", "problem"), [
    ([ReadTurn(V, 0, K, 4), ReadTurn(K, 2, V, 2)], "overwrites k before"),  # read in the turn after
    ([ReadTurn(V, 0, V, 2), ReadTurn(K, 2, K, 4)], "overwrites v before"),  # read in this very turn
    ([ReadTurn(V, 0, K, 3), ReadTurn(K, 2, V, -1)], "reads v, which nothing has sent"),
])  # fmt: skip
def test_what_no_wait_would_make_right_is_refused(turns: list[ReadTurn], problem: str) -> None:
    with pytest.raises(IRError, match=problem):
        in_order(turns)


@quick
@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
def test_the_text_of_a_kernel(isa: str, golden: Callable[[str, str], None]) -> None:
    built = pk.build("attention", f"hip:{isa}", dtype="bf16", causal=True, **SIZES)
    golden(f"attention_turns_{isa}.hip", built.source)


@quick
def test_a_plan_says_what_is_read_sent_and_waited_for(golden: Callable[[str, str], None]) -> None:
    golden("attention_turns_gfx950.plan", str(HipEmitter().plan(program(queries=300, keys=300), target("gfx950"))))


@quick
@pytest.mark.parametrize(("sizes", "dtype"), [
    (dict(SQ=4096, SK=4096, D=128), "bf16"), (dict(SQ=pk.dynamic, SK=pk.dynamic, D=64), "f16"),
    (dict(SQ=300, SK=77, D=72), "bf16"), (dict(B=1, H=1, G=1, SQ=512, SK=512, D=64), "f16"),
])  # fmt: skip
def test_it_is_what_one_gets_for_many_queries(sizes: dict[str, Any], dtype: str) -> None:
    for isa in ("gfx942", "gfx950"):
        assert "pk::OnlineSoftmax" in pk.build("attention", f"hip:{isa}", dtype=dtype, **{**SIZES, **sizes}).source


@quick
@pytest.mark.parametrize(("isa", "sizes", "dtype"), [
    ("gfx950", dict(SQ=1), "bf16"), ("gfx950", dict(D=256), "bf16"), ("gfx950", dict(D=33), "bf16"), ("gfx942", {}, "f32"),
    ("gfx90a", {}, "f16"), ("gfx1201", {}, "bf16"),
])  # fmt: skip
def test_elsewhere_it_is_not(isa: str, sizes: dict[str, Any], dtype: str) -> None:
    assert "pk::OnlineSoftmax" not in pk.build("attention", f"hip:{isa}", dtype=dtype, **{**SIZES, **sizes}).source


@pk.operator
def biased(q: pk.Tensor["B", "M", "D"], k: pk.Tensor["B", "N", "D"], v: pk.Tensor["B", "N", "D"], bias: pk.Tensor["N"]):
    scores = pk.einsum("bmd,bnd->bmn", q, k, dtype=pk.f32) + pk.cast(bias, pk.f32)
    return pk.einsum("bmn,bnd->bmd", pk.cast(pk.softmax(scores), v.dtype), v)


@quick
def test_scores_that_are_more_than_masked_products_take_the_next_schedule() -> None:
    built = pk.build(biased, "hip:gfx950", dtype="bf16", B=1, M=512, N=512, D=64)
    assert "pk::OnlineSoftmax" not in built.source and "block=(256" in built.source
    with pytest.raises(ScheduleError, match=r"cannot take turns .*: its weights are not powers of masked products"):
        pk.build(biased, "hip:gfx950", dtype="bf16", B=1, M=512, N=512, D=64, schedule="waves=turns")


@quick
@pytest.mark.parametrize("causal", [True, False])
def test_no_planted_fault_is_taken_for_the_softmax_that_the_words_compute(causal: bool) -> None:
    """A fault changes the text, or the kernel is no longer one whose waves can take turns."""
    (work,) = works(Problem(load_operator("attention"), SIZES, {"causal": causal}), [target("gfx950")], ["bf16"], "default")
    program = lowered(work, target("gfx950"))
    right = HipEmitter().emit(program, target("gfx950")).text
    assert "pk::OnlineSoftmax" in right

    def text(faulty: Program) -> str:
        try:
            return HipEmitter().emit(faulty, target("gfx950")).text
        except (MissingRuleError, ScheduleError):
            return ""

    # The first part of the walk ends before the last key: nothing is masked there.
    harmless = ["dropped mask: attention: mask over sk"] if causal else []
    assert [f"{m.kind}: {m.where}" for m in inject(program) if text(m.program) == right] == harmless


def grown(rng: np.random.Generator, keys: int, width: int, dtype: str) -> tuple[np.ndarray, ...]:
    """Inputs of one head whose maxima grow by little, then by more than what the shift follows, and fall again."""
    q, v = (rng.standard_normal((1, 1, 1, n, width)).astype(numpy_dtype(dtype)) for n in (70, keys))
    size = np.concatenate([np.linspace(0.1, 1, keys // 2), np.linspace(1, 12, keys - keys // 2 - 40), np.full(40, 0.5)])
    k = rng.standard_normal((1, 1, keys, width)) * size[:, None]
    return q, k.astype(numpy_dtype(dtype)), v[:, :, 0]


@pytest.mark.parametrize(("isa", "given"), [
    ("gfx950", dict(queries=70, keys=300, width=64)), ("gfx942", dict(queries=70, keys=300, width=64)),
    ("gfx950", dict(queries=70, keys=260, width=128, causal=False)),
    ("gfx942", dict(queries=70, keys=260, width=128, causal=False, dtype="f16")),
])  # fmt: skip
def test_the_result_on_the_machine_where_the_shift_follows(isa: str, given: dict[str, Any]) -> None:
    needs_clang(isa)
    made = program(batch=1, heads=1, groups=1, **given)
    (k,) = HipEmitter().plan(made, target(isa)).kernels
    assert isinstance(k, AttentionPlan) and len(k.mask) == 2  # a size, and the mask
    q, key, v = grown(np.random.default_rng(3), given["keys"], given["width"], given.get("dtype", "bf16"))
    got = run(HipEmitter().emit(made, target(isa)), q, key, v).astype(np.float64)
    s = np.einsum("bhgmk,bhnk->bhgmn", *(x.astype(np.float64) for x in (q, key))) * q.shape[-1] ** -0.5
    m, n = s.shape[-2:]
    if given.get("causal", True):
        s = np.where(np.arange(n)[None, :] <= np.arange(m)[:, None] + n - m, s, -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    want = np.einsum("bhgmn,bhnd->bhgmd", w / w.sum(-1, keepdims=True), v.astype(np.float64))
    assert np.abs(got - want).max() <= 8e-3 * np.abs(want).max()


@pk.operator
def some_keys(
    q: pk.Tensor["B", "M", "D"], k: pk.Tensor["B", "N", "D"], v: pk.Tensor["B", "N", "D"], lengths: pk.Tensor["B", pk.i32]
):
    scores = pk.einsum("bmd,bnd->bmn", q, k, dtype=pk.f32) * 0.125
    seen = pk.iota(scores.shape, 2) < lengths[:, None, None]
    return pk.einsum("bmn,bnd->bmd", pk.cast(pk.softmax(pk.where(seen, scores, -math.inf)), v.dtype), v)


def test_rows_that_see_no_key_are_nan_and_others_see_as_many_as_lengths_say() -> None:
    needs_clang("gfx950")
    sizes = {"B": 4, "M": 140, "N": 150, "D": 64}
    (work,) = works(Problem(some_keys, sizes, {}), [target("gfx950")], ["bf16"], "default")
    source = emission(work).source
    assert "pk::OnlineSoftmax" in source.text
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((4, n, 64)).astype(numpy_dtype("bf16")) for n in (140, 150, 150))
    lengths = np.array([-3, 0, 70, 200], np.int32)
    got = run(source, q, k, v, lengths).astype(np.float64)
    assert np.isnan(got[:2]).all()
    for b in (2, 3):
        n = lengths[b]
        w = np.exp(q[b].astype(np.float64) @ k[b, :n].astype(np.float64).T * 0.125)
        want = w / w.sum(-1, keepdims=True) @ v[b, :n].astype(np.float64)
        assert np.abs(got[b] - want).max() <= 8e-3 * np.abs(want).max()
