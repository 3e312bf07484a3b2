"""The plan of attention that warpgroups walk along the keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from portakern.backend import TensorMap
from portakern.emit.clike import plan as p
from portakern.emit.clike.expressions import COMPARE, SELECT
from portakern.emit.clike.layouts import Layout
from portakern.emit.clike.terms import Name, PlanTerm, add, apply, whole
from portakern.ir.size import Size

from ..hopper.plan import WARPGROUP, SendTile
from ..plans import CudaKernelPlan
from ..under_way import AsyncProduct, Fed, Feed, StartProducts, Take, ordered
from .pages import Pages

_QUERY = "query"


@dataclass(frozen=True)
class Ring(p.StatementPart):
    """An operand that the copy engine brings through ``slots`` slots of shared memory, described by ``map``.

    ``at`` is where its tile begins: row, column, then batches, the innermost first; ``pages`` where its rows lie in some.
    """

    UNREAD = ("shared",)

    name: str
    shared: p.Shared
    map: TensorMap
    slots: int
    at: tuple[PlanTerm, ...]
    pages: Pages | None = None

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
        pages = f", {self.pages}" if self.pages else ""
        return f"ring {self.name}: {self.slots} slots, from {self.map.array} at ({at}) by boxes of {box}{pages}"


@dataclass(frozen=True)
class Fetch(p.Statement):
    """The producer sets the next tile of ``ring`` going, once there is room; one lane of a warp does so where ``alone``."""

    ring: Ring
    alone: bool = False

    def __str__(self) -> str:
        return f"fetch the next tile of {self.ring.name}"


@dataclass(frozen=True)
class JoinRows(p.Statement):
    """The threads of a row, each with the sum of its own columns in the variable ``name``, take the sum of all."""

    NAMES = ("name",)

    name: str
    layout: Layout

    def __str__(self) -> str:
        return f"{self.name} = join(sum, {self.name}) along rows of {self.layout.name}"


@dataclass(frozen=True)
class Rescale(p.Statement):
    """The tile ``name`` times ``factor`` of each row, which is 1 for all rows of a warp more often than not."""

    NAMES = ("name",)

    name: str
    factor: PlanTerm

    def __str__(self) -> str:
        return f"{self.name} *= {self.factor}, where it is not 1"


@dataclass(frozen=True)
class ComputedHere(p.Statement):
    """The sums of rows ``value``, and what they are sums of, are computed before the products behind this are waited for."""

    value: PlanTerm

    def __str__(self) -> str:
        return f"{self.value} is computed here"


@dataclass(frozen=True)
class Pack(p.Statement):
    """The weights of a step as a left operand in registers: the f32 tile ``value`` in 16 bits."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    element: str
    value: PlanTerm
    define: bool = False

    def __str__(self) -> str:
        return f"{self.name} = pack({self.value})"


@dataclass(frozen=True)
class WalkSteps(p.StatementPart):
    """A part of the walk.  ``bounds`` is computed before it begins.  ``soften`` makes weights of scores, all of which are there
    with ``settled``; ``rescale`` follows once the product of the weights before is complete; ``pack`` names the f32 tile that
    becomes the weights; ``hand_over`` closes the step.  ``most`` is how many steps it can have at most (0: many), ``empty``
    whether it may have none."""

    var: str
    begin: PlanTerm
    end: PlanTerm
    step: int
    bounds: tuple[p.Statement, ...]
    soften: tuple[p.Statement, ...]
    settled: tuple[p.Statement, ...]
    rescale: tuple[p.Statement, ...]
    pack: str
    hand_over: tuple[p.Statement, ...]
    most: int = 0
    empty: bool = False


