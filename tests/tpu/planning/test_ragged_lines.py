"""Arrays whose last dims are no whole tiles of memory: dims are seen as one only where the copy that this needs is small."""

from __future__ import annotations

import os

import pytest

import portakern as pk
from portakern.backend import Source
from portakern.backends.tpu.schedule.families import joins
from portakern.ir.program import Program
from portakern.ir.size import Sym
from portakern.spec.operator import Operator
from portakern.study import steps
from portakern.study.work import Problem, works
from tests.tpu.helpers import buffers, error, inputs64, language, target

os.environ.setdefault("JAX_PLATFORMS", "cpu")
pytest.importorskip("jax")


@pk.operator
def product(x: pk.Tensor["A", "B", "K", 15], y: pk.Tensor["A", "B", "K", 15]):
    return x * y


@pk.operator
def mean_of_all(x: pk.Tensor["A", "B", "K", 15], y: pk.Tensor["K", 15]):
    return pk.mean(x, axis=(0, 1)) * y


def emitted(operator: Operator, **sizes: object) -> tuple[Source, Program]:
    (work,) = works(Problem(operator, sizes, {}), [target("v6e")], ["f32"])  # type: ignore[arg-type]
    return steps.emit(work)


@pytest.mark.quick
def test_short_lines_stay_where_they_are() -> None:
    """Many of them: blocks lie along both last dims, and no array is made of another one."""
    text = emitted(product, A=3, B=2, K=1018)[0].text
    assert "x.reshape(6, 1018, 15)" in text and "pl.BlockSpec((None, BK, 15)" in text
    text = emitted(mean_of_all, A=3, B=2, K=1018)[0].text
    assert "x.reshape(6, 1018, 15)" in text and "pl.BlockSpec((None, 1018, 15)" in text and ".transpose(" not in text
    assert "x.reshape(6, K, 15)" in emitted(mean_of_all, A=3, B=2, K=pk.dynamic)[0].text


@pytest.mark.quick
def test_a_few_short_lines_are_joined() -> None:
    assert "x.reshape(3060)" in emitted(product, A=3, B=2, K=34)[0].text


@pytest.mark.quick
@pytest.mark.parametrize(("outer", "inner", "inside", "joined"), [
    (1018, 128, 0, True), (64, 1000, 0, False), (9, 15, 0, True), (None, 15, 0, False),  # along the lanes
    (170, 1024, 1, True), (170, 1018, 1, False), (170, 34, 1, True), (None, 1018, 2, True),  # along the sublanes, and outside
])  # fmt: skip
def test_which_dims_are_joined(outer: int | None, inner: int, inside: int, joined: bool) -> None:
    assert joins(Sym.named("M") if outer is None else outer, inner, inside) is joined


@pytest.mark.parametrize(("operator", "size"), [(product, 530), (mean_of_all, 530), (mean_of_all, 5)])
def test_they_are_right(operator: Operator, size: int) -> None:
    source, program = emitted(operator, A=3, B=2, K=size)
    found = buffers(program, {})
    language().simulator.load(source, None).run(found, {})
    given = inputs64(program, found)
    wanted = given["x"] * given["y"] if operator is product else given["x"].mean((0, 1)) * given["y"]
    assert error(found["out"].array, wanted) < 1e-6
