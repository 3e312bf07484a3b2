"""Products of integers that a language cannot multiply as matrices are sums of rows, and right."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.ir.tensor import Contract
from portakern.lower.thin import without_products
from portakern.spec.operator import Operator

T = pk.Tensor


@pk.operator
def op(x: T["B", "M", "K", pk.i32], y: T["B", "K", "N", pk.i32], z: T["N", "L", pk.i8], f: T["M", "K"]):
    """Beside them a product that units multiply, in a batch, behind each other, and of floats."""
    a = x @ y
    return a, pk.einsum("bmn,nl->lbm", a, pk.cast(z, pk.i32)), f @ f.T, pk.matmul(z, pk.permute(z, (1, 0)), dtype=pk.i32)


@pytest.mark.quick
def test_those_that_are_multiplied_stay() -> None:
    program = op.program({"B": 2, "M": 5, "K": 7, "N": 6, "L": 3}, {}, "f32")

    def products(multiplies: set[str]) -> int:
        made = without_products(program, lambda dtype, summed: dtype in multiplies and summed == "i32")
        return sum(isinstance(x, Contract) for x in made.body.ops)

    assert products({"i32", "i8"}) == 4 and products({"i8"}) == 2 and products(set()) == 1
    assert without_products(program, lambda dtype, summed: True) is program


@pk.operator
def convolution(x: T["B", "C", "L", pk.i16], w: T["O", "C", 3, pk.i16]):
    """A product once its taps lie beside each other."""
    return pk.relu(pk.conv(x, w, padding=1, stride=2))


@pytest.mark.parametrize(("op", "dims"), [
    (op, {"B": 2, "M": 5, "K": 70, "N": 9, "L": 3}),
    (convolution, {"B": 2, "C": 5, "L": 21, "O": 3}),
], ids=["products", "convolution"])  # fmt: skip
@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx942", "pallas:v5e"])
def test_right(op: Operator, dims: dict[str, int], target: str) -> None:
    (row,) = pk.compare(op, targets=[target], dtype="f32", shape=dims).rows
    if row.error and row.error["kind"] == "tool-missing":
        pytest.skip(f"needs the tools of {target}")
    assert row.correct, row.error
