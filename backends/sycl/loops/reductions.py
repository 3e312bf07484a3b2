"""Reductions along a loop, in one variable or in one per lane, and running values, which go from element to element."""

from __future__ import annotations

from portakern.emit.loops.elements import hint_of
from portakern.emit.loops.plan import KernelLoopPlan, Walk
from portakern.emit.running import Running
from portakern.ir.tile import Reduce, tile_type

from .expressions import ATOM, SUM, TypedExpr
from .values import CLoopValueText
from .words import Words


class ReductionText(CLoopValueText):
    """Prints what a loop that reduces says before, in and after its body."""

    def __init__(self, plan: KernelLoopPlan, words: Words) -> None:
        super().__init__(plan, words)
        self.running: dict[Running, TypedExpr] = {}

    def start_sum(self, r: Reduce, node: Walk) -> TypedExpr:
        dtype = tile_type(r).dtype
        lanes = node.lanes if node.lanes > 1 else self.lanes_of(r)
        name = self.fresh(hint_of(r) + ("_lanes" if node.lanes > 1 else ""))
        self.say(f"{self.words.held(dtype, lanes)} {name} = {self.identity(r.fn, dtype, lanes)};")
        return TypedExpr(name, ATOM, dtype, lanes)

    def start_running(self, r: Running) -> TypedExpr:
        dtype, lanes = tile_type(r).dtype, self.lanes_of(r)
        name = self.fresh("so_far")
        self.say(f"{self.words.held(dtype, lanes)} {name} = {self.identity(r.fn, dtype, lanes)};")
        return TypedExpr(name, ATOM, dtype, lanes)

    def identity(self, fn: str, dtype: str, lanes: int) -> str:
        if fn in ("any", "all"):
            return str((-1 if lanes > 1 else 1) if fn == "all" else 0)
        return self.words.limit(dtype, fn)

    def accumulate(self, r: Reduce, total: TypedExpr) -> None:
        v = self.value(r.x).wide(total.lanes, self.words)
        if self.vector and self.vector[0] == r.axis and self.left:
            keep = self.words.keep(v.dtype, v.lanes)
            v = TypedExpr(f"{keep}({v.text}, {self.left}, {self.identity(r.fn, v.dtype, v.lanes)})", ATOM, v.dtype, v.lanes)
        name = total.text
        if r.fn in ("sum", "prod"):
            self.say(f"{name} {'+' if r.fn == 'sum' else '*'}= {v.text};")
        elif r.fn in ("any", "all"):
            sign = {"any": "|", "all": "&"}[r.fn]
            self.say(f"{name} {sign}= {v.text};")
        else:
            self.say(f"{name} = {self.words.extreme(r.fn, v.dtype, v.lanes)}({name}, {v.text});")

    def finish_sum(self, r: Reduce, total: TypedExpr) -> None:
        if total.lanes == self.lanes_of(r):
            self.names[r] = total
            return
        if r.fn in ("any", "all"):
            text = f"{self.words.call(r.fn)}({total.text})"
        else:
            text = f"{self.words.across(r.fn, total.dtype, total.lanes)}({total.text})"
        self.define(r, TypedExpr(text, ATOM, total.dtype))

    def run_on(self, op: Running) -> None:
        """One element further: the running value of the tile, with what came before it put to it."""
        running, x = self.running[op], self.value(op.x)
        line = f"{running.text} = {self.joined(op.fn, running, x.wide(running.lanes, self.words)).text};"
        before = running if op.before is None else self.joined(op.fn, self.value(op.before), running)
        if not op.exclusive:
            self.say(line)
        name = self.fresh(hint_of(op))
        self.say(f"const {self.words.held(running.dtype, running.lanes)} {name} = {before.text};")
        self.names[op] = TypedExpr(name, ATOM, running.dtype, running.lanes)
        if op.exclusive:
            self.say(line)

    def joined(self, fn: str, a: TypedExpr, b: TypedExpr) -> TypedExpr:
        lanes = max(a.lanes, b.lanes)
        if fn in ("sum", "prod"):
            return TypedExpr(f"{a.at(ATOM)} {'+' if fn == 'sum' else '*'} {b.at(ATOM)}", SUM, a.dtype, lanes)
        a, b = a.wide(lanes, self.words), b.wide(lanes, self.words)
        return TypedExpr(f"{self.words.extreme(fn, a.dtype, lanes)}({a.text}, {b.text})", ATOM, a.dtype, lanes)
