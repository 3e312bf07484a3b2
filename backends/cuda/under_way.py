"""Products that the matrix unit computes by itself, and what has to wait for them.

A product is started, and the threads go on.  Until it is complete nobody may touch its result or change what it reads from
registers, and only then may slots of shared memory that it reads be filled anew.  A plan says what is computed in which order;
:func:`ordered` puts the waits, and where slots are given back, as late as they may stand:

    start scores = query x keys, acc += weights x values     both under way
    complete<1>(scores), give the keys back                  because the next statement reads the scores
    soften the scores                                        the second product goes on
    complete<0>(acc, weights), give the values back          because the next statement changes acc

So no plan can leave one out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portakern.emit.clike import plan as p
from portakern.errors import IRError


@dataclass(frozen=True)
class Feed:
    """What brings an operand to slots of shared memory and takes them back.  ``counts``: it keeps account of the products by
    itself, and is told of every step (pk::Pipeline)."""

    name: str
    counts: bool = False


@dataclass(frozen=True)
class Fed:
    """The next tile of ``feed``, as an operand."""

    feed: Feed
    transposed: bool = False

    def __str__(self) -> str:
        return f"transposed(next of {self.feed.name})" if self.transposed else f"next of {self.feed.name}"


@dataclass(frozen=True)
class AsyncProduct(p.Statement):
    """``acc`` += ``left`` x ``right``, or = where it is made ``anew``; ``registers`` names operands that are in registers,
    ``feeds`` whose slots it holds until it is complete.  ``deep`` is how much of the contracted axis it sums (0: all)."""

    NAMES = ("acc",)

    acc: str
    left: p.Operand | Fed
    right: p.Operand | Fed
    feeds: tuple[Feed, ...]
    registers: tuple[str, ...] = ()
    anew: bool = False
    deep: int = 0
    note: str = ""

    @property
    def holds(self) -> frozenset[str]:
        """Names that nobody may touch before it is complete: its result, and what it reads but slots of a feed that counts."""
        operands = (x for x in (self.left, self.right) if isinstance(x, p.Operand) and x.shared is None)
        return frozenset({self.acc, *(x.name for x in operands)})

    def __str__(self) -> str:
        deep = f", {self.deep} deep" if self.deep else ""
        return f"{self.acc} {'=' if self.anew else '+='} {self.left} x {self.right}{deep}"


@dataclass(frozen=True)
class StartProducts(p.Statement):
    """Sets products going, one after the other; ``in_turn``: while the other warpgroup starts none."""

    products: tuple[AsyncProduct, ...]
    in_turn: bool = False

    def __str__(self) -> str:
        return f"start {', '.join(map(str, self.products))}{', in turn' if self.in_turn else ''}"


@dataclass(frozen=True)
class Take(p.Statement):
    """Waits for the next tile of ``feed``, and holds it as ``name``: until its last use, or where it is ``kept`` until a
    product that names ``feed`` is complete."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    feed: Feed
    kept: bool = False

    def __str__(self) -> str:
        return f"{self.name} = next of {self.feed.name}"


@dataclass(frozen=True)
class Complete(p.Statement):
    """Waits until at most ``under_way`` products are not complete; ``tiles`` may be touched then."""

    under_way: int
    tiles: tuple[str, ...]

    def __str__(self) -> str:
        return f"complete {', '.join(self.tiles)}; {self.under_way or 'none'} under way"


@dataclass(frozen=True)
class Give(p.Statement):
    """Slots back to ``feed``: the one that is held, or of a feed that counts by itself the one of the step before,
    since which as many products were ``started``."""

    feed: Feed
    previous: bool = False
    started: int = 1

    def __str__(self) -> str:
        return f"give {self.feed.name} {'the slot of the step before' if self.previous else 'its slot'} back"


# ---- the order ----------------------------------------------------------------------------------------------------------

UnderWay = tuple[AsyncProduct, ...]
"""Products that were started, the oldest first."""


def ordered(body: Sequence[p.Statement]) -> tuple[p.Statement, ...]:
    """``body``, which waits for no product yet, with what its products need."""
    made, under_way = _ordered(body, ())
    return (*made, *_completed(under_way, 0))


