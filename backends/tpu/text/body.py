"""The body of a kernel as Python text.

A kernel runs once per grid step.  Its text is a list of regions, each with what it stores and hands on; values are
written where they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.device import Device
from portakern.ir.core import Arg, Op, sources, yielded
from portakern.ir.tile import (
    Cast,
    Const,
    Dot,
    For,
    Load,
    Mask,
    Reduce,
    Store,
    tile_type,
)

from ..planning.blocks import origin
from ..planning.constants import filled_with
from ..planning.kernel_plan import PallasKernelPlan
from ..planning.row_pieces import RowPieces, row_pieces_of
from ..syntax import operations
from ..syntax.expressions import SUM, PlacedExpr
from .names import fresh, hint
from .regions import KernelBody, Line, Region, Regions
from .shapes import piece
from .values import Values


class BodyWriter:
    def __init__(self, plan: PallasKernelPlan, references: Sequence[str], device: Device) -> None:
        self.plan = plan
        self.device = device
        reserved = {*references, *(d.name for d in plan.grid), *plan.kernel.sizes, *(s.text for s in plan.spans.values())}
        self.regions = Regions(plan, reserved)
        self.values = Values(plan, reserved, device)
        self.shapes = self.values.shapes

    def write(self) -> KernelBody:
        for work in self.regions.work:
            self.values.home.update((op, work.region) for op in work.ops)
        for work in self.regions.work:
            pieces = row_pieces_of(self.plan, work.ops, work.ends) if work.starts is None else None
            if pieces is not None:
                self._by_pieces(work.region, work.ops, work.ends, pieces)
                continue
            self._effects(work.region, work.ops)
            if work.starts is not None:
                self._start(work.region, work.starts)
            if work.ends is not None:
                self._yield(work.region, work.ends)
        return self.regions.assembled(tuple(self.values.kept.values()), tuple(self.values.helpers))

    # ---- pieces

    def _by_pieces(self, region: Region, ops: Sequence[Op], ends: For | None, pieces: RowPieces) -> None:
        """A step that computes ``ops`` as a Python loop over pieces of its block, with one product ahead."""
        span, size = self.plan.spans[pieces.axis], pieces.size
        region.names |= {"at", "part", "seen", "following"}
        begin = "at" if span.start == "0" else f"{span.start} + at"
        spans, parts = {pieces.axis: replace(span, size=size, text=str(size), begin=begin)}, {pieces.axis: f"at : at + {size}"}
        stop = [(f"seen = at + {size}", "")] if pieces.until else []
        if pieces.until:
            walked = self.plan.spans[pieces.until]
            spans[pieces.until], parts[pieces.until] = replace(walked, text="seen", begin=walked.start), ":seen"
        inner = self._within(region)
        inner.lines += [(f"part = slice(at, at + {size})", ""), *stop]
        if pieces.lead is not None:
            with self.shapes.part(spans, parts):
                name = self._ahead(region, pieces.lead, stop, inner)
            region.add("# The product of the next piece is under way while the rest of this one is computed.")
            region.add(f"following = {name}_of(0)")
            inner.add(f"{name}, following = following, {name}_of(at + {size}) if at + {size} < {span.text} else None")
        region.add(f"for at in range(0, {span.text}, {size}):")
        with self.shapes.part(spans, {**parts, pieces.axis: "part"}):
            self._effects(inner, ops)
            if ends is not None:
                self._yield(inner, ends)
        for line, where in inner.lines:
            region.add(f"    {line}", where)

    def _ahead(self, region: Region, lead: Dot, stop: Sequence[Line], inner: Region) -> str:
        """Write the function that gives ``lead`` for the piece at ``at``; the name that it has in ``inner``."""
        ahead = self._within(region)
        name = fresh(hint(lead), region.names)
        made = self.shapes.turn(self.values.compute(ahead, lead), self.plan.layout.place(lead), tile_type(lead).dtype)
        inner.values[lead] = PlacedExpr(name, made.place)
        region.add(f"def {name}_of(at):")
        for line, where in (*stop, *ahead.lines, (f"return {made.text}", origin(lead))):
            region.add(f"    {line}", where)
        region.add("")
        return name

    def _within(self, region: Region) -> Region:
        """A part of a region: its names are those of the region, its values its own."""
        return Region("", names=region.names, loops=region.loops, around=region)

    # ---- effects

    def _effects(self, region: Region, ops: Sequence[Op]) -> None:
        for op in ops:
            if isinstance(op, Store):
                self._store(region, op)

    def _start(self, region: Region, loop: For) -> None:
        for position, value in enumerate(loop.init):
            slot = self.plan.slots[loop, position]
            if self.values.slots.get(value) is slot:
                continue
            if isinstance(fill := filled_with(value), Const):
                literal = operations.number(fill.value, fill.dtype)
                fresh = (f"jnp.zeros_like({slot.name})" if fill.value == 0 else f"jnp.full_like({slot.name}, {literal.text})")
                region.add(f"{slot.name}[...] = {fresh}", origin(value))
            else:
                made = self.shapes.fill(self.values.value(region, value), slot.place, slot.dtype)
                region.add(f"{slot.name}[...] = {made.text}", origin(value))

    def _yield(self, region: Region, loop: For) -> None:
        """Hand the loop's next values to its scratch; all are computed before the first is overwritten."""
        pending = []
        for position, value in enumerate(yielded(loop.body)):
            slot = self.plan.slots[loop, position]
            if value is loop.body.args[position] or self.values.slots.get(value) is slot:
                continue
            arg = loop.body.args[position]
            if self._only_in(arg, value):
                region.values[arg] = self.shapes.read(slot.name, slot.place)
            pending.append((slot, value))
        ready = [(slot, self.shapes.fill(self.values.value(region, value, len(pending) == 1), slot.place, slot.dtype), value)
                 for slot, value in pending]
        for slot, expr, value in ready:
            kept = self.shapes.read(slot.name, slot.place).text
            grows = expr.binding == SUM and expr.text.startswith(f"{kept} + ")
            region.add(f"{kept} += {expr.text[len(kept) + 3 :]}" if grows else f"{kept} = {expr.text}", origin(value))

    def _only_in(self, arg: Op, value: Op) -> bool:
        """Whether ``arg`` is read once, on the way to ``value``, by operations that are themselves used once."""
        if self.values.uses[arg] != 1:
            return False
        while value is not arg:
            found = [o for o in value.operands if self._reaches(o, arg)]
            if len(found) != 1 or (self.values.uses[value] != 1) or isinstance(value, Reduce | Load | Mask):
                return False
            value = found[0]
        return True

    def _reaches(self, op: Op, arg: Op) -> bool:
        return any(o is arg for o in sources(op, lambda o: () if o in self.values.slots else o.operands))

    def _store(self, region: Region, op: Store) -> None:
        assert isinstance(op.buffer, Arg)
        access = next(a for a in self.plan.writes if a.buffer == op.buffer.name)
        if access.flat:
            value = self._flat(region, op.value)
        else:
            value = self.shapes.turn(self.values.full(region, op.value, last=True), access.place, tile_type(op.value).dtype)
            value = self.shapes.rows_apart(value, access)
        region.add(f"{self.shapes.read(f'{access.source}_ref', access.place, access.cut).text} = {value.text}", origin(op))

    def _flat(self, region: Region, op: Op) -> PlacedExpr:
        """``op`` as a vector of one dim.  Mosaic makes none of 16-bit columns, so it is made before they are narrowed."""
        dtype = tile_type(op).dtype
        inner = op.x if isinstance(op, Cast) and tile_type(op.x).dtype == "f32" and self.values.uses[op] == 1 else op
        value, have = self.values.full(region, inner), tile_type(inner).dtype
        if have == "bf16":
            value, have = operations.cast(value, "f32"), "f32"
        column = self.plan.layout.place(op)[0] is not None
        if column and not self.device.has("sublane_gather"):
            value = PlacedExpr(f"{value.at(0)}.T", value.place)
            column = False
        vector = PlacedExpr(piece(value, ":, 0" if column else "0"), value.place)
        return operations.converted(vector, have, dtype)
