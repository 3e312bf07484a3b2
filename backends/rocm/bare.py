"""A HIP kernel that belongs to no operator, as a source to be compiled and looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence

from portakern.backend import Bare, Given, Launch, Source, Target
from portakern.emit.launches import parse_launches
from portakern.errors import UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType, TileType

from .adopt import headers_of


def bare(kernel: Bare, target: Target, found: Sequence[str] = ()) -> Source:
    """``found`` are the kernels of the compiled text; before they are known, the source is there to be compiled only.

    Raises :class:`UsageError` where the text holds no such kernel, or several and none is named.
    """
    arrays = tuple(Array(g.name, _type(g), "scalar" if g.shape is None else "inout") for g in kernel.arguments)
    symbol = _symbol(kernel, found) if found else kernel.entry or "kernel"
    told = [x for x in parse_launches(kernel.text) if x.kernel == symbol]
    if told and kernel.grid is None:
        launch = Launch(symbol, told[0].grid, told[0].block, tuple(a.name for a in arrays), told[0].shared_bytes)
    else:
        launch = Launch(symbol, kernel.grid or (1, 1, 1), kernel.block or (256, 1, 1), tuple(a.name for a in arrays),
                        kernel.shared_bytes)  # fmt: skip
    name = kernel.entry or symbol
    return Source(target, name, symbol, kernel.text, ".hip", arrays, (), (launch,), headers_of(kernel.text))


def _type(given: Given) -> BufferType | TileType:
    return TileType((), given.dtype) if given.shape is None else BufferType(given.shape, given.dtype)


def _symbol(kernel: Bare, found: Sequence[str]) -> str:
    """The kernel asked for, by its own name or by the one that C++ makes of it."""
    if kernel.entry:
        mangled = re.compile(rf"_Z(N\w*?)?{len(kernel.entry)}{re.escape(kernel.entry)}(?!\w*{re.escape(kernel.entry)}\()")
        hits = [x for x in found if x == kernel.entry] or [x for x in found if mangled.match(x)]
        if len(hits) == 1:
            return hits[0]
        what = "no kernel" if not hits else f"{len(hits)} kernels"
        raise UsageError(f"the text holds {what} {kernel.entry!r}", hint=f"it holds {', '.join(found)}")
    if len(found) > 1 and (kernel.arguments or kernel.grid):
        raise UsageError(f"the text holds {len(found)} kernels", hint=f"name one: FILE:{found[0]}; it holds {', '.join(found)}")
    return found[0]
