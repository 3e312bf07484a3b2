"""Whether a tensor still holds the bits that it held, told on the device where it lies and without a copy of it."""

from __future__ import annotations

from typing import Any

_CHUNK = 1 << 22
"""Words at once: as large as their sums' operands may be beside what is timed."""


def fingerprint(x: Any) -> int:
    """A number that another tensor of the same shape shares only by chance."""
    import torch

    raw = x.detach().contiguous().reshape(-1).view(torch.uint8)
    whole = raw.numel() // 4 * 4
    factors = torch.arange(_CHUNK, device=raw.device) * 0x9E3779B1 | 1  # odd, so that no bit of a word is lost
    parts = [raw[whole:].to(torch.int64)]
    words = raw[:whole].view(torch.int32)
    sums = [(w.to(torch.int64) * factors[: w.numel()]).sum() for part in (words, *parts) for w in part.split(_CHUNK)]
    return hash(tuple(torch.stack(sums).tolist()))
