"""The plan of a product that is a pipeline between warps of different roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from portakern.backend import TensorMap
from portakern.dtypes import DTYPES
from portakern.emit.clike import plan as p
from portakern.emit.clike.terms import ZERO, PlanTerm, number, whole
from portakern.ir.size import Size

from ..plans import CudaKernelPlan
from ..under_way import AsyncProduct, Feed, StartProducts, Take, ordered

WARPGROUP = 128
"""Threads of a warpgroup: the producer is one, and the consumers are one or two."""

PANEL_SIDE = 64
"""Rows, and columns of 16 bits, of a panel through which results leave."""
PANEL_BYTES = PANEL_SIDE * PANEL_SIDE * 2

PRODUCT_BYTES = 32
"""Along the contracted axis, of each operand of one wgmma: 16 elements of 16 bits."""


PIPE = Feed("pipe", counts=True)


@dataclass(frozen=True)
class Fetched(p.StatementPart):
    """An operand that the copy engine brings to ``shared``, described by ``map``.

    ``side`` is left or right; ``at`` is where its tile begins: row, column, then batches, the innermost first.  A left operand
    of pixels begins at channel, spatial coordinates and image, the innermost first; then come the places of the taps.
    """

    shared: p.Shared
    map: TensorMap
    side: str
    at: tuple[PlanTerm, ...]

    @property
    def bytes(self) -> int:
        """Of one slot."""
        return self.shared.rows * self.shared.cols * DTYPES[self.shared.dtype].bytes

    def __str__(self) -> str:
        box = " x ".join(map(str, self.map.box))
        at = ", ".join(map(str, self.at))
        if self.map.pixels is not None:
            return f"feed {self.shared.name} pixels of {self.map.array} at ({at}) by {box}, swizzle {self.map.swizzle}"
        return f"feed {self.shared.name} from {self.map.array} at ({at}) by boxes of {box}, swizzle {self.map.swizzle}"


@dataclass(frozen=True)
class SendTile(p.StoreTile):
    """A store that the copy engine does, through ``panels`` panels of shared memory for each warpgroup, of ``rows`` rows.
    ``at`` as in Feed."""

    UNREAD = ("access",)

    map: TensorMap | None = None
    at: tuple[PlanTerm, ...] = ()
    panels: int = 2
    rows: int = PANEL_SIDE

    @property
    def bytes(self) -> int:
        """Of a warpgroup's panels."""
        return self.panels * self.rows * PANEL_SIDE * 2

    def __str__(self) -> str:
        assert self.map is not None
        at = ", ".join(map(str, self.at))
        return f"send {self.value} to {self.map.array} at ({at}) by {self.panels} panels of {self.rows} x {PANEL_SIDE} in turn"


@dataclass(frozen=True)
class WriteRows(p.StoreTile):
    """A store to rows that begin off 16 bytes, through eight rows of shared memory for each warp, ``bytes`` in all."""

    bytes: int = 0

    def __str__(self) -> str:
        return f"write rows of {super().__str__().removeprefix('store ')}"


@dataclass(frozen=True)
class Refill(p.Statement):
    """The producer's next slot, ``slot``, once everyone has read it, and its operands set going."""

    NAMES = ("slot",)
    MADE = ("slot",)

    slot: str
    bytes: int
    brought: tuple[Fetched, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.slot} = next empty slot, for {self.bytes} bytes", *map(str, self.brought)])


