"""Blocks as expressions: read from a reference whole or in part, spelled out in full, turned, spread over lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from portakern.ir.tile import Index

from ..planning.blocks import LANES, BlockAccess, Cut, Span
from ..planning.kernel_plan import PallasKernelPlan
from ..planning.windows import WindowDim
from ..syntax import operations
from ..syntax.expressions import ALL_LANES, COMPARE, BlockAxes, PlacedExpr


class Shapes:
    """The blocks of a kernel, or the part of them that is meant now."""

    def __init__(self, plan: PallasKernelPlan) -> None:
        self.plan = plan
        self.spans: Mapping[str, Span] = plan.spans
        self.parts: Mapping[str, str] = {}  # index text of the axes of which only a part is meant now
        self.taps: dict[str, str] = {}  # what the taps of the loops around are called

    @contextmanager
    def part(self, spans: Mapping[str, Span], parts: Mapping[str, str]) -> Iterator[None]:
        """While it lasts, blocks are those of a part: ``parts`` has its index along each axis."""
        before = self.spans, self.parts
        self.spans, self.parts = {**self.plan.spans, **spans}, parts
        try:
            yield
        finally:
            self.spans, self.parts = before

    def read(self, reference: str, place: BlockAxes, cut: Cut | None = None) -> PlacedExpr:
        """What a reference holds of the block, or of the part that is meant; ``cut`` is that of its lines."""
        index = [self.parts.get(a or "", ":") for a in place]
        if cut is not None:
            index[-1] = cut.index
        while index and index[-1] == ":":
            index.pop()
        return PlacedExpr(f"{reference}[{', '.join(index) or '...'}]", place, reference="" if index else reference)

    def window(self, reference: str, access: BlockAccess, taps: Sequence[tuple[str, int]] = (),
               lanes: str = "") -> PlacedExpr:  # fmt: skip
        """What the tap that is meant now takes of a block, or what all ``taps`` (names and counts) take, side by
        side over ``lanes``."""
        kept = [d for d in access.window if d.elements is not None]
        rows = next((d for d in kept if d.beside > 1), None)
        beside = ["column" if d is rows else "" for d in kept]
        if lanes_in_steps(access):
            index = [*map(self._taken, kept[:-2], beside), *self._lanes(kept[-2], kept[-1], beside[-2])]
        else:
            index = list(map(self._taken, kept, beside))
        while index and index[-1] == ":":
            index.pop()
        text = f"{reference}[{', '.join(index) or '...'}]"
        walks = [*taps, *([("column", rows.beside)] if rows is not None else [])]
        if walks:
            text = f"jnp.concatenate([{text} {' '.join(f'for {name} in range({n})' for name, n in walks)}], axis=-1)"
        return PlacedExpr(self.rows_joined(text, access, lanes), access.place)

    def rows_joined(self, text: str, access: BlockAccess, lanes: str = "") -> str:
        """``text``, which has the dims of a block, with those of its rows as one."""
        if not access.grouped:
            return text
        rows = self.spans[access.place[0] or ""].text
        return f"{text}.reshape({rows}, {lanes})" if lanes else f"{text}.reshape{self.sizes(access.place)}"

    def rows_apart(self, x: PlacedExpr, access: BlockAccess) -> PlacedExpr:
        """A value with the dims of a block."""
        if not access.grouped:
            return x
        return PlacedExpr(f"{x.at(0)}.reshape({', '.join(b for b in access.block if b is not None)})", x.place)

    def _lanes(self, dim: WindowDim, lanes: WindowDim, beside: str) -> tuple[str, str]:
        """The indices of rows that hold the elements of a step one after the other, and of the lanes of one of these."""
        steps, within = self._taken(dim, beside).split(", ")
        n = lanes.elements or 1
        taken = n if lanes.span is None else min(n, lanes.span.size)
        if within.isdigit():
            return steps, f"{int(within) * n} : {int(within) * n + taken}" if within != "0" else f":{taken}"
        return steps, f"({within}) * {n} : ({within}) * {n} + {taken}"

    def _taken(self, dim: WindowDim, beside: str) -> str:
        """The index along one dim of a block."""
        ways = [(self.taps[axis], scale) for axis, scale in dim.taps] + ([(beside, 1)] if beside else [])
        at = index_sum(dim.first, ways)
        span = dim.span
        if span is None:
            return at if dim.elements != 1 or dim.taps or dim.entry != Index() else ":"
        if at == "0" and dim.step == 1 and span.size >= (dim.elements or 0):
            return ":"
        if dim.step > 1:
            at, within = _divided(at, dim.step)
            return f"{':' + span.text if at == '0' else f'{at} : {at} + {span.text}'}, {within}"
        return f":{span.text}" if at == "0" else f"{at} : {at} + {span.text}"

    def sizes(self, place: BlockAxes) -> str:
        return self.plan.sizes(place, self.spans)

    def fill(self, x: PlacedExpr, place: BlockAxes, dtype: str) -> PlacedExpr:
        if x.place == place:
            return x
        x = one_lane(x) if place[1] != ALL_LANES else x
        if x.place == place:
            return x
        shape = self.sizes(place)
        if x.place is None:
            return PlacedExpr(f"jnp.full({shape}, {x.text}, {operations.JNP[dtype]})", place)
        # A dim of one element may already have the full size.
        if shape == self.sizes(x.place):
            return PlacedExpr(x.text, place, x.binding)
        return PlacedExpr(f"jnp.broadcast_to({x.text}, {shape})", place)

    def turn(self, x: PlacedExpr, place: BlockAxes, dtype: str) -> PlacedExpr:
        """``x`` transposed when its axes lie the other way round in ``place``."""
        if x.place is None or all(a in (None, ALL_LANES) or a == b for a, b in zip(x.place, place, strict=True)):
            return x
        x = one_lane(x)
        assert x.place is not None
        turned = (x.place[1], x.place[0])
        if dtype == "bool":
            return PlacedExpr(f"{x.at(0)}.astype(jnp.int32).T != 0", turned, COMPARE)
        return PlacedExpr(f"{x.at(0)}.T", turned)

    def spread(self, x: PlacedExpr, place: BlockAxes) -> PlacedExpr:
        """A column that fills the lanes, over the lanes of a tile at ``place``."""
        if x.place is None or x.place[1] != ALL_LANES or place[1] is None:
            return x
        span = self.spans[place[1]]
        if span.size > LANES and span.size % LANES:
            return one_lane(x)
        if span.size <= LANES:
            return PlacedExpr(x.text if span.size == LANES else piece(x, f":, :{span.text}"), (x.place[0], place[1]))
        copies = f"{span.text} // {LANES}" if span.text.isidentifier() else str(span.size // LANES)
        return PlacedExpr(f"jnp.tile({x.text}, (1, {copies}))", (x.place[0], place[1]))


def in_steps(access: BlockAccess) -> list[str]:
    """The sizes of a block of which dims are taken in steps, each of these as steps and the elements of one; none without."""
    kept = [d for d in access.window if d.elements is not None]
    if all(d.step == 1 for d in kept):
        return []
    if lanes_in_steps(access):
        *outer, rows, lanes = kept
        last = [str((rows.elements or 0) // rows.step), str(rows.step * (lanes.elements or 1))]
        kept = outer
    else:
        last = []
    sizes = (f"{(d.elements or 0) // d.step}, {d.step}" if d.step > 1 else str(d.elements) for d in kept)
    return [*sizes, *last]


def lanes_in_steps(access: BlockAccess) -> bool:
    """Whether the elements of a step lie one after the other along the lanes: rows cut in two would fill a native tile each.

    Mosaic joins rows of whole registers, and such as are one register together.
    """
    *_, rows, lanes = [d for d in access.window if d.elements is not None]
    if rows.step == 1 or lanes.step > 1 or lanes.taps or lanes.first or lanes.elements is None:
        return False
    return lanes.elements % LANES == 0 or rows.step * lanes.elements <= LANES


def _divided(at: str, step: int) -> tuple[str, str]:
    """In which step an element lies, and where in it."""
    if at.isdigit():
        return str(int(at) // step), str(int(at) % step)
    inner = at if at.isidentifier() else f"({at})"
    return f"{inner} // {step}", f"{inner} % {step}"


def index_sum(first: int, ways: Sequence[tuple[str, int]]) -> str:
    """``first`` plus names times their scales, as text."""
    text = ""
    for name, scale in ways:
        part = name if abs(scale) == 1 else f"{abs(scale)} * {name}"
        text = f"{text} {'+' if scale > 0 else '-'} {part}" if text else part if scale > 0 else f"{first} - {part}"
        first = 0 if text.startswith(f"{first} - ") else first
    return f"{text} + {first}" if text and first > 0 else f"{text} - {-first}" if text and first else text or str(first)


def one_lane(x: PlacedExpr) -> PlacedExpr:
    """A column that fills the lanes, as one of one element a row."""
    return PlacedExpr(piece(x, ":, :1"), (x.place[0], None)) if x.place and x.place[1] == ALL_LANES else x


def piece(x: PlacedExpr, index: str) -> str:
    """The text of ``x[index]``; of a reference only that part is read."""
    return f"{x.reference or x.at(0)}[{index}]"
