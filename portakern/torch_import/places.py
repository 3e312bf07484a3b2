"""Where a node of an exported graph comes from: the module's path and the line of its code."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from portakern.ir.core import Loc
from portakern.spec.location import line_at

_FRAME = re.compile(r'File "(.+?)", line (\d+)')


def place_of(node: Any) -> Loc | None:
    """``layer1.0.conv1 (model.py:31)``: the innermost line that is not PyTorch's own, within the innermost module."""
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    path = re.sub(r"@\d+$", "", modules[-1][0]) if modules else ""
    return _place(node.meta.get("stack_trace") or "", path)


@lru_cache(maxsize=4096)
def _place(trace: str, path: str) -> Loc | None:
    frames = [(m[1], int(m[2])) for m in _FRAME.finditer(trace)]
    own = [f for f in frames if not f[0].startswith((_torch(), str(Path(__file__).parent), "<"))] or frames
    if not own:
        return None
    at = line_at(*own[-1])
    return Loc(at.file, at.line, at.text, path)


@lru_cache(maxsize=1)
def _torch() -> str:
    import torch

    return str(Path(str(torch.__file__)).parent)
