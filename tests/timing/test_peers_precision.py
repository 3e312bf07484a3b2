"""Precision of PyTorch's products and convolutions while peers are timed."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.timing.peers import precision_of

torch = pytest.importorskip("torch")


@pk.operator
def product(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    return pk.matmul(a, b)


def test_it_is_set_where_pytorchs_testing_modules_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", False)
    assert torch.backends.flags_frozen()
    before = torch.backends.cudnn.allow_tf32
    with precision_of(product.program({"M": 2, "K": 3, "N": 4}, {}, "f32")):
        assert torch.backends.cudnn.allow_tf32 is False and torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.cudnn.allow_tf32 == before
