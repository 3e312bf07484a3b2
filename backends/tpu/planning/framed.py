"""Arrays that are an input with something around it, of which each step reads all: the kernel puts that around its block.

So a convolution with padding reads its input as it is, and no padded copy lies in HBM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from portakern.ir.program import Array
from portakern.ir.size import Size
from portakern.ir.tile import Index

from .blocks import BlockAccess, Frame
from .kernel_plan import PallasKernelPlan
from .pieces import Assembly


def frames_of(assemblies: Sequence[Assembly], plans: Iterable[PallasKernelPlan], made: Iterable[str]) -> dict[str, Frame]:
    """The assembled arrays that no kernel needs whole, by name; ``made`` are the arrays that kernels make."""
    accesses = [a for p in plans for a in p.accesses]
    needed = {p.name for a in assemblies for p in a.pieces}  # by the host
    found: dict[str, Frame] = {}
    for assembly in assemblies:
        array, (piece, *more) = assembly.array, assembly.pieces
        if more or piece.part or piece.name in made or array.role != "temporary" or array.name in needed:
            continue
        if any(step != 1 for _, step, _ in piece.places):
            continue
        frame = _frame(array, assembly)
        if all(_frames(a, frame) for a in accesses if a.buffer == array.name):
            found[array.name] = frame
    return found


def _frame(array: Array, assembly: Assembly) -> Frame:
    places = assembly.pieces[0].places
    around = tuple((offset, size - offset - n) for (offset, _, n), size in zip(places, array.type.shape, strict=True))  # type: ignore[union-attr]
    return Frame(assembly.pieces[0].name, tuple(n for _, _, n in places), around, array.init or 0)


def _frames(access: BlockAccess, frame: Frame) -> bool:
    """Whether ``frame`` can be put around the blocks of ``access``: they hold all of the array along what is framed."""
    if not access.window or access.view.moved or len(access.window) != len(frame.around):
        return False
    seen = tuple(d.size for d in access.window)
    whole: Sequence[Size] = tuple(n + low + high for n, (low, high) in zip(frame.shape, frame.around, strict=True))
    if seen != tuple(whole) or any(not isinstance(d.missing, int) or d.by_element for d in access.window):
        return False
    return all((ends == (0, 0) and d.missing == 0) or (d.entry == Index() and d.elements == d.size + d.missing)
               for d, ends in zip(access.window, frame.around, strict=True))  # fmt: skip


def framed(plan: PallasKernelPlan, frames: dict[str, Frame]) -> PallasKernelPlan:
    """``plan`` with ``frames`` put around blocks by the kernel."""
    reads = tuple(_inside(a, frames[a.buffer]) if a.buffer in frames else a for a in plan.reads)
    return replace(plan, reads=reads)


def _inside(access: BlockAccess, frame: Frame) -> BlockAccess:
    """``access`` to the array inside of ``frame``; what the last steps along a dim lack lies around it, too."""
    ends = tuple((low, high + d.missing) for (low, high), d in zip(frame.around, access.window, strict=True))
    blocks = tuple(b if end == (0, 0) else str(n) for b, n, end in zip(access.block, frame.shape, ends, strict=True))
    view = replace(access.view, shape=frame.shape, final=frame.shape)
    dims = tuple(replace(d, missing=0) for d in access.window)
    return replace(access, block=blocks, view=view, window=dims, inside=replace(frame, around=ends))
