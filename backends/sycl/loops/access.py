"""Where an access touches memory: offsets, steps and bounds as text, from the index grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from portakern.ir.size import Size, Sym, names_of, substitute
from portakern.ir.tile import Index, Kernel, Load, Store, Term, buffer_type

from .spelling import own

Name = Callable[[str], str]


def size_text(size: Size) -> str:
    """A size as a C expression: sizes are never negative, so that / rounds down."""
    if not isinstance(size, int):
        size = substitute(size, {name: Sym.named(own(name)) for name in names_of(size)})
    return str(size).replace("//", "/")


def _times(text: str, factor: Size) -> str:
    if factor == 1:
        return text
    left = text if text.isidentifier() else f"({text})"
    right = size_text(factor)
    return f"{left} * {right if right.isidentifier() or right.isdigit() else f'({right})'}"


def term_text(term: Term, name: Name) -> str:
    """``(coordinate / div) % mod``, without its scale."""
    text = name(term.axis)
    if term.div != 1:
        text = f"{text} / {term.div}"
    if term.mod:
        text = f"{f'({text})' if term.div != 1 else text} % {term.mod}"
    return text


def index_text(index: Index, name: Name, picked: Sequence[str] = ()) -> str:
    """``picked`` are the coordinates that the access's gathers give."""
    parts = [_times(term_text(t, name), t.scale) for t in index.terms]
    parts += [picked[index.gather]] if index.gather >= 0 else []
    if index.offset != 0 or not parts:
        parts.append(size_text(index.offset))
    return " + ".join(parts).replace("+ -", "- ")


def offset_text(access: Load | Store, name: Name, picked: Sequence[str] = ()) -> str:
    """The element offset of an access as a C expression of the coordinates that ``name`` and ``picked`` give."""
    have = buffer_type(access.buffer)
    parts: list[str] = []
    for index, stride in zip(access.indices, have.element_strides, strict=True):
        if index.gather >= 0:
            parts.append(_times(picked[index.gather], stride))
        for t in index.terms:
            parts.append(_times(term_text(t, name), t.scale * stride))
        if index.offset != 0:
            parts.append(size_text(index.offset * stride))
    return (" + ".join(parts) or "0").replace("+ -", "- ")


def step_along(access: Load | Store, axis: str) -> Size | None:
    """How many elements apart neighbours along ``axis`` lie; ``None`` where that is not constant."""
    step: Size = 0
    for index, stride in zip(access.indices, buffer_type(access.buffer).element_strides, strict=True):
        for t in index.terms:
            if t.axis != axis:
                continue
            if t.div != 1 or t.mod:
                return None
            step = step + t.scale * stride
    return step


@dataclass(frozen=True)
class BoundsCheck:
    """A bound that an index must be tested against: ``low`` whether it may be negative, ``high`` whether too large."""

    index: Index
    size: Size
    low: bool
    high: bool

    def text(self, name: Name, picked: Sequence[str] = ()) -> str:
        value = index_text(self.index, name, picked)
        tests = [f"{value} >= 0"] if self.low else []
        tests += [f"{value} < {size_text(self.size)}"] if self.high else []
        return " && ".join(tests)


def checks(kernel: Kernel, access: Load | Store) -> list[BoundsCheck]:
    """The bounds that may be broken by coordinates that are inside their axes' extents."""
    found: list[BoundsCheck] = []
    for index, size in zip(access.indices, buffer_type(access.buffer).shape, strict=True):
        low: Size = index.offset
        high: Size = index.offset
        known = True
        for t in index.terms:
            extent = kernel.axis[t.axis].extent
            last: Size = t.mod - 1 if t.mod else (extent - 1) // t.div
            if not isinstance(t.scale, int):
                known = False
            elif t.scale < 0:
                low = low + last * t.scale
            else:
                high = high + last * t.scale
        known = known and index.gather < 0
        room: Size = size - 1 - high
        under = not (known and isinstance(low, int) and low >= 0)
        over = not (known and isinstance(room, int) and room >= 0)
        if under or over:
            found.append(BoundsCheck(index, size, under, over))
    return found
