"""The plan of attention as a walk along the keys with scores, weights and sums in tensor memory."""

from __future__ import annotations

from dataclasses import replace

from portakern.emit.clike import plan as p

from .plan import Rescale, WalkSteps
from .planning import Walk, need
from .tensor_plan import COLUMNS, MOST_FEATURES, RescaleSum, TensorWalkPlan


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
        need(features <= MOST_FEATURES, f"its sums of {features} features have no room in registers")
        slots = 2 if made.groups == 1 and 2 * keys + features <= COLUMNS else 1
        need(made.groups * (slots * keys + features) <= COLUMNS, "its scores and sums have no room in tensor memory")
        begun = made._condition is not None  # the sum is that of no step then
        before = tuple(s for s in made.before if begun or not (isinstance(s, p.Fill) and s.name == made.acc))
        return replace(made, before=before, parts=tuple(map(_in_tensor_memory, made.parts)),
                       sum_layout=self.sum_layout, slots=slots)  # fmt: skip

    def _check(self, score: p.Dot, total: p.Dot) -> None:
        super()._check(score, total)
        self.keys, self.features = score.place.layout.cols, total.place.layout.cols
        self.sum_layout = total.place.layout.name


def _in_tensor_memory(part: WalkSteps) -> WalkSteps:
    """``part`` with its sum there."""
    rescale = tuple(RescaleSum(s.factor) if isinstance(s, Rescale) else s for s in part.rescale)
    need(any(isinstance(s, RescaleSum) for s in rescale), "its sums are changed otherwise than by a factor of each row")
    return replace(part, settled=(), rescale=rescale)
