"""Scans by functions of the operator's own: what a user may write, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import portakern as pk
from portakern.errors import SpecError
from portakern.ir.core import Block
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import AssociativeScan, TensorProgram
from portakern.ir.text import format_function, parse_function

pytestmark = pytest.mark.quick
T = pk.Tensor


@pk.operator
def words(x: T["M", "N"], y: T["M", "N"], first: bool = False, reverse: bool = False):
    """A function that does not commute: the first element, or the last, of all that were joined."""
    def join(left, right):
        return left if first else right

    return pk.associative_scan(join, (x, y), axis=1, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_the_left_part_is_the_one_that_comes_first(first: bool, reverse: bool) -> None:
    x = np.arange(6.0).reshape(2, 3)
    program = words.program({"M": 2, "N": 3}, {"first": first, "reverse": reverse}, "f32")
    got = evaluate(program, {"x": x, "y": -x})
    want = np.repeat(x[:, -1:] if reverse else x[:, :1], 3, 1) if first else x
    assert np.array_equal(got["out0"], want) and np.array_equal(got["out1"], -want)


def test_the_text_form_is_read_back() -> None:
    program = words.program({"M": 2, "N": 3}, {}, "f32")
    again = parse_function(format_function(program))
    assert isinstance(again, TensorProgram)
    assert again.body.says == program.body.says
    scans = [op for op in again.body.ops if isinstance(op, AssociativeScan)]
    assert [s.number for s in scans] == [0, 1]
    assert scans[0].whole == scans[1].whole


def test_blocks_say_the_same_only_where_they_compute_the_same() -> None:
    def block(fn: Callable[..., object]) -> Block:
        @pk.operator
        def scanned(x: T["N"]):
            return pk.associative_scan(fn, x)

        return next(op for op in scanned.trace({}, "f32").body.ops if isinstance(op, AssociativeScan)).join

    assert block(lambda a, b: a + b).says == block(lambda one, two: one + two).says
    assert block(lambda a, b: a + b).says != block(lambda a, b: b + a).says
    assert block(lambda a, b: a + b * 2.0).says != block(lambda a, b: a + b * 3.0).says


@pytest.mark.parametrize(("fn", "said"), [
    (lambda a, b: (a, b), "gives"),
    (lambda a, b: None, "gives"),
    (lambda a, b: pk.cast(a + b, pk.f64), "tensor[f64]"),
    (lambda a, b: a + b if a > 0 else b, "if"),
])
def test_what_a_function_may_not_do(fn: Callable[..., object], said: str) -> None:
    @pk.operator
    def scanned(x: T["N"]):
        return pk.associative_scan(fn, x)

    with pytest.raises(SpecError, match=re.escape(said)):
        scanned.trace({}, "f32")


def test_a_function_uses_nothing_from_outside() -> None:
    @pk.operator
    def scanned(x: T["N"], w: T["N"]):
        return pk.associative_scan(lambda a, b: a + b * pk.sum(w), x)

    with pytest.raises(SpecError, match=r"fold|outside"):
        scanned.trace({}, "f32")


def test_nothing_and_unequal_shapes_are_refused() -> None:
    @pk.operator
    def unequal(x: T["N"], y: T["M"]):
        return pk.associative_scan(lambda a, b: b, (x, y))

    @pk.operator
    def none(x: T["N"]):
        return pk.associative_scan(lambda a, b: b, ())

    with pytest.raises(SpecError, match="shapes differ"):
        unequal.trace({}, "f32")
    with pytest.raises(SpecError, match="nothing to scan"):
        none.trace({}, "f32")
