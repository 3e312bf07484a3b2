"""Attention of many features on Hopper: maxima of rows that lag behind, and sums that are scaled seldom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.backend import Source
from portakern.errors import ScheduleError
from portakern.study import steps
from tests.cuda import references
from tests.cuda.test_walk import HOPPER, SIMULATOR, asked, on_the_cpu, text_of

T = pk.Tensor
WIDE = dict(sq=128, sk=64, d=256, d2=256, warps=8, stages=2, split=2)


@pk.operator
def with_maxima(q: T["H", "M", "D"], k: T["H", "N", "D"], v: T["H", "N", "D"]):
    """Attention, and the largest score of each row."""
    scores = pk.einsum("hmd,hnd->hmn", q, k, dtype=pk.f32)
    top = pk.max(scores, -1, keepdims=True)
    weights = pk.exp(scores - top)
    weights = weights / pk.sum(weights, -1, keepdims=True)
    return pk.einsum("hmn,hnd->hmd", pk.cast(weights, v.dtype), v), top


@pk.operator
def without_maxima(q: T["H", "M", "D"], k: T["H", "N", "D"], v: T["H", "N", "D"]):
    return with_maxima.function(q, k, v)[0]


def test_text(golden: Callable[[str, str], None]) -> None:
    golden("walk_lag.cu", text_of(B=4, H=8, G=1, SQ=4096, SK=4096, D=256))


def test_many_features_are_scaled_seldom_and_few_at_once() -> None:
    for features, seldom in ((256, True), (128, True), (96, True), (64, False), (40, False)):
        text = text_of(SQ=4096, SK=4096, D=features)
        assert ("pk::rescale(acc, " in text) == ("pk::computed_here(row_sum);" in text) == seldom, features
        assert ("- top > 5.545" in text) == seldom


def test_without_a_lag_every_growth_counts() -> None:
    text = text_of(D=256, schedule=dict(lag=0))
    assert "pk::rescale(acc, " in text and "- top >" not in text


def test_one_token_is_a_matter_of_reading() -> None:
    assert "pk::rescale" not in text_of(SQ=1, SK=65536, D=256)


@pytest.mark.parametrize("lag", [9, -1, "far"])
def test_a_lag_that_there_is_not(lag: object) -> None:
    with pytest.raises(ScheduleError, match="maxima lag by 0 to 8 powers of two"):
        text_of(D=256, schedule=dict(lag=lag))


def test_maxima_that_somebody_asks_for_do_not_lag() -> None:
    text = pk.build(with_maxima, target=str(HOPPER), dtype="bf16", schedule=dict(lag=8), H=1, M=128, N=256, D=256).source
    assert "pk::rescale(acc, " in text and "- top >" not in text
    alone = pk.build(without_maxima, target=str(HOPPER), dtype="bf16", schedule=dict(lag=8), H=1, M=128, N=256, D=256).source
    assert "- top >" in alone


def growing(values: dict[str, Any], change: Callable[[str], str] = lambda text: text) -> float:
    """The error, as a share of the largest result, where scores are so far apart that maxima grow at many steps."""
    work = asked(**values)
    program = steps.lowered(work, HOPPER)
    source: Source = steps.emit(work)[0]
    executable = SIMULATOR.load(replace(source, text=change(source.text)), None)
    buffers = references.make_buffers(program)
    q, k, v = (buffers[name].array for name in ("q", "k", "v"))
    q[...] = (q.astype(np.float32) * 16).astype(q.dtype)
    executable.run(buffers, {})
    (out,) = (b.array for name, b in buffers.items() if name not in ("q", "k", "v"))
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.einsum("bhgqd,bhkd->bhgqk", q.reshape(*out.shape), k) / q.shape[-1] ** 0.5
    if values.get("causal", True):
        seen = np.arange(scores.shape[-2])[:, None] >= np.arange(scores.shape[-1])
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhgqk,bhkd->bhgqd", weights / weights.sum(-1, keepdims=True), v)
    return float(np.abs(out.astype(np.float64) - want).max() / np.abs(want).max())


@on_the_cpu
@pytest.mark.parametrize(
    "values",
    [
        dict(SQ=150, SK=150, D=256, schedule=WIDE | dict(lag=8)),
        dict(SQ=70, SK=200, D=256, dtype="f16", causal=False),
        pytest.param(dict(SQ=200, SK=130, D=256, schedule=dict(lag=0)), marks=pytest.mark.slow),
        pytest.param(dict(SQ=200, SK=130, D=200), marks=pytest.mark.slow),
    ],
    ids=lambda v: " ".join(f"{k}={x}" for k, x in v.items() if k != "schedule"),
)
def test_right_where_maxima_grow(values: dict[str, Any]) -> None:
    assert growing(values) <= 0.01


@on_the_cpu
def test_right_with_open_dims() -> None:
    row = pk.check("attention", str(HOPPER), dtype="bf16", B=1, H=1, G=1, SQ=pk.dynamic, SK=200, D=256, causal=True).rows[0]
    assert row.error is None and row.correct


@on_the_cpu
def test_sums_that_are_not_scaled_show() -> None:
    def never(text: str) -> str:
        assert "pk::rescale(acc, " in text
        return text.replace("pk::rescale(acc, ", "(void)(")

    assert not growing(dict(SQ=64, SK=200, D=256, causal=False), never) <= 0.1
