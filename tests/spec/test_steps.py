"""Steps one after the other: what a user may write, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.array_program import array_function
from portakern.errors import SpecError
from portakern.ir.core import Block, Op
from portakern.ir.mlir import to_mlir
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import Contract, Recur, TensorProgram
from portakern.ir.text import format_function, parse_function
from portakern.spec.cost import cost

pytestmark = pytest.mark.quick
T = pk.Tensor


@pk.operator
def pairs(x: T["T", "N"], y: T["T"], w: T["N"], reverse: bool = False):
    """Tuples of carries and of sequences, a weight from outside, a number to begin with."""
    def step(state, at):
        total, steps = state
        row, factor = at
        total = total + row * factor * w
        return (total, steps + 1), (total[0], None, -steps)

    return pk.scan(step, (pk.zeros((x.shape[1],)), 0), (x, y), reverse=reverse)


def in_numpy(x: np.ndarray, y: np.ndarray, w: np.ndarray, reverse: bool) -> dict[str, Any]:
    total, firsts, counts = np.zeros(x.shape[1]), np.zeros(len(x)), np.zeros(len(x))
    for n, t in enumerate(range(len(x))[:: -1 if reverse else 1]):
        total = total + x[t] * y[t] * w
        firsts[t], counts[t] = total[0], -n
    return {"total": total, "steps": len(x), "firsts": firsts, "counts": counts}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_the_oracle_and_array_libraries_run_the_steps(length: int, reverse: bool) -> None:
    @pk.operator
    def flat(x: T["T", "N"], y: T["T"], w: T["N"], reverse: bool = False):
        (total, steps), (firsts, _, counts) = pairs.function(x, y, w, reverse)
        return {"total": total, "steps": steps, "firsts": firsts, "counts": counts}

    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal((length, 3)), "y": rng.standard_normal(length), "w": rng.standard_normal(3)}
    program = flat.program({"T": length, "N": 3}, {"reverse": reverse}, "f32")
    given = {name: value.astype(np.float32) for name, value in given.items()}
    want = in_numpy(**given, reverse=reverse)
    got = evaluate(program, given)
    by_numpy = dict(zip(program.outputs, array_function(program, "numpy").call(*given.values()), strict=True))
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5)
        np.testing.assert_allclose(by_numpy[name], value, rtol=1e-4, atol=1e-6)


def test_the_text_form_is_read_back_and_exported() -> None:
    @pk.operator
    def rnn(x: T["T", "B", "I"], w: T["I", "I"]):
        return pk.scan(lambda h, x_t: (pk.tanh(x_t + h @ w), h), pk.zeros(x.shape[1:]), x, reverse=True)

    program = rnn.program({"T": 4, "B": 2, "I": 3}, {}, "f32")
    again = parse_function(format_function(program))
    assert isinstance(again, TensorProgram) and again.body.says == program.body.says
    text = to_mlir(program)
    assert '"pk.recur"' in text and text.count('"pk.contract"') == 1
    assert cost(program).flops == 4 * (2 * 3 * 2 + 2 * (2 * 3) * 3)


def test_a_constant_that_is_used_in_a_step_and_outside_of_it_is_two() -> None:
    @pk.operator
    def solved(a: T["N", "N"], b: T["N", "M"]):
        return pk.solve_triangular(a, b)

    program = solved.program({"N": 9, "M": 3}, {}, "f32")
    assert set(looped(program).step.ops).isdisjoint(program.body.ops)
    text = format_function(program)
    assert format_function(parse_function(text)) == text


def looped(program: TensorProgram) -> Recur:
    return next(op for op in program.body.ops if isinstance(op, Recur))


def test_a_step_is_closed_whatever_it_uses() -> None:
    """Weights from outside are operands, constants its own, though the program around it has equal ones."""
    @pk.operator
    def scaled(x: T["T", "N"], w: T["N"]):
        return pk.scan(lambda h, x_t: (h * 2.0 + x_t * pk.exp(w), None), x[0] * 2.0, x)[0]

    op = looped(scaled.program({"T": 4, "N": 3}, {}, "f32"))
    assert [c.mnemonic() for c in op.captured] == ["map"]
    assert {o for inner in op.step.ops for o in inner.operands} <= {*op.step.args, *op.step.ops}


def test_512_steps_are_traced_once() -> None:
    @pk.operator
    def rnn(x: T["T", "B", "I"], w: T["I", "I"]):
        return pk.scan(lambda h, x_t: (pk.tanh(x_t + h @ w), None), pk.zeros(x.shape[1:]), x)[0]

    def operations(block: Block) -> list[Op]:
        return list(block.walk())

    programs = [rnn.program({"T": length, "B": 2, "I": 3}, {}, "f32") for length in (3, 512)]
    assert len({len(operations(p.body)) for p in programs}) == 1
    assert sum(isinstance(op, Contract) for op in operations(programs[0].body)) == 1


REFUSED: list[tuple[Callable[..., Any], Mapping[str, Any], str]] = [
    (lambda h, x_t: (pk.cast(h, pk.f64), None), {}, "gives a carry of tensor[N, f64] where it takes tensor[N, f32]"),
    (lambda h, x_t: (pk.sum(h), None), {}, "gives a carry of tensor[f32]"),
    (lambda h, x_t: ((h, h), None), {}, "the new carry has the form of init"),
    (lambda h, x_t: h, {}, "two things"),
    (lambda h, x_t: (h, "seen"), {}, "'seen' among y"),
    (lambda h, x_t: (h if h > 0 else x_t, None), {}, "if"),
    (lambda h, x_t: (h, None), {"length": 3}, "the scan has T and 3 steps"),
    (lambda h, x_t: (h, None), {"axis": 2}, "axis"),
    (lambda h, x_t: (h, None), {"xs": None}, "give xs, or length="),
    (lambda h, x_t: (h, None), {"xs": 3.0}, "arrays with a dim to run along"),
]


@pytest.mark.parametrize(("step", "how", "said"), REFUSED)
def test_what_is_refused(step: Callable[..., Any], how: Mapping[str, Any], said: str) -> None:
    @pk.operator
    def scanned(x: T["T", "N"]):
        return pk.scan(step, pk.zeros((x.shape[1],)), how.get("xs", x), **{k: v for k, v in how.items() if k != "xs"})[0]

    with pytest.raises(SpecError) as error:
        scanned.trace({}, "f32")
    assert re.search(re.escape(said), f"{error.value}{error.value.hint}")
