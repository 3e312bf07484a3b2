"""The plan of attention as a walk along the keys with scores, weights and sums in tensor memory."""

from __future__ import annotations

from dataclasses import replace

from portakern.emit.clike import plan as p
from portakern.emit.clike.terms import Name, add, multiply, whole

from ..hopper.plan import PANEL_SIDE, SendTile
from .plan import JoinRows, Rescale, WalkSteps
from .planning import Walk, need
from .tensor_plan import COLUMNS, MOST_TAKEN, RescaleSum, TensorWalkPlan


class TensorWalk(Walk):
    """As on Hopper, but for what is in tensor memory and who starts products."""

    kind = TensorWalkPlan
    unit, rows_of_a_warp, panel_rows = "tcgen05", 32, 128
    products = "tcgen05.mma.m128nNk16 (scores, weights and sums in tensor memory)"

    @property
    def lags(self) -> bool:
        """Sums in tensor memory are scaled where they have to."""
        return True

    def plan(self) -> TensorWalkPlan:
        made = super().plan()
        assert isinstance(made, TensorWalkPlan)
        features, keys = self.features, self.keys
        slots = 2 if made.groups == 1 and 2 * keys + features <= COLUMNS else 1
        need(made.groups * (slots * keys + features) <= COLUMNS, "its scores and sums have no room in tensor memory")
        begun = made.may_be_empty  # the sum is that of no step then
        before = tuple(s for s in made.before if begun or not (isinstance(s, p.Fill) and s.name == made.acc))
        made = replace(made, before=before, parts=tuple(map(_in_tensor_memory, made.parts)), slots=slots,
                       sum_layout=self.held.name)  # fmt: skip
        return made if features <= MOST_TAKEN else self._in_parts(made)

    def _in_parts(self, made: TensorWalkPlan) -> TensorWalkPlan:
        """``made`` with its sum taken in parts, each of which takes few enough registers."""
        cols = next(n for n in (MOST_TAKEN, PANEL_SIDE) if self.features % n == 0)
        sent = [s for s in made.after if isinstance(s, SendTile)]
        alone = all(isinstance(s, (p.Map, p.Relayout, JoinRows, SendTile)) for s in made.after)
        need(sent and alone and not made.may_be_empty, f"its sums of {self.features} features have no room in registers")
        part = self.names.fresh("part")
        moved = multiply(Name(part), whole(cols))
        after = tuple(replace(s, at=(s.at[0], add(s.at[1], moved), *s.at[2:])) if isinstance(s, SendTile) else s
                      for s in made.after)  # fmt: skip
        split = p.relaid(replace(made, after=after), {self.held: replace(self.held, cols=cols)})
        return replace(split, parts_of_sum=self.features // cols, part=part)

    def _check(self, score: p.Dot, total: p.Dot) -> None:
        super()._check(score, total)
        self.keys, self.features = score.place.layout.cols, total.place.layout.cols
        self.held = total.place.layout


def _in_tensor_memory(part: WalkSteps) -> WalkSteps:
    """``part`` with its sum there."""
    rescale = tuple(RescaleSum(s.factor) if isinstance(s, Rescale) else s for s in part.rescale)
    need(any(isinstance(s, RescaleSum) for s in rescale), "its sums are changed otherwise than by a factor of each row")
    return replace(part, settled=(), rescale=rescale)
