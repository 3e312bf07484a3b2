"""The plan of attention that warpgroups walk along the keys."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.backend import TensorMap
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Layout
from portakern.emit.clike.terms import Term
from portakern.ir.size import Size

from ..hopper.plan import PANEL_BYTES, WARPGROUP, Place, SendTile
from ..plans import CudaKernelPlan


@dataclass(frozen=True)
class Ring:
    """An operand that the copy engine brings through ``slots`` slots of shared memory, described by ``map``.

    ``at`` is where its tile begins: row, column, then batches, the innermost first.
    """

    name: str
    shared: p.Shared
    map: TensorMap
    slots: int
    at: tuple[Term, ...]

    @property
    def bytes(self) -> int:
        """Of all slots; elements have 16 bits."""
        return self.slots * self.shared.rows * self.shared.cols * 2

    @property
    def barrier_bytes(self) -> int:
        return 2 * self.slots * 8

    def __str__(self) -> str:
        box = " x ".join(map(str, self.map.box))
        at = ", ".join(map(str, self.at))
        return f"ring {self.name}: {self.slots} slots, from {self.map.array} at ({at}) by boxes of {box}"


@dataclass(frozen=True)
class JoinRows(p.Statement):
    """The threads of a row, each with the sum of its own columns in the variable ``name``, take the sum of all."""

    NAMES = ("name",)

    name: str
    layout: Layout

    def __str__(self) -> str:
        return f"{self.name} = join(sum, {self.name}) along rows of {self.layout.name}"


@dataclass(frozen=True)
class Steps:
    """A part of the walk.  ``bounds`` is computed before it begins.  ``soften`` makes weights of scores; ``rescale`` follows
    once the product of the weights before is complete; ``pack`` names the f32 tile that becomes the weights; ``hand_over``
    closes the step.  ``most`` is how many steps it can have at most (0: many), ``empty`` whether it may have none."""

    var: str
    begin: Term
    end: Term
    step: int
    bounds: tuple[p.Statement, ...]
    soften: tuple[p.Statement, ...]
    rescale: tuple[p.Statement, ...]
    pack: str
    hand_over: tuple[p.Statement, ...]
    most: int = 0
    empty: bool = False


@dataclass(frozen=True)
class WalkPlan(CudaKernelPlan):
    """``threads`` and ``warps`` are the consumers'; a warpgroup more produces.

    Blocks of ``rows`` in each of ``heads`` are taken by ``blocks`` blocks of threads, ``group`` heads at a time, the last rows
    first where they walk farthest (``last_first``).
    """

    group: int = 1
    last_first: bool = False
    rows: Size = 1
    heads: Size = 1
    places: tuple[Place, ...] = ()
    query: Ring | None = None
    keys: Ring | None = None
    values: Ring | None = None
    score_layout: str = ""
    element: str = ""
    scores: str = "scores"
    weights: str = "weights"
    acc: str = "acc"
    key_transposed: bool = True
    value_transposed: bool = False
    before: tuple[p.Statement, ...] = ()
    parts: tuple[Steps, ...] = ()
    after: tuple[p.Statement, ...] = ()

    def scopes(self) -> tuple[p.Scope, ...]:
        """The consumers' walk: its parts see what comes before them, nothing of each other, and what products make."""
        around = (*self.before, *(s for part in self.parts for s in part.bounds))
        given = frozenset({self.scores, self.weights, *(x.name for x in self.places)})
        known = given.union(*map(p.made, around))
        parts = (p.Scope((*x.soften, *x.rescale, *x.hand_over), known | {x.var, x.pack}) for x in self.parts)
        return (p.Scope(around, given), *parts, p.Scope(self.after, known))

    @property
    def block(self) -> int:
        return self.threads + WARPGROUP

    @property
    def rings(self) -> tuple[Ring, ...]:
        return tuple(r for r in (self.query, self.keys, self.values) if r is not None)

    @property
    def sent(self) -> SendTile | None:
        return next((s for s in self.after if isinstance(s, SendTile)), None)

    @property
    def outbox_at(self) -> int:
        return sum(r.bytes for r in self.rings)

    @property
    def barriers_at(self) -> int:
        panels = 0 if self.sent is None else self.threads // WARPGROUP * self.sent.panels
        return self.outbox_at + panels * PANEL_BYTES

    @property
    def dynamic_bytes(self) -> int:
        return self.barriers_at + sum(r.barrier_bytes for r in self.rings)

    @property
    def maps(self) -> tuple[TensorMap, ...]:
        sent = (self.sent.map,) if self.sent is not None and self.sent.map is not None else ()
        return (*(r.map for r in self.rings), *sent)

    def __str__(self) -> str:
        params = ", ".join(f"{q.name}: {q.dtype}{'' if q.role != 'array' else '*'}" for q in self.params)
        order = "the last rows first" if self.last_first else "the first rows first"
        assert self.keys is not None and self.values is not None
        lines = [
            f"kernel {self.name}({params})",
            f"    products by {self.products}",
            f"    blocks {self.blocks}, each for one block of rows after the other: {self.rows} in each of {self.heads} heads",
            f"    {self.group} heads at a time, {order}",
            f"    consumers: {self.warps} warps; producer: one thread of {WARPGROUP // 32} warps",
            *(f"    layout {x}" for x in self.layouts),
            *(f"    {x}" for x in self.rings),
            *(f"    map {m.name}: {m.array} [{', '.join(map(str, m.shape))}]" for m in self.maps),
            *(f"    {x.name} = {x.value}" for x in self.places),
            "    producer, for each block of rows: the query, then keys and values of each step as their slots become empty",
            "    consumers, for each block of rows",
            *(f"        {s}" for s in self.before),
        ]
        for part in self.parts:
            lines += [
                *(f"        {s}" for s in part.bounds),
                f"        for each {part.var} from {part.begin} below {part.end} by {part.step}"
                + (" (one step)" if part.most == 1 else ""),
                f"            start {self.scores} = query x keys, and {self.acc} += {self.weights} x values of the step before",
                f"            complete {self.scores}, give the keys back",
                *(f"            {s}" for s in part.soften),
                f"            complete {self.acc}, give the values back",
                *(f"            {s}" for s in part.rescale),
                f"            {self.weights} = pack({part.pack})",
                *(f"            {s}" for s in part.hand_over),
            ]
        lines.append(f"        start {self.acc} += {self.weights} x values of the last step")
        lines += [f"        complete {self.acc}, give query and values back", *(f"        {s}" for s in self.after)]
        return "\n".join(lines) + "\n"
