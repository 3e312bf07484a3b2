"""Small models of the kinds that a study meets: equal layers, loops, concatenations, copies of weights.

    portakern plan tests/model_study/small_models.py:blocks --targets cpp:cpu
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(16) for _ in range(3))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        y, (h, _) = self.rnn(x)
        return y, h


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.skip = nn.Conv2d(3, 4, 1)

    def forward(self, x: Any) -> Any:
        y = self.conv2(torch.relu(self.conv1(x)))
        return torch.cat([y, self.skip(x)], 1)


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


def _seeded(model: Any, *shape: int) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    return model(), (torch.randn(*shape),)


def blocks() -> tuple[Any, tuple[Any, ...]]:
    return _seeded(Blocks, 4, 16)


def recurrent() -> tuple[Any, tuple[Any, ...]]:
    return _seeded(Recurrent, 2, 5, 6)


def convolved() -> tuple[Any, tuple[Any, ...]]:
    return _seeded(Convolved, 1, 3, 6, 6)


def attentive() -> tuple[Any, tuple[Any, ...]]:
    return _seeded(Attentive, 2, 5, 16)


def a_number() -> int:
    return 7


def broken() -> Any:
    raise ValueError("the factory's own fault")


class Picks(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nonzero(x)


def refused() -> tuple[Any, tuple[Any, ...]]:
    return Picks(), (torch.ones(3),)
