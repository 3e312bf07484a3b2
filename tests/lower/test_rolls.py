"""Rolled arrays: one kernel that reads them in place, alone or with what is done to them."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.ir.program import Program
from portakern.registry import registry
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick


@pk.operator
def rolled(x: pk.Tensor["M", "N"]):
    return pk.roll(x, 5, 0)


@pk.operator
def rolled_lines(x: pk.Tensor["M", "N"]):
    return pk.roll(x, 5, 1)


@pk.operator
def rolled_both(x: pk.Tensor["M", "N"]):
    return pk.roll(pk.roll(x, -5, 1), 3, 0)


@pk.operator
def periodic_laplacian(x: pk.Tensor["M", "N"]):
    return pk.roll(x, 1, 0) + pk.roll(x, -1, 0) + pk.roll(x, 1, 1) + pk.roll(x, -1, 1) - 4.0 * x


@pk.operator
def turned_halves(x: pk.Tensor["M", "N"], c: pk.Tensor["N"], s: pk.Tensor["N"]):
    """As positions turn the features of a head, by sines that have their sign already."""
    n = x.shape[1] // 2
    return x * c + pk.concat([x[:, n:], x[:, :n]], 1) * s


@pk.operator
def shifted_windows(x: pk.Tensor["B", "4*H", "4*W", "C"]):
    """As Swin transformers cut an image that is rolled by half a window."""
    b, h, w, c = x.shape
    y = pk.roll(x, (-2, -2), (1, 2))
    return pk.transpose(pk.reshape(y, (b, h // 4, 4, w // 4, 4, c)), (0, 1, 3, 2, 4, 5))


@pk.operator
def swapped_ends(x: pk.Tensor["M", "N"]):
    """Near misses of a roll: ends that overlap, that leave some out, and of two arrays."""
    y = x * 2.0
    return (pk.concat([x[:, 3:], x[:, :4]], 1), pk.concat([x[:, 3:], x[:, :2]], 1), pk.concat([x[:, 3:], y[:, :3]], 1),
            pk.concat([x[:, :3], x[:, 3:]], 1), pk.concat([x[:, ::2], x[:, 1::2]], 1))  # fmt: skip


ROLLS = (rolled, rolled_lines, rolled_both, periodic_laplacian)
SHAPE = {"M": 17, "N": 70}


def _lowered(operator: pk.Operator, target: str, shape: dict[str, int]) -> Program:
    return lowered_for(registry().target(target), operator.program(shape, {}, "f32"))


@pytest.mark.parametrize("operator", ROLLS, ids=lambda op: op.name)
@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx942", "triton:sm_90"])
def test_one_kernel_and_no_copy(operator: pk.Operator, target: str) -> None:
    for of in (operator, pk.grad(operator)):
        program = _lowered(of, target, SHAPE)
        assert len(program.kernels) == 1, of.name
        assert all(a.role != "temporary" for a in program.arrays)


def test_windows_of_a_rolled_image_are_one_kernel() -> None:
    assert len(_lowered(shifted_windows, "cuda:sm_90a", {"B": 2, "H": 3, "W": 2, "C": 8}).kernels) == 1


def test_a_cpu_copies_neighbours_of_lines_that_are_only_stored() -> None:
    """Elements that are picked one by one take it twice as long."""
    assert len(_lowered(rolled_lines, "cpp:cpu", SHAPE).kernels) == 2
    assert len(_lowered(rolled, "cpp:cpu", SHAPE).kernels) == 1
    assert len(_lowered(periodic_laplacian, "cpp:cpu", SHAPE).kernels) == 1
    assert "gather" not in str(_lowered(turned_halves, "cpp:cpu", SHAPE).kernels[0])
    assert "gather" in str(_lowered(turned_halves, "cuda:sm_90a", SHAPE).kernels[0])


def test_what_is_no_roll_stays_pieces() -> None:
    assert not any("gather" in str(k) for k in _lowered(swapped_ends, "cuda:sm_90a", SHAPE).kernels)


@pytest.mark.parametrize("operator", [*ROLLS, turned_halves, swapped_ends], ids=lambda op: op.name)
@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx1201", "cpp:cpu", "numba:cpu", "opencl:cpu"])
def test_values(operator: pk.Operator, target: str) -> None:
    for shape in (SHAPE, {"M": 6, "N": 8}):
        (row,) = pk.check(operator, target, dtype="f32", shape=shape).rows
        assert row.correct, row.error


@pytest.mark.parametrize("operator", ROLLS, ids=lambda op: op.name)
def test_values_of_gradients(operator: pk.Operator) -> None:
    (row,) = pk.check(pk.grad(operator), "cpp:cpu", dtype="f32", shape=SHAPE).rows
    assert row.correct, row.error


def test_open_sizes() -> None:
    (row,) = pk.check(rolled_both, "numba:cpu", dtype="f32", shape="M=?,N=?").rows
    assert row.correct, row.error
