"""What PyTorch's modules ask of blocks: joined dims, pieces of them, windows that lie backwards, computed indices."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import portakern as pk
from tests.tpu.interpret.test_int64 import interpreted

os.environ.setdefault("JAX_PLATFORMS", "cpu")
pytest.importorskip("jax")
torch = pytest.importorskip("torch")


def patches(image: Any) -> Any:
    """An image in patches, a line each, as vision transformers take it: ``4*patch + pixel``."""
    return image.unfold(2, 4, 4).unfold(3, 4, 4).reshape(1, -1, 16) + 1.0


def unrolled(x: Any, w: Any) -> Any:
    """Rows of three products that lie in one array."""
    return torch.stack([x[t] @ w for t in range(3)])


def upwards(x: Any, w: Any) -> Any:
    return torch.nn.functional.conv_transpose2d(x, w, None, (2, 2), (1, 1), (1, 1))


def dealt_out(x: Any, mask: Any, source: Any) -> Any:
    """Each place of the mask takes the next element, whose number is a running sum."""
    return x.masked_scatter(mask, source)


SHAPES: dict[Any, list[tuple[int, ...]]] = {
    patches: [(1, 1, 8, 8)], unrolled: [(3, 8, 16), (16, 8)], upwards: [(1, 1, 4, 3), (1, 2, 3, 4)], dealt_out: [(5, 5)] * 3,
}  # fmt: skip


def imported(function: Any) -> tuple[Any, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    arrays: list[np.ndarray] = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[function]]
    if function is dealt_out:
        arrays[1] = arrays[1] > 0
    op = pk.from_torch(function, tuple(map(torch.from_numpy, arrays)), name=function.__name__)
    return op, dict(zip([i.name for i in op.inputs], arrays, strict=True))


def test_windows_that_lie_backwards_are_turned_around() -> None:
    assert "jnp.flip(" in str(pk.emit(imported(upwards)[0], "pallas:v5e"))


@pytest.mark.parametrize("function", [
    patches, unrolled, pytest.param(upwards, marks=pytest.mark.slow), dealt_out,
], ids=lambda f: f.__name__)  # fmt: skip
def test_from_torch(function: Any) -> None:
    op, given = imported(function)
    ((found, want),) = interpreted(op, op.typical.dims, given)
    for name, x in want.items():
        np.testing.assert_allclose(found[name], x, 1e-5, 1e-5, err_msg=name)
