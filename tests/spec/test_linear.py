"""Linear algebra on batches of small matrices, compared with numpy's, and as kernels."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.errors import SpecError
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import Recur, tensor_type
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
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 20, 33])
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
    sizes = ((solved, 9), (solved, 34), (factored, 3), (factored, 33), (volume, 4))
    asked = [w for op, n in sizes for w in works(Problem(op, {"B": 5, "N": n}, {}), targets, ["f32"])]
    rows = Runner("checked", jobs=1).run(asked).rows
    assert [f"{r.operator} {r.target}: {r.error}" for r in rows if r.error is not None] == []


@pytest.mark.quick
@pytest.mark.parametrize("n", [9, 33])
@pytest.mark.parametrize(("op", "params"), [(factored, {}), (solved, {}), (solved, {"lower": False, "unit": True})])
def test_gradients_of_loops_are_those_of_small_changes(op: pk.Operator, n: int, params: dict[str, bool]) -> None:
    """Loops have gradients of a form of their own, which show no state of a step."""
    program = pk.grad(op).program({"B": 2, "N": n}, params, "f64")
    loops = [o for o in program.body.ops if isinstance(o, Recur)]
    assert loops and all(len(loop.gives[1]) == 0 for loop in loops)
    rng = np.random.default_rng(n)
    given = {a.name: rng.standard_normal(tensor_type(a).shape) * 0.3 for a in program.args}  # type: ignore[arg-type]
    towards = {"a": rng.standard_normal((2, n, n)), "b": rng.standard_normal((2, n, 3))}
    (g,) = (v for name, v in given.items() if name not in towards)
    inputs = {name: given[name] for name in towards if name in given}

    def at(step: float) -> float:
        moved = {name: x + step * towards[name] for name, x in inputs.items()}
        return float(np.sum(evaluate(op.program({"B": 2, "N": n}, params, "f64"), moved)["out"] * g))

    slope = sum(np.sum(d * towards[name.removeprefix("d_")]) for name, d in evaluate(program, given).items())
    np.testing.assert_allclose(slope, (at(1e-6) - at(-1e-6)) / 2e-6, rtol=1e-6)


@pytest.mark.quick
@pytest.mark.parametrize(("op", "n", "message"), [
    (volume, 9, "at most 8"), (factored, 129, "1 to 128"), (volume, None, "open size"),
])  # fmt: skip
def test_what_is_refused_is_said(op: pk.Operator, n: int | None, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        op.program({"B": 2} if n is None else {"B": 2, "N": n}, {}, "f32")
