"""A file of the C family with kernels that belong to no operator, as a source to be compiled and looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from portakern.backend import InspectedKernel, KernelArgument, Launch, Source, Target
from portakern.emit.host_side import device_side
from portakern.emit.launches import parse_launches
from portakern.emit.mangled import is_called, readable
from portakern.errors import UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType, TileType

FOREIGN = "foreign"
"""Option of a source that somebody else wrote: its file's name, by which the compiler names its lines."""

THREADS = 256
"""Of a block, where nobody says."""

_INCLUDE = re.compile(r'^[^\S\n]*#[^\S\n]*include[^\S\n]*"([^"\n]+)"', re.MULTILINE)


Headers = Sequence[tuple[str, str]]
"""(name, text) of each."""


def bare_source(
    kernel: InspectedKernel,
    target: Target,
    found: Sequence[str],
    text: str,
    suffix: str,
    file: str,
    headers: Callable[..., Headers],
    options: Sequence[tuple[str, Any]] = (),
    device_only: bool = False,
) -> Source:
    """``text`` is what is compiled of the kernel's; ``found`` are the kernels of the compiled text.  Before they are known, the
    source is there to be compiled only.  ``headers`` is asked for those that the text and what lies beside its file may
    include; ``device_only``: of those beside it the device's side.

    Raises :class:`UsageError` where the text holds no such kernel, or several and none is named.
    """
    arrays = tuple(Array(g.name, _type(g), "scalar" if g.shape is None else "inout") for g in kernel.arguments)
    symbol = _symbol(kernel, found) if found else kernel.entry or "kernel"
    told = [x for x in parse_launches(kernel.text) if is_called(symbol, x.kernel)]
    names = tuple(a.name for a in arrays)
    if told and kernel.grid is None:
        launch = Launch(symbol, told[0].grid, told[0].block, names, told[0].shared_bytes)
    else:
        launch = Launch(symbol, kernel.grid or (1, 1, 1), kernel.block or (THREADS, 1, 1), names, kernel.shared_bytes)
    beside = _beside(kernel, device_only)
    library = tuple(h for h in headers(text, *beside.values()) if h[0] not in beside)
    return Source(target, readable(symbol), symbol, text, suffix, arrays, (), (launch,), (*library, *beside.items()),
                  options=((FOREIGN, file), *options))  # fmt: skip


def _type(given: KernelArgument) -> BufferType | TileType:
    return TileType((), given.dtype) if given.shape is None else BufferType(given.shape, given.dtype)


def _beside(kernel: InspectedKernel, device_only: bool) -> dict[str, str]:
    """Headers that the text includes from its own folder, and those that they include."""
    if not kernel.file:
        return {}
    found: dict[str, str] = {}
    waiting = [(name, "") for name in _INCLUDE.findall(kernel.text)]
    while waiting:
        name, base = waiting.pop()
        path = PurePosixPath(base, name)
        file = Path(kernel.file).parent / path
        if str(path) in found or path.is_absolute() or ".." in path.parts or not file.is_file():
            continue  # what is not there, the compiler names
        text = file.read_text(errors="replace")
        found[str(path)] = device_side(text).text if device_only else text
        waiting += [(inner, str(path.parent)) for inner in _INCLUDE.findall(found[str(path)])]
    return found


def _symbol(kernel: InspectedKernel, found: Sequence[str]) -> str:
    """The kernel asked for, by the name that C++ makes of it or by its own, with or without its template's arguments."""
    named = ", ".join(map(readable, found))
    if kernel.entry:
        hits = [x for x in found if x == kernel.entry] or [x for x in found if is_called(x, kernel.entry)]
        if len(hits) == 1:
            return hits[0]
        what = "no kernel" if not hits else f"{len(hits)} kernels"
        raise UsageError(f"the text holds {what} {kernel.entry!r}", hint=f"it holds {named}")
    if len(found) > 1 and (kernel.arguments or kernel.grid):
        one = readable(found[0])
        raise UsageError(f"the text holds {len(found)} kernels", hint=f"name one: 'FILE:{one}'; it holds {named}")
    return found[0]
