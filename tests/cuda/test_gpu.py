"""On a GPU: every sample against its float64 reference, on host data and on arrays of torch and cupy."""

from __future__ import annotations

import pytest

from tests.cuda import gpu_smoke
from tests.cuda.variants import all_variants

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", list(all_variants()))
def test_right_on_the_gpu(name: str) -> None:
    line = gpu_smoke.in_child(name)
    assert line.startswith("ok"), line
