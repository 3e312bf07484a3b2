"""Linear algebra on batches of small matrices, compared with numpy's, and as kernels."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.errors import SpecError
from portakern.ir.oracle import evaluate
from portakern.registry import registry
from portakern.study.study import Runner
from portakern.study.work import Problem, works

T = pk.Tensor


def with_diagonal(a):
    return a + 4.0 * pk.cast(pk.iota(a.shape, 1) == pk.iota(a.shape, 2), a.dtype)


@pk.operator
def solved(a: T["B", "N", "N"], b: T["B", "N", 3], lower: bool = True, unit: bool = False):
    return pk.solve_triangular(with_diagonal(a), b, lower, unit)


@pk.operator
def factored(a: T["B", "N", "N"]):
    return pk.cholesky(with_diagonal(a @ pk.swapaxes(a, -1, -2)))


@pk.operator
def volume(a: T["B", "N", "N"]):
    return pk.det(a)


@pytest.mark.quick
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 20])
def test_results_are_numpy_s(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((3, n, n)), rng.standard_normal((3, n, 3))
    own = a + 4 * np.eye(n)
    for lower in (True, False):
        for unit in (True, False)[n == 1 :]:  # of one row the diagonal is all there is
            part = np.tril(own) if lower else np.triu(own)
            part = part * (1 - np.eye(n)) + np.eye(n) if unit else part
            program = solved.program({"B": 3, "N": n}, {"lower": lower, "unit": unit}, "f64")
            got = evaluate(program, {"a": a, "b": b})["out"]
            np.testing.assert_allclose(part @ got, b, atol=1e-12 * np.abs(got).max())
    definite = a @ a.swapaxes(1, 2) + 4 * np.eye(n)
    got = evaluate(factored.program({"B": 3, "N": n}, {}, "f64"), {"a": a})["out"]
    np.testing.assert_allclose(got, np.linalg.cholesky(definite), atol=1e-12)
    if n <= 8:
        got = evaluate(volume.program({"B": 3, "N": n}, {}, "f64"), {"a": a})["out"]
        np.testing.assert_allclose(got, np.linalg.det(a), rtol=1e-11)


def test_kernels_are_right() -> None:
    targets = [registry().target("cpp:cpu")]
    sizes = ((solved, 9), (factored, 3), (volume, 4))
    asked = [w for op, n in sizes for w in works(Problem(op, {"B": 5, "N": n}, {}), targets, ["f32"])]
    rows = Runner("checked", jobs=1).run(asked).rows
    assert [f"{r.operator} {r.target}: {r.error}" for r in rows if r.error is not None] == []


@pytest.mark.quick
@pytest.mark.parametrize(("op", "n", "message"), [
    (volume, 9, "at most 8"), (factored, 129, "1 to 128"), (volume, None, "open size"),
])  # fmt: skip
def test_what_is_refused_is_said(op: pk.Operator, n: int | None, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        op.program({"B": 2} if n is None else {"B": 2, "N": n}, {}, "f32")
