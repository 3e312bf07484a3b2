"""Places that follow from coordinates alone, where loads pick no single elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.rewrite import canonicalise
from portakern.lower import regular
from portakern.spec.operator import operator

pytestmark = pytest.mark.quick
T = pk.Tensor


def places(n: int) -> Any:
    return pk.iota((n,), 0, "i64")


@operator
def turned(x: T["M", "N"], by: int = 3):
    return pk.take(x, (places(x.shape[1]) + by) % x.shape[1], axis=1)


@operator
def every_third_backwards(x: T["M", "N"]):
    return pk.take(x, 3 * (x.shape[0] // 3 - places(x.shape[0] // 3)) - 3, axis=0)


@operator
def itself(x: T["M", "N"]):
    return pk.take(x, pk.maximum(places(x.shape[0]), 0), axis=0)


@operator
def outside(x: T["M", "N"]):
    return pk.take(x, places(x.shape[0]) + 1, axis=0)


@operator
def shuffled(x: T["M", "N"]):
    return pk.take(x, places(x.shape[1]) * 7 % x.shape[1], axis=1)


@operator
def given(x: T["M", "N"], i: T["M", pk.i64]):
    return pk.take(x, i, axis=0)


def rewritten(op: Any, **params: int) -> tuple[Any, Any]:
    program = op.program({"M": 9, "N": 26}, params, "f32")
    return program, canonicalise(program, regular.rules)


@pytest.mark.parametrize(("op", "params", "parts"), [
    (turned, {"by": 3}, 2), (turned, {"by": 25}, 2), (turned, {"by": 1}, 2), (turned, {"by": 0}, 0),
    (every_third_backwards, {}, 1), (itself, {}, 0),
])  # fmt: skip
def test_runs_are_parts(op: Any, params: dict[str, int], parts: int):
    program, made = rewritten(op, **params)
    assert "gather(" not in str(made) and str(made).count("= slice(") == parts
    assert ("flip(" in str(made)) == (op is every_third_backwards)
    x = {"x": np.arange(9 * 26, dtype=np.float32).reshape(9, 26)}
    np.testing.assert_array_equal(evaluate(made, x)["out"], evaluate(program, x)["out"])


@pytest.mark.parametrize("op", [outside, shuffled, given])
def test_others_are_gathered(op: Any):
    assert "gather(" in str(rewritten(op)[1])


# ---- taps of windows -----------------------------------------------------------------------------------------------------


@operator
def windows_of_lines(x: T["M", "N"]):
    return pk.windows(x, 3)


@operator
def windows_apart(x: T["M", "N"]):
    return pk.windows(x, 4, stride=2, dilation=3)


@operator
def no_line(x: T["M", "N"]):
    return pk.take_along(x, pk.iota(x.shape, 1) * pk.iota(x.shape, 0) % 5, 1)


@pytest.mark.parametrize("op", [windows_of_lines, windows_apart])
def test_what_windows_are_the_gradient_of_is_pieces_for_each_tap(op: Any):
    """No element is compared with all the others."""
    program, made = rewritten(pk.grad(op))
    assert "gather(" in str(program) and "gather(" not in str(made)
    given = {a.name: np.random.default_rng(0).standard_normal(a.type.shape) for a in program.args}
    np.testing.assert_allclose(evaluate(made, given)["d_x"], evaluate(program, given)["d_x"], rtol=1e-12)


def test_places_that_are_no_run_are_gathered():
    assert "gather(" in str(rewritten(no_line)[1])
