"""The plan of a product whose sums are in tensor memory: a producer, an issuer, and consumers of what is complete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Place
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, whole

from ..hopper.plan import PIPE, PipelinePlan
from ..under_way import Take


@dataclass(frozen=True)
class BeginSum(p.Statement):
    """The issuer waits until the sum that was in the same place has been taken."""

    def __str__(self) -> str:
        return "begin a sum, once the one that was there has been taken"


@dataclass(frozen=True)
class Multiply(p.Statement):
    """The issuer starts the sum += ``a`` x ``b``, ``deep`` of the contracted axis (0: all), after which the slot goes back."""

    a: p.Operand
    b: p.Operand
    deep: int = 0

    def __str__(self) -> str:
        deep = f", {self.deep} deep" if self.deep else ""
        return f"start sum += {self.a} x {self.b}{deep}; when complete, give the slot back"


@dataclass(frozen=True)
class CommitSum(p.Statement):
    def __str__(self) -> str:
        return "when complete, tell that the sum is"


@dataclass(frozen=True)
class TakeSum(p.Statement):
    """Consumers wait for the next sum, and have it, or the ``part`` of it of that number, as ``name``.  ``begin`` and ``end``
    are those of a loop that may have no step: then it is zero."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    place: Place
    begin: PlanTerm | None = None
    end: PlanTerm | None = None
    part: PlanTerm = ZERO

    def __str__(self) -> str:
        empty = f", or zeros unless {self.begin} < {self.end}" if self.begin is not None else ""
        part = f", its columns number {self.part}" if self.part != ZERO else ""
        return f"{self.name}: {self.place} = the next sum{part}{empty}"


@dataclass(frozen=True)
class TensorPlan(PipelinePlan):
    """``before`` makes no accumulator: sums begin in tensor memory.  ``may_be_empty``: the loop may have no step.

    ``parts_of_sum`` is how many parts side by side consumers take of a sum, one after the other, so that their registers do;
    ``part`` names their number, ``places_of_part`` are the places of a tile with that part's columns, and ``taken_as`` is
    where a part is.  ``layouts``, ``before`` and ``after`` are those of a part."""

    may_be_empty: bool = False
    parts_of_sum: int = 1
    part: str = ""
    places_of_part: tuple[p.Scalar, ...] = ()
    taken_as: Place | None = None

    @property
    def dot(self) -> p.Dot:
        """The product; pairs are none of tensor memory."""
        (only,) = self.dots
        return only

    def scopes(self) -> tuple[p.Scope, ...]:
        return p.Scope(self.producer), p.Scope(self.issuer), p.Scope(self.consumers)

    @property
    def issuer(self) -> tuple[p.Statement, ...]:
        """What the issuer does for each tile."""
        steps = self._inside(self._steps)
        return *p.used((*self.places, *self.limits), steps), BeginSum(), *steps, CommitSum()

    @cached_property
    def consumers(self) -> tuple[p.Statement, ...]:
        """What consumers do for each tile; loads that do not depend on the product are under way while it is made."""
        assert self.loop is not None
        early = self._early
        late = [s for s in self.after if s not in early]
        limits = (self.loop.begin, self.loop.end) if self.may_be_empty else (None, None)
        assert self.taken_as is not None
        number = Name(self.part) if self.part else ZERO
        rest = [*early, TakeSum(self.dot.acc, self.taken_as, *limits, number), *late]
        body = (*p.used((*self.places_of_part, *self.before), rest), *rest)
        return (p.Loop(self.part, ZERO, whole(self.parts_of_sum), 1, body),) if self.part else body

    def _step(self, deep: int = 0) -> tuple[p.Statement, ...]:
        return Take(self.dot.a.slot, PIPE), Multiply(self.dot.a, self.dot.b, deep)

    @property
    def block(self) -> int:
        """With a warp each for producer and issuer, which leaves consumers registers enough."""
        return self.threads + 2 * 32

    @property
    def dynamic_bytes(self) -> int:
        """With the barriers of two sums, and where these are."""
        return super().dynamic_bytes + 2 * 2 * 8 + 8

    @property
    def columns(self) -> int:
        """Of tensor memory: a power of two."""
        return max(32, 1 << (2 * self.dot.place.layout.cols - 1).bit_length())

    @property
    def roles(self) -> list[str]:
        return [f"consumers: {self.warps} warps; producer and issuer: one thread each of a warp",
                f"tensor memory: {self.columns} columns, for two sums"]  # fmt: skip

    @property
    def parts(self) -> dict[str, tuple[p.Statement, ...]]:
        return {"producer": self.producer, "issuer": self.issuer, "consumers": self.consumers}
