"""PyTorch's int64 for devices without it: what modules take and give is computed in 32 bits and is PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import portakern as pk  # noqa: E402
from portakern.ir.oracle import evaluate  # noqa: E402
from portakern.ir.tensor import tensor_type  # noqa: E402
from portakern.lower.narrow import without_wide_integers  # noqa: E402
from portakern.lower.small_integers import small  # noqa: E402

pytestmark = pytest.mark.quick
RNG = torch.Generator().manual_seed(0)
X, IDS = torch.randn(12, 20, generator=RNG), torch.tensor([3, 0, 11, -1, 7, 7, -12])
INSIDE = IDS % 12

MODULES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "index": (lambda x, i: x[i], (X, IDS)),
    "two indices": (lambda x, i: x[i.clamp(-12, 11), i.clamp(0, 19)], (X, IDS)),
    "index_add": (lambda x, i: x.index_add(0, i, x[:7]), (X, INSIDE)),
    "index_put": (lambda x, i: x.index_put((i,), x[:7]), (X, INSIDE)),
    "gather": (lambda x, i: x.gather(1, i[None, :].expand(12, 7)), (X, INSIDE)),
    "embedding": (lambda x, i: torch.nn.functional.embedding(i, x), (X, INSIDE)),
    "one hot": (lambda x, i: torch.nn.functional.one_hot(i, 12) + x.argmax(), (X, INSIDE)),
    "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5])), (X,)),
    "top": (lambda x: torch.topk(x, 5, dim=1), (X,)),
    "sort": (lambda x: torch.sort(x, dim=0, descending=True), (X,)),
    "running largest": (lambda x: torch.cummax(x, 1), (X,)),
    "counts": (lambda x: (x > 0).long().cumsum(1), (X,)),
    "places": (lambda x: torch.unravel_index(x.argmax(), x.shape), (X,)),
    "table": (lambda x: x.reshape(-1)[((x + 4) * 20).long().clamp(0, 239)], (X,)),
    "pool": (lambda x: torch.nn.functional.max_pool2d(x[None, None], 2, return_indices=True), (X,)),
    "bicubic": (lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bicubic"), (X[:6, :6],)),
}


def wide_in(program: Any) -> list[str]:
    """Operations of i64 but for limits and results."""
    results = set(program.results)
    ops = [op for op in program.body.ops if getattr(op.type, "dtype", "") == "i64" and op not in results]
    words = [f"{op.mnemonic()} {getattr(op, 'fn', '')}".strip() for op in ops]
    return [word for word in words if word not in ("literal", "convert", "map max", "map min")]


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_right_in_32_bits(name: str):
    function, inputs = MODULES[name]
    op = pk.from_torch(function, inputs)
    narrow = without_wide_integers(op.program({}, {}, "f32"))
    assert not wide_in(narrow), narrow
    assert all(tensor_type(r).dtype != "i64" or small(r) is not None for r in narrow.results)
    want = function(*inputs)
    found = evaluate(narrow, op.example_arrays())
    for x, y in zip(found.values(), want if isinstance(want, tuple) else (want,), strict=True):
        assert x.dtype.kind == y.numpy().dtype.kind and (x.dtype == np.int64 or x.dtype.kind == "f")
        np.testing.assert_allclose(x, y.numpy(), 1e-4, 1e-4)


def test_numbers_of_constants_are_known():
    op = pk.from_torch(*MODULES["bicubic"])
    known = {name: (low, high) for name, low, high in op.program({}, {}, "f32").ranges}
    assert known and all(0 <= low <= high < 6 for low, high in known.values())
    assert set(known) == {a.name for a in op.program({}, {}, "f32").args if tensor_type(a).dtype == "i64"}


@pytest.mark.parametrize("name", ["index", "bucketize", "places", "pool"])
def test_modules_are_emitted_for_tpus(name: str):
    text = str(pk.emit(pk.from_torch(*MODULES[name]), "pallas:v5e"))
    assert ".astype(" in text.split("\ndef ")[-1]


REFUSED = {"product": lambda i: i * i, "sums": lambda i: i.cumsum(0), "float": lambda i: i.float()}


@pytest.mark.parametrize("function", REFUSED.values(), ids=list(REFUSED))
def test_numbers_of_any_size_are_refused(function: Callable[..., Any]):
    with pytest.raises(pk.PortakernError, match="32 bits"):
        pk.emit(pk.from_torch(function, (INSIDE,)), "pallas:v5e")