def _ordered(body: Sequence[p.Statement], under_way: UnderWay) -> tuple[list[p.Statement], UnderWay]:
    """``body`` with its waits where ``under_way`` were started before, the oldest first; and those that are at its end."""
    made: list[p.Statement] = []
    for n, s in enumerate(body):
        if isinstance(s, StartProducts):
            returned, under_way = _started(s, under_way)
            made += [s, *returned]
        elif isinstance(s, p.Loop | p.Block) and any(isinstance(x, StartProducts) for x in p.statements([s])):
            before, s, under_way = _around(s, under_way)
            made += [*before, s]
        else:
            waits, under_way = _waiting(under_way, _touched(s))
            made += [*waits, s]
        for take in (x for x in body[:n] if isinstance(x, Take) and not (x.kept or x.feed.counts) and _last_use(x, body) == n):
            waits, under_way = _waiting(under_way, frozenset({take.name}))
            made += [*waits, Give(take.feed)]
    return made, under_way


def _started(s: StartProducts, under_way: UnderWay) -> tuple[list[p.Statement], UnderWay]:
    """What follows ``s``: slots of older products go back once newer ones of the same feeds are under way."""
    feeds = tuple(dict.fromkeys(f for x in s.products for f in x.feeds))
    if counting := [f for f in feeds if f.counts]:
        return [Give(f, True, len(s.products)) for f in counting], s.products
    older = [n for n, x in enumerate(under_way) if set(x.feeds) & set(feeds)]
    done = older[-1] + 1 if older else 0
    left = (*under_way[done:], *s.products)
    return _completed(under_way[:done], len(left)), left


def _around(s: p.Loop | p.Block, under_way: UnderWay) -> tuple[list[p.Statement], p.Statement, UnderWay]:
    """What stands before a block that starts products, the block, and what is under way behind it."""
    if isinstance(s, p.Block) and s.when is not None:  # none may be under way behind it only sometimes
        body, left = _ordered(s.body, ())
        return _completed(under_way, 0), replace(s, body=(*body, *_completed(left, 0))), ()
    if isinstance(s, p.Block):
        body, left = _ordered(s.body, under_way)
        return [], replace(s, body=tuple(body)), left
    if under_way and all(f.counts for x in under_way for f in x.feeds):
        first, left = _ordered(s.body, under_way)
        if _ordered(s.body, left) == (first, left):  # its steps go on from what is under way as from each other
            return [], replace(s, body=tuple(first)), left
    before = _completed(under_way, 0)
    first, left = _ordered(s.body, ())
    body, beyond = _ordered(s.body, left)
    if beyond != left or (body != first and not all(x.feed.counts for x in body if isinstance(x, Give))):
        raise IRError(f"the first step of `{str(s).splitlines()[0]}` waits for other products than the next ones",
                      hint="this is a fault of the emitter, not of the operator; please report it")
    return before, replace(s, body=tuple(body)), beyond


def _waiting(under_way: UnderWay, names: frozenset[str]) -> tuple[list[p.Statement], UnderWay]:
    """What must stand before a statement that touches ``names``, and what is under way then."""
    awaited = [n for n, x in enumerate(under_way) if x.holds & names]
    done = awaited[-1] + 1 if awaited else 0
    return _completed(under_way[:done], len(under_way) - done), under_way[done:]


def _completed(products: Sequence[AsyncProduct], left: int) -> list[p.Statement]:
    """Waits for ``products`` while ``left`` newer ones go on, and gives their slots back."""
    if not products:
        return []
    feeds = dict.fromkeys(f for x in products for f in x.feeds)
    given: list[p.Statement] = [Give(f) for f in feeds]
    if feeds and all(f.counts for f in feeds):
        return given
    tiles = dict.fromkeys(name for x in products for name in (x.acc, *x.registers))
    return [Complete(left, tuple(tiles)), *given]


def _touched(s: p.Statement) -> frozenset[str]:
    """Names that ``s``, or what is in it, reads or gives a value to."""
    inside = [s, *(p.statements(s.body) if isinstance(s, p.Loop | p.Block) else ())]
    return p.reads(*inside) | {getattr(x, f) for x in inside for f in x.NAMES}


def _last_use(take: Take, body: Sequence[p.Statement]) -> int:
    return max((n for n, s in enumerate(body) if take.name in _touched(s) and s is not take), default=len(body) - 1)
