"""The plan of attention whose waves take turns: what they read and send between products, and what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Layout, Place
from portakern.emit.clike.terms import ZERO, Apply, PlanTerm
from portakern.errors import IRError

SLOTS = 2
_NOWHERE = Layout("", "", 0, 0, ("", ""))


@dataclass(frozen=True)
class KeyStrip:
    """Keys or values on their way to LDS: ``rows`` of them a step, with ``cols`` features of which ``features`` exist.

    ``origin`` is the first element, ``stride`` how far apart neighbours in memory are.  ``copies`` is how many copies a wave
    starts for a step.  ``feed``, ``reader`` and ``part`` name what brings it to LDS, what reads it and what that reads into.
    """

    name: str
    dtype: str
    rows: int
    cols: int
    straight: bool
    origin: PlanTerm
    stride: PlanTerm
    features: PlanTerm
    copies: int
    feed: str
    reader: str
    part: str
    slots: int = SLOTS

    @property
    def slot_bytes(self) -> int:
        return self.rows * self.cols * DTYPES[self.dtype].bytes

    def __str__(self) -> str:
        return (f"strip {self.name}: {self.dtype} [{self.rows}, {self.cols}], XOR-swizzled, {self.slots} slots of "
                f"{self.slot_bytes} bytes; from [{self.origin}] stride {self.stride}, {self.features} features")


@dataclass(frozen=True)
class ReadTurn:
    """What a wave does between two products, while the other wave of its SIMD multiplies: it reads ``reads``, ``ahead`` tiles
    ahead of the one whose values are weighed, and sends ``sends`` on its way, ``farther`` tiles ahead.

    Of copies that no register sees ``wait`` may still be under way behind it, which :func:`in_order` derives."""

    reads: KeyStrip
    ahead: int
    sends: KeyStrip
    farther: int
    wait: int | None = None

    def __str__(self) -> str:
        wait = f"; wait until {self.wait} copies are under way" if self.wait is not None else ""
        return f"read {self.reads.name}, tile + {self.ahead}; send {self.sends.name}, tile + {self.farther}{wait}"


@dataclass(frozen=True)
class LoadQueries(p.Statement):
    """Queries into registers as fragments; ``rows_left`` of them exist, ``stride`` elements apart, with ``features`` each."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    dtype: str
    place: Place
    origin: PlanTerm
    stride: PlanTerm
    rows_left: PlanTerm
    features: PlanTerm

    def __str__(self) -> str:
        return (f"{self.name}: {self.dtype} {self.place} = load queries [{self.origin}] stride {self.stride} "
                f"left {self.rows_left}, {self.features} features")


@dataclass(frozen=True)
class MapByFours(p.Map):
    """A map of a tile in the middle of a walk that asks for numbers of columns: four columns after the other, whose numbers and
    comparisons are in no registers before and after it."""


def by_fours(s: p.Map) -> MapByFours:
    given = {f.name: getattr(s, f.name) for f in fields(s)}
    return MapByFours(**{**given, "args": tuple(x.rewritten(_here) for x in s.args)})


def asks_for_columns(s: p.Statement) -> bool:
    return isinstance(s, p.Map) and s.place.side == "tile" and "col_index" in p.calls(s.args)


def _here(x: PlanTerm) -> PlanTerm:
    return replace(x, template=x.template.replace("col_index", "col_index_here")) if isinstance(x, Apply) else x


def in_order(turns: Sequence[ReadTurn]) -> tuple[ReadTurn, ...]:
    """``turns`` of a step with what they wait for: what the next one reads must have landed in all waves before its barrier.

    Raises :class:`IRError` where a strip overwrites one that not all waves have read: they are one barrier apart, so that must
    have been in an earlier turn.
    """
    return tuple(replace(turn, wait=_under_way(turns, n)) for n, turn in enumerate(turns))


def _under_way(turns: Sequence[ReadTurn], at: int) -> int:
    sends = turns[at]
    gone = sends.farther - SLOTS  # the tile whose slot is overwritten
    read = [n + len(turns) * (gone - x.ahead) for n, x in enumerate(turns) if x.reads is sends.sends]
    if not read or max(read) >= at:
        raise _fault(f"turn {at} overwrites {sends.sends.name} before all waves have read it")
    step, following = divmod(at + 1, len(turns))
    wanted = (turns[following].reads.name, turns[following].ahead + step)
    count = 0
    for back in range(SLOTS * len(turns) + 1):
        step, n = divmod(at - back, len(turns))
        if (turns[n].sends.name, turns[n].farther + step) == wanted:
            return count
        count += turns[n].sends.copies
    raise _fault(f"turn {following} reads {wanted[0]}, which nothing has sent")


def _fault(what: str) -> IRError:
    return IRError(what, hint="this is a fault of the emitter, not of the operator; please report it")


@dataclass(frozen=True)
class AttentionPlan(KernelPlan):
    """``before`` the walk and ``after`` it statements are those of the plain plan, which ``total`` and ``acc`` are handed to.

    The walk takes keys from 0 to below ``end``, of which ``keys`` exist.  ``mask`` makes masked scores of ``scores``, for tiles
    that begin at ``var``; those that begin before ``whole`` need none.  ``direct`` is whether copies pass registers by.
    """

    before: tuple[p.Statement, ...] = ()
    after: tuple[p.Statement, ...] = ()
    strips: tuple[KeyStrip, ...] = ()
    turns: tuple[ReadTurn, ...] = ()
    direct: bool = False
    query: str = ""
    score_layout: Layout = _NOWHERE
    factor: PlanTerm = ZERO
    keys: PlanTerm = ZERO
    end: PlanTerm = ZERO
    whole: PlanTerm | None = None
    mask: tuple[p.Statement, ...] = ()
    var: str = ""
    scores: str = ""
    total: str = ""
    acc: str = ""

    def scopes(self) -> tuple[p.Scope, ...]:
        outer = frozenset().union(*(p.made(s) for s in self.before))
        return (
            p.Scope((*self.before, *self.after), frozenset({self.total})),
            p.Scope(self.mask, outer | {self.var, self.scores}),
        )

    def __str__(self) -> str:
        params = ", ".join(f"{q.name}: {q.dtype}{'' if q.role != 'array' else '*'}" for q in self.params)
        way = "memory to LDS" if self.direct else "memory to registers to LDS"
        lines = [
            f"kernel {self.name}({params})",
            f"    blocks {self.blocks}, warps {self.warps}, threads {self.threads}",
            *(f"    layout {x}" for x in self.layouts),
            *(f"    {x}" for x in self.strips),
            f"    strips go from {way}; waves 4 to 7 are one barrier behind waves 0 to 3",
            *(f"    {line}" for s in self.before for line in str(s).split("\n")),
            f"    walk {self.var} below {self.end} by {self.strips[0].rows}, of {self.keys} keys; 2^({self.factor} x - shift)",
        ]
        if self.mask:
            lines.append("        mask all tiles:" if self.whole is None else f"        mask tiles from {self.whole} on:")
            lines += [f"            {s}" for s in self.mask]
        done = ("scores of the next tile = queries * keys, the weights of this one are finished",
                "sum += weights * values, the weights of the next tile are begun")  # fmt: skip
        for product, turn in zip(done, self.turns, strict=True):
            lines += [f"        multiply: {product}", "        barrier", f"        {turn}", "        barrier"]
        return "\n".join([*lines, *(f"    {line}" for s in self.after for line in str(s).split("\n"))]) + "\n"
