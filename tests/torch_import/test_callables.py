"""Whatever can be called is imported: functions of C, methods, partial calls, objects; and rules that these brought."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import portakern as pk  # noqa: E402
from portakern.errors import SpecError, UsageError  # noqa: E402
from tests.torch_import.test_import import agrees, normal  # noqa: E402


class Scaled:
    """An object that is called."""

    def __call__(self, x: Any) -> Any:
        return x * 3.0


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 5)

    def encode(self, x: Any, gain: float = 1.0) -> Any:
        return self.inner(x) * gain


@pytest.mark.parametrize(("name", "given", "shapes"), [
    ("a function of C", F.cosine_similarity, [(3, 4), (3, 4)]),
    ("a partial call", functools.partial(torch.softmax, dim=0), [(3, 4)]),
    ("an object", Scaled(), [(3, 4)]),
    ("a lambda", lambda x: x.clamp(min=0) + 1, [(3, 4)]),
    ("two sides of a form", nn.Bilinear(3, 4, 2), [(5, 3), (5, 4)]),
])  # fmt: skip
def test_what_is_called_is_imported(name: str, given: Any, shapes: list[tuple[int, ...]]) -> None:
    agrees(given, *(normal(*shape) for shape in shapes))


def test_a_method_keeps_the_names_of_its_module() -> None:
    op = agrees(Named().encode, normal(2, 4))
    assert {a.name for a in op.trace({}, "f32").args} >= {"inner_weight", "inner_bias"}
    agrees(functools.partial(Named().encode, gain=2.0), normal(2, 4))


def test_bags_of_rows_and_projected_states() -> None:
    places, begins = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 2])
    for mode in ("sum", "mean"):
        agrees(nn.EmbeddingBag(7, 3, mode=mode), places, begins)
    agrees(nn.LSTM(4, 6, proj_size=3, bias=False), normal(5, 2, 4))


def test_what_cannot_be_called_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="nor a function"):
        pk.from_torch(3, (normal(2),))
    with pytest.raises(SpecError, match="TorchScript"):
        pk.from_torch(torch.jit.script(nn.ReLU()), (normal(2),))
