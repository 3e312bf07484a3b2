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


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x: Any, mask: Any = None) -> Any:
        heads = self.qkv(x).view(2, 6, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).reshape(2, 6, 16))


def trained(model: Any, *args: Any) -> None:
    """Gradients under ``torch.compile`` are those of eager mode."""
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="portakern", options={"target": "cpp:cpu", "strict": True})
    weights = torch.randn_like(twin(*args))
    (twin(*args) * weights).sum().backward()
    (compiled(*args) * weights).sum().backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-4)


def test_attention_trains() -> None:
    """PyTorch's decomposition of its forward gives something else than its backward takes."""
    x = torch.randn(2, 6, 16)
    trained(Attention(), x)
    forward, backward = torch_compile.report()
    assert any("attention" in o for o in forward.operations) and any("attention" in o for o in backward.operations)


@pytest.mark.slow
def test_attention_with_a_mask_trains() -> None:
    mask = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    mask[1, :, :, 4:] = False
    trained(Attention(), torch.randn(2, 6, 16), mask)


def test_views_that_nothing_here_computes_with_are_pytorchs() -> None:
    def parted(x: Any) -> Any:
        h = torch.relu(x)
        return h.view(4, 6).t(), x[1:].unsqueeze(0), h.permute(1, 0, 2).reshape(3, 8)

    x = torch.randn(4, 3, 2)
    got = torch.compile(parted, backend="portakern", options={"target": "numba:cpu"})(x)
    for a, b in zip(got, parted(x), strict=True):
        torch.testing.assert_close(a, b)
    (part,) = torch_compile.report()
    assert part.kernels <= 2, "one for the relu, one for the copy into another layout at most"


def test_arrays_that_lie_otherwise_are_taken_as_they_are_or_copied() -> None:
    """Kernels see x as [24], which no transposed array is."""

    def flat(x: Any) -> Any:
        return torch.cumsum(x.reshape(24) * 2, 0)

    compiled = torch.compile(flat, backend="portakern", options={"target": "numba:cpu", "strict": True})
    x = torch.randn(6, 4)
    for given in (x, x.clone().t()):
        torch.testing.assert_close(compiled(given), flat(given))


def test_tables_and_complex_numbers_are_inside_of_kernels() -> None:
    def looked_up(x: Any) -> Any:
        near = (torch.arange(6)[:, None] - torch.arange(6)[None, :]).clamp(-2, 2) + 2
        return x[near.flip(0).cumsum(0) % 5], torch.view_as_real(torch.fft.fft(x) * 1j)

    x = torch.randn(5)
    got = torch.compile(looked_up, backend="portakern", options={"target": "numba:cpu", "strict": True})(x)
    for a, b in zip(got, looked_up(x), strict=True):
        torch.testing.assert_close(a, b)
    assert all(p.kernels for p in torch_compile.report())


@pytest.mark.slow
def test_convolutions_in_groups_train() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3, groups=2, stride=2), torch.nn.Hardswish(),
                                torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
                                torch.nn.ConvTranspose2d(8, 3, 2, stride=2))  # fmt: skip
    trained(model, torch.randn(2, 4, 9, 9))
    assert all(p.kernels for p in torch_compile.report())


@pytest.mark.slow
def test_graph_breaks_and_open_sizes_go_together() -> None:
    class Breaks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            h = torch.tanh(self.first(x))
            torch._dynamo.graph_break()
            return self.last(h.cumsum(0))

    model = Breaks()
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="portakern", dynamic=True, options={"target": "numba:cpu"})
    for rows in (3, 5, 8):
        x = torch.randn(rows, 4)
        for run in (compiled, twin):
            run(x).square().sum().backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-4)
    assert sum(bool(p.kernels) for p in torch_compile.report()) == 4, "two graphs, forward and backward, for all sizes"
