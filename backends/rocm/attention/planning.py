"""Whether attention's waves can take turns, and its plan where they can."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan, Planner, Shared
from portakern.emit.clike import plan as p
from portakern.emit.clike.expressions import constant
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.emit.clike.terms import Apply, Name, PlanTerm, Word, apply, call, is_zero, size_term, whole
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.core import Op, Result

from ..products import product_of
from .plan import AttentionPlan, KeyStrip, LoadQueries, ReadTurn, by_fours, in_order
from .softmax import running_softmax
from .strips import Obstacle, features_of, need

ROWS, KEYS, WAVES = 256, 64, 8
"""Of queries in a block, of keys in a step, and of its waves: 32 rows for each."""
FEATURES = (64, 128)
OPTION = "waves"
_ALONE = (p.Scalar, p.Map, p.Fill, p.LoadTile, p.StoreTile, p.Relayout, LoadQueries)


def attention_in_turns(plan: KernelPlan, planner: Planner, target: Target) -> KernelPlan:
    """``plan`` with waves that take turns where that is possible and not forbidden.

    Raises :class:`ScheduleError` where the schedule asks for it and it cannot be had, or where its tiles were chosen for
    nothing else (``waves=first``): the next schedule is better then.
    """
    kernel = planner.kernel
    asked = str(kernel.schedule.option(OPTION, "auto"))
    if asked == "plain" or (asked == "first" and not _has_its_tiles(kernel)):
        return plan
    try:
        return _Turns(plan, planner, target).plan()
    except Obstacle as obstacle:
        if asked not in ("turns", "first"):
            return plan
        raise ScheduleError(
            f"the waves of {kernel.name} cannot take turns on {target}: {obstacle}",
            hint=f"take waves=plain, or {ROWS} rows and {KEYS} keys by {WAVES} warps, stages=2", schedule=str(kernel.schedule),
        ) from None  # fmt: skip


def _has_its_tiles(kernel: t.Kernel) -> bool:
    schedule, sizes = kernel.schedule, {n for op in tiles_of(kernel.body) if isinstance(op, t.Dot) for _, n in dims_of(op)}
    return (schedule.stages, schedule.warps) == (2, WAVES) and {ROWS, KEYS} <= sizes


class _Turns:
    """Takes the plain plan apart: what surrounds the walk stays, the walk's own statements are one mask and known words."""

    def __init__(self, plan: KernelPlan, planner: Planner, target: Target) -> None:
        self.of, self.planner, self.kernel, self.target = plan, planner, planner.kernel, target
        need(target.device.has("mfma"), f"{target.device.name} has no MFMA")
        need(self.kernel.schedule.stages == 2 and plan.warps == WAVES, f"it has not two stages and {WAVES} warps")
        self.loops = [s for s in plan.body if isinstance(s, p.Loop)]
        walks = [op for op in self.kernel.body.ops if isinstance(op, t.For)]
        need(len(walks) == len(self.loops) in (1, 2), "it is not one walk, or one in two parts")
        steps = [running_softmax(w) for w in walks]
        self.steps = [s for s in steps if s is not None]
        need(len(self.steps) == len(walks), "its weights are not powers of masked products, normalised in the end")
        need(len(walks) == 1 or walks[0].hi is walks[1].lo, "its second part does not begin where the first one ends")
        self.walks, self.step = walks, self.steps[-1]
        self.key = walks[0].axis
        self.names = plan.free_names()

    def plan(self) -> AttentionPlan:
        self._check()
        first, last = (self.of.body.index(self.loops[n]) for n in (0, -1))
        score, weigh = (s for s in self.loops[-1].body if isinstance(s, p.Dot))
        total, end = self._total(), self.loops[-1].end
        between = [s for s in self.of.body[first:last] if not isinstance(s, p.Loop | p.Sync)]
        before = [s for s in (*self.of.body[:first], *between) if getattr(s, "name", "") not in (self._top(), total)]
        before = [self._queries(s, score.a.name) if isinstance(s, p.LoadTile) else self._on_its_die(s) for s in before]
        if isinstance(end, Name) and isinstance(self.loops[0].end, Name):  # the first part's end, which nobody asks for
            first_end = self.loops[0].end
            before = [s for s in before if getattr(s, "name", "") != first_end.name or end == first_end]
            before = [p.renamed(s, {end.name: first_end.name}) for s in before]
            end = first_end
        after = self.of.body[last + 1 :]
        need(all(isinstance(s, _ALONE) for s in (*before, *after)), "what surrounds the walk exchanges values through LDS")
        var, scores = self.loops[0].var, self.names.fresh("scores")
        mask = self._mask(var, scores)
        keys = self._strips(score.b.shared, weigh.b.shared)
        fields: dict[str, Any] = {**vars(self.of), "names": frozenset(self.names.taken)}
        extent = size_term(self.kernel.axis[self.key].extent)
        return AttentionPlan(
            **fields, before=p.used(before, mask, after, [x.origin for x in keys], end, self._whole()), after=tuple(after),
            strips=keys, turns=self._in_turns(*keys), direct=self.target.device.has("lds_dma_16"), query=score.a.name,
            score_layout=score.place.layout, factor=constant(self.step.factor, "f32"), keys=extent, end=end,
            whole=self._whole(), mask=mask, var=var, scores=scores, total=total, acc=weigh.acc,
        )  # fmt: skip

    # ---- what stands in the way

    def _check(self) -> None:
        step, flushes = self.step, self.target.device.has("f16_matrix_flushes")
        dtype = t.tile_type(step.score.lhs).dtype
        need(dtype in ("f16", "bf16") and t.tile_type(step.weigh.lhs).dtype == dtype, "its operands have not 16 bits")
        need(dtype != "f16" or not flushes, f"{self.target.device.name} takes subnormal numbers of f16 for zero")
        need([n for _, n in dims_of(step.score)] == [ROWS, KEYS], f"a step is not {ROWS} rows and {KEYS} keys")
        need(dims_of(step.score)[1][0] == self.key, "its keys are not the columns of the scores")
        need(is_zero(self.loops[0].begin), "it does not begin with the first key")
        begin = [x.x.value if isinstance(x, t.Broadcast) and isinstance(x.x, t.Const) else None for x in self.walks[0].init]
        need(begin[:2] == [-math.inf, 0], "it does not begin with nothing")
        handed = [(x.source, x.index) for x in self.walks[-1].init if isinstance(x, Result)]
        handed_on = len(self.walks) == 1 or handed == [(self.walks[0], n) for n in range(3)]
        reads = [[(x.buffer, x.indices) for x in map(_load, (s.score.rhs, s.weigh.rhs))] for s in self.steps]
        alike = [(s.factor, s.score.lhs, read) for s, read in zip(self.steps, reads, strict=True)]
        need(handed_on and alike[0] == alike[-1], "its parts are not of one walk")
        tops = {x for x in self.kernel.body.walk() if isinstance(x, Result) and x.source in self.walks and x.index == 0}
        read = {x for op in self.kernel.body.walk() if not isinstance(op, t.For) for x in op.operands}
        need(not tops & read, "its maxima are asked for")

    # ---- parts

    def _on_its_die(self, s: p.Statement) -> p.Statement:
        """The number of the block so that neighbours, which walk the same keys, are on one die."""
        dies = product_of(self.target.device).count("dies", 1)
        if dies == 1 or not isinstance(s, p.Scalar) or s.value != Word(self.planner.dialect.block):
            return s
        value = call("on_its_die", f"pk::on_its_die<{dies}>", s.value, size_term(self.of.blocks))
        return replace(s, value=value, note=f"each of {dies} dies takes neighbours, which walk the same keys")

    def _top(self) -> str:
        return next(s.name for s in self.loops[0].body if isinstance(s, p.Assign))

    def _total(self) -> str:
        sums = [s for s in self.loops[0].body if isinstance(s, p.Map) and not s.define and s.place.side == "row"]
        need(len(sums) == 1, "it carries more than a maximum and a sum for each row")
        return sums[0].name

    def _queries(self, s: p.LoadTile, name: str) -> p.Statement:
        """The queries as a buffer, where their rows are whole vectors."""
        load = self.step.score.lhs
        if s.name != name or not isinstance(load, t.Load) or s.picks:
            return s
        try:
            features = features_of(self.kernel, load, ROWS)
        except Obstacle:
            return s
        left = s.access.left[0] if s.access.left else whole(ROWS)
        return LoadQueries(s.name, s.dtype, s.place, s.access.origin, s.access.strides[0], left, features)

    def _mask(self, var: str, scores: str) -> tuple[p.Statement, ...]:
        """The statements of the last part that mask scores, for those in ``scores``."""
        body = list(self.loops[-1].body)
        at = next(n for n, s in enumerate(body) if isinstance(s, p.Dot))
        if self.step.scores is self.step.score:
            return ()
        product, mask = body[at], body[at + 1]
        assert isinstance(product, p.Dot)
        need(isinstance(mask, p.Map) and Name(product.acc) in mask.args, "its scores are masked in several ways")
        assert isinstance(mask, p.Map)
        used = p.used([s for s in body[:at] if isinstance(s, p.Scalar)], mask)
        sizes = [replace(s, value=s.value.rewritten(_in_32_bits)) for s in used if isinstance(s, p.Scalar)]
        args = tuple(Name(scores) if x == Name(product.acc) else x for x in mask.args)
        made = by_fours(replace(mask, name=scores, define=False, once=False, args=args))
        first = next(s for s in self.loops[0].body if isinstance(s, p.Dot))
        return tuple(p.renamed(s, {self.loops[-1].var: var, product.acc: first.acc}) for s in (*sizes, made))

    def _whole(self) -> PlanTerm | None:
        """From where on tiles are masked: the second part of the walk, or the tile that is not full; ``None``: all are."""
        if self.steps[0].masked or self.step.scores is self.step.score:
            return None
        ends: list[PlanTerm] = [self.loops[1].begin] if len(self.loops) == 2 else []
        if self.step.ragged:
            ends.append(size_term(self.kernel.axis[self.key].extent - (KEYS - 1)))
        return ends[0] if len(ends) == 1 else call("min", "pk::min", ends[0], call("cast", "int64_t", ends[1]))

    def _strips(self, *shared: Shared | None) -> tuple[KeyStrip, KeyStrip]:
        made: list[KeyStrip] = []
        for held, op in zip(shared, (self.step.score.rhs, self.step.weigh.rhs), strict=True):
            load = _load(op)
            need(held is not None and held.slots == 2, "its keys are not copied ahead")
            assert held is not None
            rows, cols = (n for _, n in dims_of(load))
            fitting = dims_of(load)[0] == (self.key, KEYS) and cols in FEATURES
            need(fitting, f"it has not {KEYS} keys of {FEATURES} features a step")
            features = features_of(self.kernel, load, KEYS)
            access = self.planner.addresses.access(load, self.planner.variable[load.buffer], dims_of(load))
            name, fresh = held.name, self.names.fresh
            stem = name.removesuffix("_shared")
            made.append(KeyStrip(
                name, held.dtype, rows, cols, op is self.step.score.rhs, access.origin, access.strides[0], features,
                rows * cols * DTYPES[held.dtype].bytes // (self.of.threads * 16),
                fresh(f"{stem}_feed"), fresh(f"{stem}_reader"), fresh(f"{stem}_part"),
            ))  # fmt: skip
        need(made[0].name != made[1].name, "its keys are its values")
        return made[0], made[1]

    def _in_turns(self, k: KeyStrip, v: KeyStrip) -> tuple[ReadTurn, ...]:
        """Through registers both are fetched in the first turn and put into LDS in the second one."""
        turns = in_order((ReadTurn(v, 0, k, 3), ReadTurn(k, 2, v, 2)))
        return turns if self.target.device.has("lds_dma_16") else tuple(replace(x, wait=None) for x in turns)


def _in_32_bits(x: PlanTerm) -> PlanTerm:
    """How many keys are left: there are fewer than 2^31, and scalar ALUs compare no 64 bits."""
    if not isinstance(x, Apply) or x.word != "left":
        return x
    extent, first = x.operands
    return apply("12|{0} - {1}", call("cast", "int", extent), first, fn="sub")


def _load(op: Op) -> t.Load:
    while isinstance(op, t.Permute | t.Mask):
        op = op.x
    need(isinstance(op, t.Load), "an operand is computed")
    assert isinstance(op, t.Load)
    return op
