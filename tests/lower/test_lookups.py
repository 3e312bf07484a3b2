"""Short lines looked up at places that follow from floats, where loads pick no single elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.rewrite import canonicalise
from portakern.lower import searches
from portakern.lower.simplify import simplify
from portakern.spec.operator import operator

pytestmark = pytest.mark.quick
T = pk.Tensor


@operator
def by_value(line: T["N"], x: T["M", "K"]):
    """Some places are outside."""
    return pk.take(line, pk.cast(pk.floor(x * 4.0), pk.i32), axis=0)


@operator
def searched(line: T["N"], x: T["M", "K"]):
    return pk.searchsorted(line, x)


@operator
def by_array(line: T["N"], x: T["M", "K"], i: T["M", pk.i32]):
    return pk.take(line, i + 1, axis=0) + pk.sum(x, axis=1)


@operator
def by_line(lines: T["N", "M"], x: T["N", "K"]):
    """Of every row its own line, at places some of which are outside."""
    at = pk.cast(pk.floor(x * 4.0), pk.i32)
    return pk.take_along(lines, at, axis=1)


@operator
def along_rows(lines: T["M", "N"], x: T["K", "N"]):
    return pk.take_along(lines, pk.cast(pk.floor(x * 4.0), pk.i32), axis=0)


def gathers(op: Any, size: int, picks: bool) -> int:
    return str(simplify(op.program({"N": size, "M": 3, "K": 5}, {}, "f32"), picks=picks)).count("gather(line")


def test_lines_are_compared_whole():
    program = by_value.program({"N": 6, "M": 3, "K": 5}, {}, "f32")
    made = simplify(program, picks=False)
    assert "gather(" not in str(made)
    given = {"line": np.array([np.nan, 1, -np.inf, np.inf, 5, 6], np.float32),
             "x": np.linspace(-1, 2, 15, dtype=np.float32).reshape(3, 5)}  # fmt: skip
    np.testing.assert_array_equal(evaluate(made, given)["out"], evaluate(program, given)["out"])


@pytest.mark.parametrize("op", [by_line, along_rows])
def test_lines_of_their_own_are_compared_whole(op: Any):
    program = op.program({"N": 3, "M": 6, "K": 5}, {}, "f32")
    made = simplify(program, picks=False)
    assert "gather(" not in str(made) and "gather(" in str(simplify(program, picks=True))
    given = {a.name: np.random.default_rng(0).uniform(-1, 2, tuple(map(int, a.type.shape))).astype(np.float32)
             for a in program.args}  # fmt: skip
    given["lines"].reshape(-1)[1] = np.nan
    np.testing.assert_array_equal(evaluate(made, given)["out"], evaluate(program, given)["out"])
    long = op.program({"N": 3, "M": 4097, "K": 5}, {}, "f32")
    assert "gather(" in str(simplify(long, picks=False))


@pytest.mark.parametrize(("op", "size", "picks", "left"), [
    (by_value, 6, True, True), (by_value, 4096, False, False), (by_value, 4097, False, True),
    (searched, 9, True, True), (searched, 9, False, False), (by_array, 6, False, True),
])  # fmt: skip
def test_others_are_gathered(op: Any, size: int, picks: bool, left: bool):
    assert (gathers(op, size, picks) > 0) == left


def test_the_first_place_of_a_search_is_known():
    assert gathers(searched, 5000, False) + 1 == gathers(searched, 5000, True)


@operator
def by_many(line: T["N"], i: T["M", "K", pk.i32]):
    return pk.take(line, i, axis=0, fill=2)


@operator
def by_many_each(line: T["M", "N"], i: T["M", "K", pk.i64]):
    return pk.take_along(line, i, axis=1, fill=-1)


@pytest.mark.parametrize("op", [by_many, by_many_each])
@pytest.mark.parametrize(("dims", "left"), [
    ({"N": 6, "M": 2, "K": 32}, True), ({"N": 6, "M": 2, "K": 33}, False), ({"N": 6, "K": 3}, False),
    ({"N": 4097, "K": 3}, True), ({"M": 2, "K": 33}, True),
])  # fmt: skip
def test_many_places_are_compared_with_lines(op: Any, dims: dict[str, int], left: bool):
    """Each would be a step of a grid, and scalar memory may have no room for them."""
    made = str(simplify(op.program(dims, {}, "f32"), picks=False))
    assert ("gather(" in made) == left
    assert "gather(" in str(simplify(op.program(dims, {}, "f32"), picks=True))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", [by_many, by_many_each])
def test_places_outside_have_their_fill(op: Any, dtype: str):
    program = op.program({"N": 6, "M": 2, "K": 40}, {}, dtype)
    random = np.random.default_rng(0)
    given = {a.name: random.integers(-3, 9, tuple(map(int, a.type.shape))) for a in program.args}  # type: ignore[union-attr]
    want = evaluate(program, given)["out"]
    assert len(np.unique(want)) > 2
    np.testing.assert_array_equal(evaluate(simplify(program, picks=False), given)["out"], want)


# ---- searches -------------------------------------------------------------------------------------------------------------


@operator
def in_bins(x: T["M", "K"], right: bool = False):
    return pk.searchsorted(pk.iota((300,), 0) * 0.01 - 1.5, x, right=right)


@operator
def in_sorted(line: T["N"], x: T["M", "K"]):
    return pk.searchsorted(pk.sort(line, axis=0), x, right=True)


@pytest.mark.parametrize(("op", "params"), [(in_bins, {}), (in_bins, {"right": True}), (in_sorted, {})])
def test_lines_that_ascend_are_counted(op: Any, params: dict[str, bool]):
    program = op.program({"M": 3, "K": 5, **({"N": 300} if op is in_sorted else {})}, params, "f32")
    made = canonicalise(program, searches.rules)
    assert "gather(" not in str(made) and "fold('sum'" in str(made)
    given = {"line": np.random.default_rng(0).standard_normal(300).astype(np.float32).round(1),
             "x": np.array([-9, -1.5, -1.49, 0, 0.5, 1.2, 1.49, 1.4901, 9, np.nan, np.inf, -np.inf, 1, 2, 0.7], np.float32)}
    given["x"] = given["x"].reshape(3, 5)
    given = {a.name: given[a.name] for a in program.args}
    np.testing.assert_array_equal(evaluate(made, given)["out"], evaluate(program, given)["out"])


def test_lines_from_outside_are_searched():
    program = searched.program({"N": 300, "M": 3, "K": 5}, {}, "f32")
    assert "gather(" in str(canonicalise(program, searches.rules))
