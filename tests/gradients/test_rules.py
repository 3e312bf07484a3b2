"""Every rule against PyTorch's autograd of the same program, in float64; what has no derivative says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.gradients import reverse, rules
from portakern.gradients.elementwise import BINARY, STEPS, UNARY
from portakern.ir import functions
from portakern.ir import tensor as t
from portakern.ir.core import Function, Op
from portakern.ir.oracle import evaluate
from tests.gradients import made_up
from tests.gradients.support import agree

pytestmark = pytest.mark.quick

OPERATIONS = {c for c in vars(t).values() if isinstance(c, type) and issubclass(c, Op) and c.__module__ == t.__name__}


def test_every_operation_has_a_rule_or_says_why_not() -> None:
    assert len(reverse.TABLES) == len({m.__name__ for m in reverse.TABLES})
    ruled, constant, refused = set(rules.RULES), set(rules.CONSTANT), set(rules.REFUSED)
    assert ruled | constant | refused == {c for c in OPERATIONS if not issubclass(c, Function)}
    assert not ruled & constant and not ruled & refused and not constant & refused
    assert {c.__name__ for c in constant} == {"Literal", "DimSize", "Iota", "RandomBits", "ArgFold"}
    assert {c.__name__ for c in refused} == {"BitConvert", "KeySort"}


def test_every_function_of_elements_has_a_derivative_or_changes_in_steps() -> None:
    assert {*UNARY, *BINARY} | STEPS == {*functions.UNARY, *functions.BINARY}
    assert not {*UNARY, *BINARY} & STEPS


MATRIX = {"M": 5, "N": 7}
SIZES = {
    made_up.products: dict(B=2, M=3, N=4, K=5), made_up.parts: dict(P=17, S=4), made_up.grouped: dict(P=17, G=4, K=3, N=5),
    made_up.pools: dict(H=9, W=8), made_up.rnn: dict(S=5, B=3, I=4, H=6), made_up.walked: dict(S=5, B=3), made_up.factored: {},
}  # fmt: skip
PLAIN = ("unary", "binary", "broadcast", "shared", "moves", "windows", "folds", "running", "state_space", "gathers", "sorts",
         "products", "parts", "grouped", "pools", "rnn", "walked", "factored")  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    operator = getattr(made_up, name)
    agree(operator, SIZES.get(operator, MATRIX))


@pytest.mark.parametrize("params", [
    {}, dict(stride=2, low=1, high=1), dict(stride=3), dict(stride=2, dilation=2),
    dict(transposed=True, stride=2, low=1, high=1),
    dict(transposed=True, stride=2, low=1, high=0), dict(transposed=True, dilation=2),
], ids=str)  # fmt: skip
def test_convolutions(params: dict[str, int]) -> None:
    agree(made_up.convolution, {}, params)


@pytest.mark.parametrize("params", [{}, dict(stride=2), dict(stride=2, transposed=True)], ids=str)
def test_convolutions_in_groups(params: dict[str, int]) -> None:
    agree(made_up.in_groups, {}, params)


@pytest.mark.parametrize("mode", ["add", "max", "min"])
def test_scatters(mode: str) -> None:
    agree(made_up.scatters, MATRIX, {"mode": mode})


def test_of_several_updates_of_one_element_the_last_has_its_gradient() -> None:
    program = pk.grad(made_up.last_set).program({"M": 1, "N": 3}, {}, "f32")
    given = {"x": np.zeros((1, 3)), "i": np.array([[0, 2, 0, 5, 2, 0, -1, 7, 9]]), "u": np.ones((1, 9)),
             "d_out": np.array([[1.0, 2.0, 3.0]])}  # fmt: skip
    found = evaluate(program, given)
    assert found["d_x"].tolist() == [[0.0, 2.0, 0.0]]
    assert found["d_u"].tolist() == [[0.0, 0.0, 0.0, 0.0, 3.0, 1.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["unary", "moves", "folds", "running", "state_space", "sorts"])
@pytest.mark.parametrize("sizes", [dict(M=3, N=5), dict(M=7, N=11)], ids=str)
def test_other_sizes(name: str, sizes: dict[str, int]) -> None:
    agree(getattr(made_up, name), sizes)


def evaluated(operator: pk.Operator, **given: object) -> dict[str, np.ndarray]:
    arrays = {n: np.asarray(v, np.float64) for n, v in given.items()}
    dims: dict[str, Any] = dict(zip(("M", "N"), arrays["x"].shape, strict=False))
    return evaluate(operator.program(dims, {}, "f32"), arrays)


def test_equals_share_the_gradient_of_an_extreme() -> None:
    @pk.operator
    def largest(x: pk.Tensor["M", "N"]):
        return pk.max(x, 1)

    assert evaluated(pk.grad(largest), x=[[3, 1, 3, 3]], d_out=[6])["d_x"].tolist() == [[2, 0, 2, 2]]


def test_zeros_do_no_harm_to_the_gradient_of_a_product() -> None:
    @pk.operator
    def multiplied(x: pk.Tensor["M", "N"]):
        return pk.prod(x, 1)

    found = evaluated(pk.grad(multiplied), x=[[2, 0, 3], [0, 0, 3], [1, 2, 3]], d_out=[1, 1, 1])["d_x"]
    assert found.tolist() == [[0, 6, 0], [0, 0, 0], [6, 3, 2]]


def test_what_a_selection_leaves_out_has_no_gradient_whatever_it_is() -> None:
    @pk.operator
    def roots(x: pk.Tensor["M", "N"]):
        return pk.where(x > 0, pk.sqrt(x) * pk.log(x), 0.0)

    found = evaluated(pk.grad(roots), x=[[0.0, -1.0, 1.0]], d_out=[[1, 1, 1]])["d_x"]
    assert found.tolist() == [[0, 0, 1]]


def test_random_numbers_and_indices_are_constants() -> None:
    @pk.operator
    def noisy(x: pk.Tensor["M", "N"]):
        return pk.dropout(x, 3, 0.5) + pk.cast(pk.argmax(x, 1), pk.f32)[:, None]

    x, d = np.ones((4, 8)), np.full((4, 8), 3.0)
    kept = evaluated(pk.grad(noisy), x=x, d_out=d)["d_x"]
    assert set(np.unique(kept)) == {0.0, 6.0}


def test_what_no_output_depends_on_has_zeros() -> None:
    @pk.operator
    def counts(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
        return pk.floor(x) + y

    found = evaluated(pk.grad(counts), x=[[1.5]], y=[[0.0]], d_out=[[2.0]])
    assert found["d_x"].tolist() == [[0.0]] and found["d_y"].tolist() == [[2.0]]
