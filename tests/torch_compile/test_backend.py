"""``torch.compile(backend="portakern")``: parts with rules become kernels, the rest stays, training works."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from portakern import torch_compile  # noqa: E402
from portakern.errors import UsageError  # noqa: E402

F = torch.nn.functional


class Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        h = F.gelu(self.first(x))
        r = torch.linalg.qr(h)[1].abs().sum()  # has no rule
        return torch.softmax(self.last(h) * r, -1)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch_compile.clear()
    torch.manual_seed(0)


@pytest.mark.slow
def test_parts_become_kernels_and_the_rest_stays() -> None:
    model, x = Mixed().eval(), torch.randn(5, 6)
    compiled = torch.compile(model, backend="portakern", options={"target": "numba:cpu"})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    parts = [p for p in torch_compile.report() if p.kernels]
    assert len(parts) == 2 and not any("qr" in o for p in parts for o in p.operations)
    (left,) = (p for p in torch_compile.report() if not p.kernels)
    assert any("qr" in o for o in left.operations) and "has no rule" in left.eager


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UsageError, match="no option 'tarjet'"):
        torch_compile.backend(torch.nn.Module(), [], {"tarjet": "cpp:cpu"})
    with pytest.raises(UsageError):
        torch_compile.backend(torch.nn.Module(), [], {"target": "cpp:nothing"})


@pytest.mark.slow
def test_other_sizes_are_right() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
    compiled = torch.compile(model, backend="portakern")
    with torch.no_grad():
        for rows in (4, 7, 1, 9):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_training_goes_through_kernels_both_ways() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(128, 4))  # fmt: skip
    twin = copy.deepcopy(model)
    x, labels = torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4,))
    runs = [(torch.compile(model, backend="portakern", options={"strict": True}), model), (twin, twin)]
    for run, own in runs:
        steps = torch.optim.SGD(own.parameters(), 0.1)
        for _ in range(3):
            steps.zero_grad()
            F.cross_entropy(run(x), labels).backward()
            steps.step()
    for mine, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
    assert any("convolution_backward" in o for p in torch_compile.report() if p.kernels for o in p.operations)


@pytest.mark.slow
def test_random_numbers_stay_pytorchs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Dropout(0.5)).train()
    compiled = torch.compile(model, backend="portakern")
    x = torch.randn(16, 6)
    first, second = compiled(x), compiled(x)
    assert (first != second).any() and abs((first == 0).float().mean().item() - 0.5) < 0.1
