"""Elements picked by a mask: right where they are reduced, refused where their number would be a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.errors import MissingRuleError  # noqa: E402
from tests.torch_import.test_import import agrees  # noqa: E402
from tests.torch_import.test_refusals import computed  # noqa: E402


def normal(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


X, M, AT, W = normal(6, 5), normal(6, 5) > 0.3, torch.arange(30).reshape(6, 5) * 7 % 9, normal(5, 3)
LABELS = torch.tensor([0, 4, -100, 2, 1, 2])


def elements(x: Any, m: Any, i: Any) -> Any:
    p = x[m]
    return (
        p.mean(), p.sum(), p.std(), p.var(unbiased=False), p.max(), p.amin(), p.prod(), p.abs().sum() / p.shape[0],
        F.mse_loss(p, (x * 2)[m]), F.smooth_l1_loss(p, x.flip(0)[m]), torch.linalg.norm(p),
        F.binary_cross_entropy_with_logits(p, (x > 1).float()[m]),
        torch.masked_select(x, x > 0).mean(), x[~m].exp().mean(), i[m].max(), i[m].min(), i[m].sum(), (i[m] > 7).any(),
        (i[m] > 0).all(),
        x - p.mean(), torch.linalg.norm(p, 1), torch.linalg.norm(p, float("inf")), p.count_nonzero(),
    )  # fmt: skip


def lines(x: Any, m: Any, i: Any, w: Any) -> Any:
    rows = m[:, 0]
    p = x[rows]
    return (
        p.sum(0), p.mean((0, 1)), p.amax(0), p.softmax(1).sum(0), p.sum(1).mean(), (p @ w).relu().mean(0),
        p.gather(1, i[rows] % 5).sum(), F.embedding(i[rows] % 6, x).mean(0), torch.cat([p, p * 2], 1).sum(0),
        F.layer_norm(p, (5,)).mean(0), p[:, 1:3].mean(0),
        p.view(-1, 5, 1).sum(0), p.max(1).values.mean(), p.sort(1).values.mean(0), p.argmax(1).sum(), p.var(0),
        p.topk(2, 1).values.sum(0),
        x.unsqueeze(2).expand(6, 5, 4)[m].mean(0), p.cumsum(1).mean(0),
    )  # fmt: skip


def losses(x: Any, labels: Any) -> Any:
    known = labels != -100
    x, labels = x[known], labels[known]
    return F.cross_entropy(x, labels), F.cross_entropy(x, labels, label_smoothing=0.1, reduction="sum")


def test_single_elements_are_reduced() -> None:
    agrees(elements, X, M, AT)


def test_lines_are_reduced() -> None:
    agrees(lines, X, M, AT, W)


def test_losses_of_what_has_a_label() -> None:
    op = agrees(losses, X, LABELS)
    rows = pk.check(op, ["cpp:cpu", "hip:gfx942"]).rows
    assert [r.correct for r in rows] == [True, True], [r.error for r in rows]


def test_narrow_floats_and_open_dims() -> None:
    agrees(lambda x, m: (x[m].mean(), x[m].var()), X.bfloat16(), M)
    agrees(lambda x, m: (x[m].mean(), x[m[:, 0]].amax(0)), X, M, dynamic={"x": {0: "T"}, "m": {0: "T"}})


def test_of_no_element_as_pytorch() -> None:
    op = pk.from_torch(lambda x: (x[x > 9].sum(), x[x > 9].mean(), x[x > 9].prod()), (X,))
    total, mean, product = computed(op, x=X).values()
    assert (total, product) == (0, 1) and np.isnan(mean)


@pytest.mark.parametrize("function", [
    lambda x, m: x[m] * 2, lambda x, m: x[m].cumsum(0).max(), lambda x, m: x[m].sort().values.sum(), lambda x, m: x[m].argmax(),
    lambda x, m: x[m[:, 0]].T @ x[m[:, 0]], lambda x, m: (x[m] * torch.arange(x[m].shape[0])).sum(), lambda x, m: x[m].median(),
    lambda x, m: (x[m] * x[x > 0.3]).sum(), lambda x, m: x[:, m[0]].sum(1), lambda x, m: x[m].view(-1, 1).flip(0).sum(1).max(),
    lambda x, m: (x[m] + torch.ones(x[m].shape[0])).sum(), lambda x, m: torch.linalg.norm(x[m], -1),
    lambda x, m: torch.cat([x, x[:, :1]], 1)[m[:, 0]].view(6, -1).sum(1).max(),
    lambda x, m: F.softmax(x[m], 0).max(), lambda x, m: torch.nonzero(m).sum(), lambda x, m: torch.unique(x).sum(),
])  # fmt: skip
def test_what_hangs_on_their_number_is_refused(function: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(MissingRuleError, match=r"follows? from the numbers inside") as caught:
        pk.from_torch(function, (X, M))
    assert "torch.where(mask, x, 0)" in caught.value.hint
