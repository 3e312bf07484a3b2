"""The model of a product's time against what was timed on an H100 SXM (benchmarks/choosing.py)."""

from __future__ import annotations

import pytest

from portakern.backends.cuda.hopper.choosing import HOPPER as CUDA
from portakern.backends.triton.schedule.hopper import PACE as TRITON
from portakern.emit.product_time import Pace, Product, numbers_of_parts

pytestmark = pytest.mark.quick

# (m, n, k), tile, its rate, parts, microseconds
IN_CUDA = [
    ((5120, 5120, 5120), (128, 192, 64), 0.97, 1, 370.4), ((5120, 5120, 5120), (128, 128, 64), 1.055, 1, 443.3),
    ((300, 14336, 4096), (128, 192, 64), 0.97, 1, 68.7), ((512, 1024, 16384), (128, 128, 64), 1.055, 4, 36.7),
    ((512, 1024, 16384), (64, 64, 64), 0.6, 1, 44.1), ((256, 256, 16384), (64, 128, 64), 0.77, 13, 15.1),
    ((2048, 1024, 256), (128, 128, 64), 1.055, 1, 5.9), ((16384, 4096, 256), (128, 256, 64), 1.0, 1, 62.3),
]  # fmt: skip
IN_TRITON = [
    ((5120, 5120, 5120), (128, 256, 64), 1.02, 1, 376.2), ((300, 8192, 8192), (128, 256, 64), 1.02, 1, 82.7),
    ((512, 512, 512), (64, 128, 128), 0.8, 1, 4.9), ((1024, 4096, 4096), (128, 256, 64), 1.02, 1, 45.9),
]  # fmt: skip


@pytest.mark.parametrize(("pace", "case"), [*((CUDA, c) for c in IN_CUDA), *((TRITON, c) for c in IN_TRITON)])
def test_near_what_was_timed(pace: Pace, case: tuple[tuple[int, int, int], tuple[int, int, int], float, int, float]) -> None:
    (m, n, k), tile, rate, parts, timed = case
    assert Product(m, n, k, 1, 2, 132).microseconds(pace, tile, rate, parts) == pytest.approx(timed, rel=0.25)


def test_parts_are_worth_a_look_while_units_have_less_than_two_blocks() -> None:
    assert list(numbers_of_parts(Product(4096, 4096, 4096, 1, 2, 132), (128, 256, 64))) == [1]
    assert max(numbers_of_parts(Product(256, 256, 16384, 1, 2, 132), (64, 128, 64))) == 32
    assert max(numbers_of_parts(Product(256, 256, 512, 1, 2, 132), (64, 128, 64))) == 2  # each has some steps


def test_more_units_and_a_faster_memory_take_less() -> None:
    slow, fast = Product(64, 8192, 8192, 1, 2, 132, memory_kb=2000), Product(64, 8192, 8192, 1, 2, 132, memory_kb=4500)
    assert slow.microseconds(CUDA, (64, 128, 64), 0.77) > 1.5 * fast.microseconds(CUDA, (64, 128, 64), 0.77)
    few, many = Product(4096, 4096, 4096, 1, 2, 66), Product(4096, 4096, 4096, 1, 2, 132)
    assert few.microseconds(CUDA, (128, 256, 64)) > 1.7 * many.microseconds(CUDA, (128, 256, 64))
