"""Tables that go through rounded floats to whole numbers are those that PyTorch fills, on every target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.ir import oracle  # noqa: E402
from portakern.ir.tensor import Iota  # noqa: E402
from portakern.torch_import import ImportedOperator, tables  # noqa: E402
from portakern.torch_import.agreement import agreement, widened  # noqa: E402

pytestmark = pytest.mark.quick


def buckets(size: int, count: int = 20, far: int = 160) -> Any:
    """T5's relative positions.  In float64 the distances 10, 20 and 80 fall into other buckets than in float32."""
    at = torch.arange(size)
    apart = at[None, :] - at[:, None]
    near = count // 4
    past = near + (torch.log(apart.abs().float() / near) / math.log(far / near) * near).to(torch.long)
    past = torch.minimum(past, torch.full_like(past, 2 * near - 1))
    return (apart > 0).long() * 2 * near + torch.where(apart.abs() < near, apart.abs(), past)


class Bias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.arange(20.0))

    def forward(self, x: Any) -> Any:
        return x + self.table[buckets(x.shape[-1])]


def exactly(function: Any, *args: Any) -> ImportedOperator:
    """Imports what gives whole numbers only, and finds all of them equal to PyTorch's in the module's own dtypes."""
    op = pk.from_torch(function, args)
    made = oracle.evaluate(op.program(op.typical.dims), widened(op.example_arrays()))
    with torch.no_grad():
        wanted = function(*args)
    for ours, theirs in zip(made.values(), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy().astype(ours.dtype))
    assert agreement(op)
    return op


def test_buckets_of_relative_positions_are_pytorchs() -> None:
    op = exactly(Bias(), torch.zeros(96, 96))
    assert not any(isinstance(o, Iota) for o in op.program().body.ops), "nothing of it is computed at a call"


def jumps(x: Any) -> Any:
    n = torch.arange(11)
    return (
        x + torch.floor(n * 0.1 * 10), x + torch.ceil(torch.linspace(0, 1, 11) * 10)[:, None],
        x + torch.logspace(0, 3, 11).long(), x + torch.linspace(0, 7, 11, dtype=torch.int64),
        x + torch.arange(0, 5.5, 0.5).long(), x + torch.div(n * 0.1, 0.1, rounding_mode="floor"),
        x + torch.argsort(torch.sin(n * math.pi)), x + (2.0 ** (n / 3)).round().to(torch.int32),
    )  # fmt: skip


def borders(x: Any) -> Any:
    line = torch.linspace(0, 1, 11)
    return (
        x > line, x <= line[:, None], torch.bucketize(x, line), torch.bucketize(x, torch.arange(11) * 0.1, right=True),
        torch.searchsorted(line.expand(11, 11), x, side="right"), torch.searchsorted(line, 0.3) + x.long(),
    )  # fmt: skip


def test_what_jumps_with_rounded_floats_is_pytorchs() -> None:
    exactly(jumps, torch.zeros(11, 11))


def test_borders_of_rounded_floats_are_pytorchs() -> None:
    tenths = (torch.arange(11) / 10).repeat(11, 1)
    tenths[0, 0] = torch.nan
    exactly(borders, tenths)


def test_a_table_does_not_grow() -> None:
    def same_part(x: Any) -> Any:
        part = (torch.arange(50) * 0.1).long()
        return x.masked_fill(part[:, None] != part, 0.0)

    op = exactly(same_part, torch.ones(50, 50))
    assert [tuple(x.shape) for x in op.bound.values()] == [(50,)]


def test_floats_that_are_whole_are_computed_where_they_are_used() -> None:
    def masked(x: Any) -> Any:
        return x.masked_fill(torch.tril(torch.ones(11, 11)) == 0, 0.0) * (torch.arange(11).float() * 2 > 7)

    assert not exactly(masked, torch.ones(11, 11)).bound


def test_operations_without_a_rule_on_constants_are_done_by_pytorch() -> None:
    op = pk.from_torch(lambda x: (x * torch.kaiser_window(3), x[tuple(torch.tril_indices(3, 3))]), (torch.ones(3, 3),))
    assert agreement(op) and len(op.bound) == 2


def test_tables_that_cannot_be_filled_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match=r"bias: whole numbers follow from rounded floats.*test_tables.py:\d+"):
        op = pk.from_torch(Bias(), (torch.zeros(24, 24),), dynamic={"x": {0: "T", 1: "T"}})
    assert len(op.unsettled) == 1
    monkeypatch.setattr(tables, "LARGEST", 500)
    with pytest.warns(UserWarning, match="open or very large size"):
        assert pk.from_torch(Bias(), (torch.zeros(24, 24),)).unsettled
