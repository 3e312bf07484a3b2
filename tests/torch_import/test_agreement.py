"""PyTorch in float64 as the second oracle: what it cannot decide is no fault of the import, and what is one is seen."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.errors import PortakernError, UsageError
from portakern.torch_import import agreement as agreements
from portakern.torch_import.agreement import agreement, in_float64
from portakern.torch_import.rules import RULES

torch = pytest.importorskip("torch")


def scaled(x: Any, alpha: float) -> Any:
    """Constants in the dtype of the input, which rounds them, and two of them multiplied."""
    a, b = (torch.as_tensor(v, dtype=x.dtype) for v in (alpha, 51.524259848502766))
    return torch.where(x > 0, a * x, a * b * (torch.exp(x) - 1)) + torch.finfo(x.dtype).eps


def of_best_groups(scores: Any) -> Any:
    """Sums of bfloat16 are often equal."""
    sums = torch.topk(scores.view(-1, 8, 8), 2, -1)[0].sum(-1)
    chosen = torch.zeros_like(sums).scatter_(1, torch.topk(sums, 4, -1, sorted=False)[1], 1)
    return chosen, torch.exp(scores).masked_fill(~chosen.bool().repeat_interleave(8, 1), float("-inf"))


def tied() -> Any:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 4, (30, 64), generator=generator).bfloat16()


@pytest.mark.quick
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_constants_may_depend_on_the_dtype_of_an_input(dtype: Any) -> None:
    op = pk.from_torch(scaled, (torch.randn(3, 40).to(dtype), 57.19492964836246))
    assert agreement(op)


@pytest.mark.quick
def test_equal_elements_may_come_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    op = pk.from_torch(of_best_groups, (tied(),))
    assert agreement(op)
    monkeypatch.setattr(agreements, "ORDERS", ())
    assert not agreement(op), "the example has no equal sums, so it shows nothing"


@pytest.mark.quick
@pytest.mark.parametrize(("function", "args"), [(scaled, (torch.ones(3, 4).half() / -3, 57.2)), (of_best_groups, (tied(),))])
def test_a_wrong_rule_is_seen_all_the_same(function: Any, args: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "aten.exp", lambda call, x: x)
    assert not agreement(pk.from_torch(function, args))


@pytest.mark.quick
def test_a_graph_that_is_not_the_modules_excuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    op = pk.from_torch(scaled, (torch.randn(3, 40).half(), 57.19492964836246))
    graphs = agreements._graph
    monkeypatch.setattr(agreements, "_graph", lambda op, double: [x if double else x * 2 for x in graphs(op, double)])
    assert not agreement(op)


@pytest.mark.quick
def test_training_leaves_the_modules_statistics_alone() -> None:
    layer = torch.nn.BatchNorm1d(4).half()
    before = layer.running_mean.clone()

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x) * torch.as_tensor(57.19492964836246, dtype=x.dtype)

    assert agreement(pk.from_torch(Scaled(), (torch.randn(8, 4).half(),), train=True))
    assert torch.equal(layer.running_mean, before)


class Single(torch.nn.Module):
    """Computes in float32, whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv1d(4, 3, 1)

    def forward(self, x: Any) -> Any:
        return self.layer(x.to(torch.float32))


@pytest.mark.quick
def test_a_module_that_does_not_run_in_float64_is_held_by_its_graph() -> None:
    op = pk.from_torch(Single(), torch.randn(2, 4, 5))
    with pytest.raises(PortakernError, match="does not run"):
        in_float64(op)
    assert agreement(op).compared == ("out",) and agreement(op)


@pytest.mark.quick
def test_an_example_beyond_its_arrays_is_the_users_to_mend() -> None:
    """Imports do not look at numbers, so PyTorch is the first to say it."""
    op = pk.from_torch(lambda x, i: x[i] * 2, (torch.randn(4), torch.tensor([7])))
    with pytest.raises(UsageError, match="on its example: IndexError: index 7") as caught:
        agreement(op)
    assert "give an example that fits" in caught.value.hint
