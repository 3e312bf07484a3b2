"""The plan of a walk along the keys on Blackwell: a producer, an issuer of products, and warpgroups that make weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from portakern.emit.clike import plan as p
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, whole

from ..hopper.plan import WARPGROUP
from .plan import WalkPlan, WalkSteps

COLUMNS = 512
"""Of tensor memory, of 32 bits (PTX ISA, "Tensor Memory")."""

MOST_TAKEN = 128
"""Columns of a sum that a thread takes at a time, a register each."""


@dataclass(frozen=True)
class IssueFirst(p.Statement):
    """The issuer starts the scores of the first step."""

    query: str
    keys: str

    def __str__(self) -> str:
        return f"start scores = next of {self.query} x next of {self.keys}"


@dataclass(frozen=True)
class IssueStep(p.Statement):
    """The issuer starts the sum of what the step before weighs, and the scores of this one."""

    query: str
    keys: str
    values: str

    def __str__(self) -> str:
        return f"start sum += weights of the step before x next of {self.values}, scores = query x next of {self.keys}"


@dataclass(frozen=True)
class IssueLast(p.Statement):
    """The issuer starts the last sum."""

    query: str
    values: str

    def __str__(self) -> str:
        return f"start sum += weights x next of {self.values}; give {self.query} back"


@dataclass(frozen=True)
class TakeScores(p.Statement):
    """Consumers wait for the next scores, and have them in registers."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str

    def __str__(self) -> str:
        return f"{self.name} = the next scores"


@dataclass(frozen=True)
class RescaleSum(p.Statement):
    """The sum in tensor memory times ``factor`` of each row, which is 1 for all rows of a warp more often than not."""

    factor: PlanTerm

    def __str__(self) -> str:
        return f"sum *= {self.factor}, where it is not 1"


@dataclass(frozen=True)
class Weigh(p.Statement):
    """The weights ``value`` go to where the scores were, in 16 bits, for the issuer to go on."""

    element: str
    value: PlanTerm

    def __str__(self) -> str:
        return f"weights = pack({self.value}), in the place of the scores"


@dataclass(frozen=True)
class TakeTotal(p.Statement):
    """Consumers wait for the sum of all steps, and have it, or the ``part`` of it of that number, as ``name``."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    define: bool = True
    part: PlanTerm = ZERO

    def __str__(self) -> str:
        return f"{self.name} = the sum" if self.part == ZERO else f"{self.name} = the sum, its columns number {self.part}"


@dataclass(frozen=True)
class TensorWalkPlan(WalkPlan):
    """``before`` makes no sum, which begins in tensor memory, unless the walk may have no step.  Each warpgroup has ``slots``
    places for scores.  A sum is taken in ``parts_of_sum``, one after the other, the number of which is ``part``; what follows
    does so for each."""

    sum_layout: str = ""
    slots: int = 1
    parts_of_sum: int = 1
    part: str = ""

    def scopes(self) -> tuple[p.Scope, ...]:
        return p.Scope(self.producer), p.Scope(self.issuer), p.Scope(self.consumers)

    @property
    def issuer(self) -> tuple[p.Statement, ...]:
        """What the issuer does for each block of rows: as many steps as the consumers."""
        query, keys, values = (r.name for r in self.rings)
        step = IssueStep(query, keys, values)
        walks = [self._loop(n, step) for n, part in enumerate(self.parts) if part.most != 1]
        body = self._if_any(IssueFirst(query, keys), *walks, IssueLast(query, values))
        before = (*self.places, *(s for s in self.before if isinstance(s, p.Scalar)), *self._bounds)
        return *p.used(before, body), *body

    @cached_property
    def consumers(self) -> tuple[p.Statement, ...]:
        """What consumers do for each block of rows."""
        rest = [self._other_steps(n) for n, part in enumerate(self.parts) if part.most != 1]
        before = (*self.places, *self.before, *self._bounds)
        if self.part:
            return *before, self._first_step(), *rest, *self._by_parts()
        total = TakeTotal(self.acc, define=self._condition is None)
        return *before, *self._if_any(self._first_step(), *rest, total), *self.after

    def _by_parts(self) -> tuple[p.Statement, ...]:
        """What follows the walk: what does not depend on the sum, then the rest for each part of it."""
        late, of_sum = list[p.Statement](), {self.acc}
        for s in self.after:
            if of_sum & p.reads(s):
                late.append(s)
                of_sum |= p.made(s)
        early = [s for s in self.after if s not in late]
        body = (TakeTotal(self.acc, part=Name(self.part)), *late)
        return *early, p.Loop(self.part, ZERO, whole(self.parts_of_sum), 1, body)

    @property
    def _bounds(self) -> tuple[p.Statement, ...]:
        return tuple(s for part in self.parts for s in part.bounds)

    def _first_step(self) -> p.Block:
        part = self.parts[0]
        take = TakeScores(self.scores)
        return p.Block((self._first(), take, *part.soften, self._weigh(part), *part.hand_over), "the first step")

    def _other_steps(self, number: int) -> p.Loop:
        part = self.parts[number]
        return self._loop(number, TakeScores(self.scores), *part.soften, *part.rescale, self._weigh(part), *part.hand_over)

    def _weigh(self, part: WalkSteps) -> Weigh:
        return Weigh(self.element, Name(part.pack))

    @property
    def groups(self) -> int:
        """Warpgroups of consumers."""
        return self.threads // WARPGROUP

    @property
    def walk_at(self) -> int:
        """Where the barriers of tensor memory are, and its address behind them."""
        return super().dynamic_bytes

    @property
    def dynamic_bytes(self) -> int:
        return self.walk_at + 3 * self.groups * self.slots * 8 + 8

    @property
    def roles(self) -> list[str]:
        places = "one place" if self.slots == 1 else f"{self.slots} places"
        return [f"consumers: {self.warps} warps; producer and issuer: one thread each of a warp",
                f"tensor memory: {places} for scores, and one for the sum, of each of {self.groups} warpgroups"]  # fmt: skip

    @property
    def by_role(self) -> dict[str, tuple[p.Statement, ...]]:
        return {"producer": self.producer, "issuer": self.issuer, "consumers": self.consumers}