@dataclass(frozen=True)
class WalkPlan(CudaKernelPlan):
    """``threads`` and ``warps`` are the consumers'; a warpgroup more produces.

    Blocks of ``rows`` in each of ``heads`` are taken by ``blocks`` blocks of threads, ``group`` heads at a time; where the last
    rows walk farthest (``last_first``) head after head, such that all blocks of threads have as much to do.
    """

    group: int = 1
    last_first: bool = False
    rows: Size = 1
    heads: Size = 1
    places: tuple[p.Scalar, ...] = ()
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
    parts: tuple[WalkSteps, ...] = ()
    after: tuple[p.Statement, ...] = ()

    def scopes(self) -> tuple[p.Scope, ...]:
        return p.Scope(self.producer), p.Scope(self.consumers, frozenset({self.scores, self.weights}))

    @property
    def producer(self) -> tuple[p.Statement, ...]:
        """What the producer does for each block of rows."""
        assert self.query is not None and self.keys is not None and self.values is not None
        query, *fetched = (Fetch(r, alone=self.by_pages and r.pages is None) for r in (self.query, self.keys, self.values))
        walks = [p.Loop(x.var, x.begin, x.end, x.step, tuple(fetched)) for x in self.parts]
        before = (*self.places, *(s for s in self.before if isinstance(s, p.Scalar)))
        if self._condition is not None:
            return *before, *self.parts[0].bounds, *self._if_any(query, *walks)
        steps = (s for x, walk in zip(self.parts, walks, strict=True) for s in (*x.bounds, walk))
        return *before, query, *steps

    @cached_property
    def consumers(self) -> tuple[p.Statement, ...]:
        """What consumers do for each block of rows.  They compute the weights of one step while the matrix unit sums what
        those of the step before weigh."""
        assert self.query is not None
        rest = [self._other_steps(n) for n, part in enumerate(self.parts) if part.most != 1]
        walk = Take(_QUERY, Feed(self.query.name)), self._start(self._scores), self._first_step(), *rest, self._start(self._sum)
        bounds = (s for part in self.parts for s in part.bounds)
        return ordered([*self.places, *self.before, *bounds, *self._if_any(*walk), *self.after])

    @property
    def may_be_empty(self) -> bool:
        """Whether it may have no step."""
        return self._condition is not None

    @property
    def _condition(self) -> PlanTerm | None:
        """Under which the walk has a step, if it may have none: keys beyond a length, or the last part of few."""
        part = self.parts[0]
        return apply(COMPARE["lt"], part.begin, part.end, fn="lt") if len(self.parts) == 1 and part.empty else None

    def _if_any(self, *walk: p.Statement) -> tuple[p.Statement, ...]:
        """``walk``, which needs a step, where it has one."""
        when = self._condition
        return walk if when is None else (p.Block(walk, "there are keys to walk", when),)

    def _start(self, *products: AsyncProduct) -> StartProducts:
        return StartProducts(products, in_turn=self.threads // WARPGROUP == 2)

    @property
    def _scores(self) -> AsyncProduct:
        assert self.keys is not None
        keys = Feed(self.keys.name)
        return AsyncProduct(self.scores, p.Operand(_QUERY), Fed(keys, self.key_transposed), (keys,), anew=True)

    @property
    def _sum(self) -> AsyncProduct:
        assert self.values is not None
        values = Feed(self.values.name)
        return AsyncProduct(self.acc, p.Operand(self.weights), Fed(values, self.value_transposed), (values,), (self.weights,))

    def _first_step(self) -> p.Block:
        """Weights of the first step, for which the widest mask will do."""
        part = self.parts[0]
        return p.Block((self._first(), *part.soften, self._pack(part), *part.hand_over), "the first step")

    def _first(self) -> p.Scalar:
        """Where the first step is."""
        part = self.parts[0]
        begin = _either(part, part.begin, self.parts[1].begin) if part.empty and len(self.parts) > 1 else part.begin
        return p.Scalar(part.var, "i64", begin)

    def _other_steps(self, number: int) -> p.Loop:
        """Steps of a part after the walk's first: weights are computed while the products that were started are under way."""
        part = self.parts[number]
        started = self._start(self._scores, replace(self._sum, note="of the step before"))
        return self._loop(number, started, *part.soften, *part.settled, *part.rescale, self._pack(part), *part.hand_over)

    def _loop(self, number: int, *body: p.Statement) -> p.Loop:
        """``body`` for each step of a part but the walk's first."""
        part, first = self.parts[number], self.parts[0]
        begin = part.begin if number else add(part.begin, whole(part.step))
        if number and first.empty:
            begin = _either(first, part.begin, add(part.begin, whole(part.step)))
        return p.Loop(part.var, begin, part.end, part.step, body)

    def _pack(self, part: WalkSteps) -> Pack:
        return Pack(self.weights, self.element, Name(part.pack))

    @property
    def block(self) -> int:
        return self.threads + WARPGROUP

    @property
    def rings(self) -> tuple[Ring, ...]:
        return tuple(r for r in (self.query, self.keys, self.values) if r is not None)

    @property
    def by_pages(self) -> bool:
        """Whether a tile is many boxes, which a warp sets going."""
        return any(r.pages is not None for r in self.rings)

    @property
    def sent(self) -> SendTile | None:
        return next((s for s in self.after if isinstance(s, SendTile)), None)

    @property
    def outbox_at(self) -> int:
        return sum(r.bytes for r in self.rings)

    @property
    def barriers_at(self) -> int:
        panels = 0 if self.sent is None else self.threads // WARPGROUP * self.sent.bytes
        return self.outbox_at + panels

    @property
    def dynamic_bytes(self) -> int:
        return self.barriers_at + sum(r.barrier_bytes for r in self.rings)

    @property
    def maps(self) -> tuple[TensorMap, ...]:
        sent = (self.sent.map,) if self.sent is not None and self.sent.map is not None else ()
        return (*(r.map for r in self.rings), *sent)

    @property
    def roles(self) -> list[str]:
        return [f"consumers: {self.warps} warps; producer: one thread of {WARPGROUP // 32} warps"]

    @property
    def by_role(self) -> dict[str, tuple[p.Statement, ...]]:
        return {"producer": self.producer, "consumers": self.consumers}

    def __str__(self) -> str:
        params = ", ".join(f"{q.name}: {q.dtype}{'' if q.role != 'array' else '*'}" for q in self.params)
        order = "the last rows first" if self.last_first else "the first rows first"
        assert self.keys is not None and self.values is not None
        lines = [
            f"kernel {self.name}({params})",
            f"    products by {self.products}",
            f"    blocks {self.blocks}, each for one block of rows after the other: {self.rows} in each of {self.heads} heads",
            f"    {self.group} heads at a time, {order}",
            *(f"    {x}" for x in self.roles),
            *(f"    layout {x}" for x in self.layouts),
            *(f"    {x}" for x in self.rings),
            *(f"    map {m.name}: {m.array} [{', '.join(map(str, m.shape))}]" for m in self.maps),
        ]
        for role, statements in self.by_role.items():
            lines.append(f"    {role}, for each block of rows")
            lines += [f"        {line}" for s in statements for line in str(s).split("\n")]
        return "\n".join(lines) + "\n"


def _either(part: WalkSteps, then: PlanTerm, otherwise: PlanTerm) -> PlanTerm:
    """``then`` where ``part`` has a step."""
    return apply(SELECT, apply(COMPARE["lt"], part.begin, part.end, fn="lt"), then, otherwise, fn="select")
