"""How many launches torch.compile needs for a task: its own kernels, and calls of libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

KERNEL = r"cpp_fused\w*\(|triton_\w+\.run\(|extern_kernels\.\w+\(|torch\.ops\.\w+\.\w+"
LAUNCH = re.compile(rf"^\s+(?:\w+(?:, \w+)* = )?(?:{KERNEL})", re.MULTILINE)
"""What starts work in the code that Inductor writes to call its kernels."""


def launches(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | None:
    """Kernels and library calls of one inference; ``None`` where torch.compile fails."""
    import torch
    from torch._inductor.utils import run_and_get_code

    if isinstance(module, torch.nn.Module):
        module.eval()
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            _, codes = run_and_get_code(torch.compile(module), *args, **kwargs)
    except Exception:  # whatever a compiler of others raises; it is only counted
        return None
    return counted(codes)


def counted(codes: Iterable[str]) -> int:
    """What starts work in the texts that Inductor wrote."""
    return sum(len(LAUNCH.findall(code)) for code in codes)
