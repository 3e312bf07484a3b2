"""Loops of steps in CUDA: what a step reads is on its way before it comes."""

from __future__ import annotations

import re
from typing import Any

import pytest

import portakern as pk
from portakern.backends.cuda.ahead import FILE
from portakern.registry import registry
from portakern.study.study import Runner
from portakern.study.work import Problem, works
from tests.lower import step_operators as ops

TARGETS = [registry().target("cuda:sm_90a")]
T = pk.Tensor


@pk.operator
def looked_up(x: T["T", "N"], places: T["T", pk.i32], table: T["V", "N"]):
    """What a step reads of a table lies where the step before says."""
    def step(h, xs):
        x_t, place = xs
        return h * 0.5 + x_t + pk.take(table, place, axis=0), h

    return pk.scan(step, pk.zeros(x.shape[1:], x.dtype), (x, places % table.shape[0]))


def text_of(op: pk.Operator, **dims: Any) -> str:
    return pk.build(op, target="cuda:sm_90a", dtype="f32", **dims).source


@pytest.mark.quick
def test_every_sequence_is_read_ahead_and_nothing_else() -> None:
    text = text_of(ops.delta, H=2, T=512, K=64, V=64)
    loop = text[text.index("for (int64_t t") :]
    assert sorted(re.findall(r"(\w+)_ahead\.of\[turn\]", loop)) == ["k", "q", "v"]
    assert sorted(re.findall(r"(\w+)_ahead\.again\(turn, t\)", loop)) == ["k", "q", "v"]
    assert "pk::load" not in loop and "break" not in loop


@pytest.mark.quick
def test_large_tiles_are_read_less_far_ahead_or_not() -> None:
    """Those on their way take registers."""
    steps = {n: re.findall(r"pk::ahead<(\d)>", text_of(ops.normed, T=512, B=64, N=n)) for n in (4096, 8192, 16384)}
    assert steps == {4096: ["4"], 8192: ["4"], 16384: ["2"]}


def test_every_device_has_the_registers_that_are_shared() -> None:
    devices = [t.device for t in registry().match("cuda:*")]
    assert devices and {d.count("registers_per_unit") for d in devices} == {FILE}


@pytest.mark.parametrize("length", [1, 3, 5, None], ids=str)
def test_any_number_of_steps(length: int | None) -> None:
    sizes = {} if length is None else {"T": length}
    cases = ((ops.numbered, {"B": 3, "N": 20}), (ops.decayed, {"B": 3, "H": 20}), (looked_up, {"N": 20, "V": 7}))
    asked = [w for op, dims in cases for w in works(Problem(op, {**dims, **sizes}, {}), TARGETS, ["f32"])]
    rows = Runner("checked", jobs=1).run(asked).rows
    assert rows and [f"{r.operator}: {r.error}" for r in rows if r.error is not None] == []