@dataclass(frozen=True)
class PipelinePlan(CudaKernelPlan):
    """``threads`` and ``warps`` are the consumers'; a warpgroup more produces.

    ``rows``, ``cols`` and ``batches`` count the tiles of the result, which clusters of ``cluster`` blocks (below each other,
    side by side) take in bands of ``band`` clusters; ``places`` makes coordinates of a tile's number.  ``loop`` runs over
    the contracted axis, within ``limits`` where these are not its ends, inside the loops ``around`` it, the outermost first,
    whose bodies say nothing here; ``before`` and ``after`` are what consumers do for each tile around them.
    """

    cluster: tuple[int, int] = (1, 1)
    band: int = 8
    rows: Size = 1
    cols: Size = 1
    batches: Size = 1
    slots: int = 4
    feeds: tuple[Fetched, ...] = ()
    places: tuple[p.Scalar, ...] = ()
    loop: p.Loop | None = None
    around: tuple[p.Loop, ...] = ()
    limits: tuple[p.Scalar, ...] = ()
    before: tuple[p.Statement, ...] = ()
    after: tuple[p.Statement, ...] = ()

    def scopes(self) -> tuple[p.Scope, ...]:
        return p.Scope(self.producer), p.Scope(self.consumers)

    @property
    def producer(self) -> tuple[p.Statement, ...]:
        """What the producer does for each tile."""
        assert self.loop is not None
        refill = Refill(self.dots[0].a.slot, self.slot_bytes, self.feeds)
        return *self.places, *self.limits, *self._inside([replace(self.loop, body=(refill,), note="")])

    def _inside(self, body: Sequence[p.Statement]) -> tuple[p.Statement, ...]:
        """``body`` in the loops around it."""
        made = tuple(body)
        for loop in reversed(self.around):
            made = (replace(loop, body=made),)
        return made

    @cached_property
    def consumers(self) -> tuple[p.Statement, ...]:
        """What consumers do for each tile.  Loads that do not depend on the product come first of what follows it: they are
        under way while the last step is multiplied."""
        early = self._early
        late = [s for s in self.after if s not in early]
        return ordered([*self.places, *self.before, *self._inside(self._steps), *early, *late])

    @property
    def _steps(self) -> list[p.Statement]:
        """Where the last step has less of the contracted axis, it multiplies no more than that."""
        loop, left = self.loop, self.left
        assert loop is not None
        if not left:
            return [replace(loop, body=self._step())]
        end = number(loop.end)
        assert end is not None
        full = end // loop.step * loop.step
        last = p.Block(self._step(left), f"the last step: what is left of {loop.var.removesuffix('0')}")
        return [*([replace(loop, end=whole(full), body=self._step())] if full else []), last]

    def _step(self, deep: int = 0) -> tuple[p.Statement, ...]:
        products = (AsyncProduct(x.acc, x.a, x.b, (PIPE,), deep=deep) for x in self.dots)
        return Take(self.dots[0].a.slot, PIPE), StartProducts(tuple(products))

    @property
    def _early(self) -> list[p.Statement]:
        late = {s.name for s in self.after if isinstance(s, p.Scalar)}
        return [s for s in self.after if isinstance(s, p.LoadTile) and s.define and s.place is not None
                and s.place.side != "tile" and not late & p.reads(s)]  # fmt: skip

    @property
    def block(self) -> int:
        return self.threads + WARPGROUP

    @property
    def slot_bytes(self) -> int:
        return sum(f.bytes for f in self.feeds)

    @property
    def barriers_at(self) -> int:
        """Where the pipeline's barriers lie in shared memory, behind all else."""
        panels = 0 if self.sent is None else self.threads // WARPGROUP * self.sent.bytes
        return self.outbox_at + panels + (self.written.bytes if self.written else 0)

    @property
    def sent(self) -> SendTile | None:
        return next((s for s in self.after if isinstance(s, SendTile)), None)

    @property
    def written(self) -> WriteRows | None:
        return next((s for s in self.after if isinstance(s, WriteRows)), None)

    @property
    def outbox_at(self) -> int:
        """Where the panels (or rows) lie through which the result goes to memory; aligned to 1024 bytes as slots are."""
        return self.slots * self.slot_bytes

    @property
    def maps(self) -> tuple[TensorMap, ...]:
        sent = (self.sent.map,) if self.sent is not None and self.sent.map is not None else ()
        return (*(f.map for f in self.feeds), *sent)

    @property
    def dynamic_bytes(self) -> int:
        return self.barriers_at + 2 * self.slots * 8

    @property
    def dots(self) -> tuple[p.Dot, ...]:
        """One product, or a pair with an operand in common."""
        assert self.loop is not None
        return tuple(s for s in self.loop.body if isinstance(s, p.Dot))

    @property
    def left(self) -> int:
        """How much of the contracted axis the last step multiplies, in whole products; 0 where it is a step like all
        others, or where that is not known when the text is written."""
        assert self.loop is not None
        end = number(self.loop.end)
        if self.loop.begin != ZERO or end is None:
            return 0
        depth = PRODUCT_BYTES // DTYPES[self.dots[0].element].bytes
        left = -(-(end % self.loop.step) // depth) * depth
        return left % self.loop.step

    @property
    def roles(self) -> list[str]:
        return [f"consumers: {self.warps} warps; producer: one thread of {WARPGROUP // 32} warps"]

    @property
    def parts(self) -> dict[str, tuple[p.Statement, ...]]:
        """Who does what for each tile."""
        return {"producer": self.producer, "consumers": self.consumers}

    def __str__(self) -> str:
        params = ", ".join(f"{q.name}: {q.dtype}{'' if q.role != 'array' else '*'}" for q in self.params)
        down, across = self.cluster
        head = [
            f"kernel {self.name}({params})",
            f"    products by {self.products}",
            f"    blocks {self.blocks}, in clusters of {down} below each other x {across} side by side",
            f"    tiles {self.rows} x {self.cols} x {self.batches}, one after the other, in bands {self.band} clusters high",
            *(f"    {x}" for x in self.roles),
            f"    slots {self.slots} of {self.slot_bytes} bytes, each with a barrier for what arrives and one for its readers",
            *(f"    layout {x}" for x in self.layouts),
            *(f"    {x}" for x in self.shared),
            *(f"    map {m.name}: {m.array} [{', '.join(map(str, m.shape))}]" for m in self.maps),
        ]
        parts = [x for who, does in self.parts.items() for x in (f"    {who}, for each tile", *_indent([*map(str, does)]))]
        return "\n".join([*head, *parts]) + "\n"


def _indent(lines: list[str]) -> list[str]:
    return ["        " + part for line in lines for part in line.split("\n")]
