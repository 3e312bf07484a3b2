"""PyTorch's own product of bf16 with packed weights of four bits, as a peer of ``benchmarks/narrow_products.py``.

It is a file of its own because peers of files that import torch are given tensors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

import portakern as pk


def int4_product(x: Any, w: Any, zero: Any, scale: Any, group: int = 128) -> Any:
    """The weights are packed anew as it wants them, once."""
    packed, numbers = _repacked(w, zero, scale)
    return torch.ops.aten._weight_int4pack_mm(x, packed, group, numbers)


@lru_cache(maxsize=4)
def _repacked(w: Any, zero: Any, scale: Any) -> tuple[Any, Any]:
    swapped = w << 4 | w >> 4  # the first of two in the upper half
    packed = torch.ops.aten._convert_weight_to_int4pack(swapped, 8)
    zeros = pk.unpack(zero, pk.u4, scale.shape[1]).to(scale.dtype)  # of (w - 8) * scale + offset
    return packed, torch.stack(((scale), (8 - zeros) * scale), -1).transpose(0, 1).contiguous()
