"""The coarse comparison of whole outputs: numpy's arrays and tensors are judged alike, lines of other sizes each by its own."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.check.agreement import agreement

pytestmark = pytest.mark.quick

CASES = [
    ([[1.0, 2.0]], [[1.0, 2.0005]], True), ([[1.0, 2.0]], [[1.0, 2.1]], False), ([[np.nan, 2.0]], [[np.nan, 2.0]], True),
    ([[np.nan, 2.0]], [[1.0, 2.0]], False), ([[np.inf, 1.0]], [[-np.inf, 1.0]], False), ([[0.0, 0.0]], [[0.0, 0.0]], True),
    # An element that cancels to nothing, in a line a thousand times the others.
    ([[1000.0, 0.5], *[[1.0, 1.0]] * 9999], [[1000.0, 0.0], *[[1.0, 1.0]] * 9999], True),
    ([[1000.0, 0.0], *[[1.0, 1.5]] * 9999], [[1000.0, 0.0], *[[1.0, 1.0]] * 9999], False),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "same"), CASES)
def test_arrays_and_tensors_alike(ours: list[list[float]], theirs: list[list[float]], same: bool) -> None:
    torch = pytest.importorskip("torch")
    a, b = np.array(ours, np.float32), np.array(theirs, np.float32)
    of_arrays = agreement(a, b, ("f32",))
    of_tensors = agreement(torch.from_numpy(a), torch.from_numpy(b), ("f32",))
    assert (of_arrays.message == "") == same
    assert of_tensors.message == of_arrays.message
    assert of_tensors.worst == pytest.approx(of_arrays.worst, rel=1e-5) or np.isinf(of_arrays.worst)


def test_tensors_of_whole_numbers_must_be_equal() -> None:
    torch = pytest.importorskip("torch")
    assert "1 of 3" in agreement(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]), ("i32",)).message
    assert not agreement(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 3]), ("i32",)).message
