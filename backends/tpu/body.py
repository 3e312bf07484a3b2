"""The body of a kernel as Python text.

A kernel runs once per grid step.  Its text is a list of *regions*: what starts a loop (first step), the loop's body
(every step), what finishes it (last step).  Values are written where they are asked for: a cheap one is computed again
in each region that needs it, an expensive one is kept in scratch by the region it belongs to.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from portakern.device import Device
from portakern.emit.running import JOIN, Running
from portakern.ir.core import Arg, Op, Result, yielded
from portakern.ir.tile import (
    ArgReduce,
    Binary,
    Bitcast,
    Broadcast,
    Cast,
    Compare,
    Const,
    Coord,
    Dot,
    Extent,
    For,
    Kernel,
    Load,
    Mask,
    Permute,
    Reduce,
    Select,
    Start,
    Store,
    TileType,
    Unary,
    identity,
    tile_type,
)

from . import rules
from .blocks import LANES, SUBLANES, Span, origin
from .constants import filled_with, number
from .expr import COMPARE, SUM, WIDE, Expr, Place, call, infix
from .loops import Phase
from .pieces import Pieces, pieces_of
from .plan import KernelPlan, Slot, kept_at, scalar_text

Line = tuple[str, str]
"""A line of the kernel and the operator's line behind it (``softmax.py:12``, or nothing)."""

_INLINE = 64  # characters; a longer expression gets a name
_FIRST, _STEP, _LAST = "start", "step", "finish"
_INSIDE, _EDGE = "inside", "edge"  # steps of a walk in two parts: those that need no mask, and the others


@dataclass
class Region:
    """Statements that run under ``condition`` (empty: in every step)."""

    title: str
    condition: str = ""
    lines: list[Line] = field(default_factory=list)
    values: dict[Op, Expr] = field(default_factory=dict)
    coordinates: dict[tuple[str, int], Expr] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    loops: tuple[For, ...] = ()  # the loops around it
    around: Region | None = None  # what a part of it belongs to

    def add(self, line: str, where: str = "") -> None:
        self.lines.append((line, where))


@dataclass(frozen=True)
class Body:
    """Finished text of a kernel's body, its scratch and the helpers it calls."""

    lines: tuple[Line, ...]
    scratch: tuple[Slot, ...]
    helpers: tuple[str, ...]


class BodyWriter:
    def __init__(self, plan: KernelPlan, references: Sequence[str], device: Device) -> None:
        self.plan = plan
        self.device = device
        self.spans = dict(plan.spans)
        self.parts: dict[str, str] = {}  # index text of the axes of which only a part is meant now
        self.reserved = {*references, *(d.name for d in plan.grid), *plan.kernel.sizes, *(s.text for s in self.spans.values())}
        self.slots: dict[Op, Slot] = {}  # carried arguments and results of loops, and kept values
        self.kept: dict[Op, Slot] = {}
        self.home: dict[Op, Region] = {}
        self.uses = _uses(plan.kernel)
        self.contracted = {op.axis for op in plan.kernel.body.walk() if isinstance(op, Reduce | Running | ArgReduce | Dot)}
        self.helpers: dict[str, None] = {}
        self.regions: list[Region] = []
        for (loop, position), slot in plan.slots.items():
            self.slots[loop.body.args[position]] = slot
        for op in plan.kernel.body.walk():
            if isinstance(op, Result) and isinstance(op.source, For):
                self.slots[op] = plan.slots[op.source, op.index]

    # ---- regions

    def write(self) -> Body:
        work = [piece for number, phase in enumerate(self.plan.phases) for piece in self._regions(phase, number)]
        for region, ops, _, _ in work:
            self.home.update((op, region) for op in ops)
        for region, ops, starts, ends in work:
            pieces = pieces_of(self.plan, ops, ends) if starts is None else None
            if pieces is not None:
                self._by_pieces(region, ops, ends, pieces)
                continue
            self._effects(region, ops)
            if starts is not None:
                self._start(region, starts)
            if ends is not None:
                self._yield(region, ends)
        return self._assemble()

    def _regions(self, phase: Phase, number: int) -> list[tuple[Region, Sequence[Op], For | None, For | None]]:
        """The regions of a phase in order: (region, its operations, loop whose values it starts, loop it steps)."""
        if not phase.loops:
            return [(self._region("all", ()), phase.inside, None, None)]
        here = [f"phase == {number}"] if self.plan.phase else []
        depths = range(len(phase.loops))
        guards = [self._guard(loop) for loop in phase.loops]
        dims = [d for d in self.plan.grid if d.kind == "loop"]
        idle = [f"{d.name} == 0" for d in dims[len(phase.loops):]]
        work = []
        for d in depths:
            at_first = [f"{dims[x].name} == 0" for x in depths if x >= d]
            outer = [g for g in guards[:d] if g]
            work.append((self._region(_FIRST, [*here, *outer, *at_first, *idle], phase.loops[:d]), phase.before[d],
                         phase.loops[d], None))
        *outer_guards, guard = guards
        titles = (_STEP,) if not phase.then else (_INSIDE, *(_EDGE for _ in phase.then))
        for title, loop in zip(titles, (phase.loops[-1], *phase.then), strict=True):
            now = guard if loop is phase.loops[-1] else self._guard(loop)
            region = self._region(title, [*here, *(g for g in (*outer_guards, now) if g), *idle], phase.loops)
            work.append((region, loop.body.ops, None, loop))
        for d in reversed(depths):
            at_last = [self._is_last(phase.loops[x], dims[x].name) for x in depths if x >= d]
            outer = [g for g in guards[:d] if g]
            work.append((self._region(_LAST, [*here, *outer, *at_last, *idle], phase.loops[:d]), phase.after[d], None,
                         phase.loops[d - 1] if d else None))
        return work

    def _region(self, title: str, conditions: Sequence[str], loops: tuple[For, ...] = ()) -> Region:
        condition = conditions[0] if len(conditions) == 1 else " & ".join(f"({c})" for c in conditions)
        if len(self.plan.phases) > 1:
            title = f"{title}_{sum(r.title.startswith(title) for r in self.regions)}"
        region = Region(title, condition, names=set(self.reserved), loops=loops)
        self.regions.append(region)
        return region

    def _guard(self, loop: For) -> str:
        """When a step of a loop does something: inside its bounds, and inside its own number of steps."""
        span = self.spans[loop.axis]
        index = Expr(span.start, None, 0 if span.start.isidentifier() else 3)
        parts = []
        if loop.lo is not None:
            low = infix("//", self._scalar(loop.lo), Expr(span.text)) if span.size > 1 else self._scalar(loop.lo)
            parts.append(infix(">=", Expr(span.dim or "0"), low))
        dim = next(d for d in self.plan.grid if d.name == span.dim)
        if loop.hi is not None:
            parts.append(infix("<", index, self._scalar(loop.hi)))
        if len(dim.axes) > 1 or not isinstance(span.axis.extent, int):
            parts.append(infix("<", index, Expr(str(span.axis.extent), None, SUM)))
        if len(parts) <= 1:
            return parts[0].text if parts else ""
        return " & ".join(f"({p.text})" for p in parts)

    def _is_last(self, loop: For, dim: str) -> str:
        span = self.spans[loop.axis]
        number = next(n for n, d in enumerate(self.plan.grid) if d.name == dim)
        if len(self.plan.grid[number].axes) > 1:
            return f"{dim} == {span.last}"
        return f"{dim} == pl.num_programs({number}) - 1"

    def _scalar(self, op: Op) -> Expr:
        return scalar_text(op, self.plan.spans) or Expr("0")

    def _assemble(self) -> Body:
        lines: list[Line] = []
        for region in self.regions:
            if not region.lines:
                continue
            lines += [("", "")] if lines else []
            if region.condition:
                lines += [(f"@pl.when({region.condition})", ""), (f"def {region.title}():", "")]
            indent = "    " if region.condition else ""
            lines += [(f"{indent}{text}" if text else "", where) for text, where in region.lines]
        text = "\n".join(line for line, _ in lines)
        head = [(f"{d.name} = pl.program_id({n})", "") for n, d in enumerate(self.plan.grid)
                if re.search(rf"\b{d.name}\b", text)]
        if head and text.startswith("@"):
            head.append(("", ""))
        scratch = tuple(dict.fromkeys([*self.plan.slots.values(), *self.kept.values()]))
        return Body((*head, *lines), scratch, tuple(self.helpers))

    # ---- pieces

    def _by_pieces(self, region: Region, ops: Sequence[Op], ends: For | None, pieces: Pieces) -> None:
        """A step that computes ``ops`` as a Python loop over pieces of its block, with one product ahead."""
        span, lead, size = self.plan.spans[pieces.axis], pieces.lead, pieces.size
        region.names |= {"at", "part", "seen", "following"}
        name = self._fresh(region, _hint(lead))
        stop = [(f"seen = at + {size}", "")] if pieces.until else []
        begin = "at" if span.start == "0" else f"{span.start} + at"
        spans = {pieces.axis: replace(span, size=size, text=str(size), begin=begin)}
        if pieces.until:
            walked = self.plan.spans[pieces.until]
            spans[pieces.until] = replace(walked, text="seen", begin=walked.start)
        parts = {pieces.axis: f"at : at + {size}", **({pieces.until: ":seen"} if pieces.until else {})}
        ahead, inner = (Region("", names=region.names, loops=region.loops, around=region) for _ in range(2))
        with self._part(spans, parts):
            made = self._turn(self._compute(ahead, lead), self.plan.layout.place(lead), tile_type(lead).dtype)
        region.add(f"def {name}_of(at):")
        for line, where in (*stop, *ahead.lines, (f"return {made.text}", origin(lead))):
            region.add(f"    {line}", where)
        region.add("")
        region.add("# The product of the next piece is under way while the rest of this one is computed.")
        region.add(f"following = {name}_of(0)")
        region.add(f"for at in range(0, {span.text}, {size}):")
        inner.lines += [(f"part = slice(at, at + {size})", ""), *stop]
        inner.add(f"{name}, following = following, {name}_of(at + {size}) if at + {size} < {span.text} else None")
        inner.values[lead] = Expr(name, made.place)
        with self._part(spans, {**parts, pieces.axis: "part"}):
            self._effects(inner, ops)
            if ends is not None:
                self._yield(inner, ends)
        for line, where in inner.lines:
            region.add(f"    {line}", where)

    @contextmanager
    def _part(self, spans: Mapping[str, Span], parts: Mapping[str, str]) -> Iterator[None]:
        """While it lasts, blocks are those of a part: ``parts`` has its index along each axis."""
        before = self.spans, self.parts
        self.spans, self.parts = {**self.plan.spans, **spans}, dict(parts)
        try:
            yield
        finally:
            self.spans, self.parts = before

    def _read(self, reference: str, place: Place) -> Expr:
        """What a reference holds of the block, or of the part that is meant."""
        index = [self.parts.get(a or "", ":") for a in place]
        while index and index[-1] == ":":
            index.pop()
        return Expr(f"{reference}[{', '.join(index) or '...'}]", place)

    def _sizes(self, place: Place) -> str:
        return self.plan.sizes(place, self.spans)

    # ---- effects

    def _effects(self, region: Region, ops: Sequence[Op]) -> None:
        for op in ops:
            if isinstance(op, Store):
                self._store(region, op)

    def _start(self, region: Region, loop: For) -> None:
        for position, value in enumerate(loop.init):
            slot = self.plan.slots[loop, position]
            if self.slots.get(value) is slot:
                continue
            if isinstance(fill := filled_with(value), Const):
                literal = rules.number(fill.value, fill.dtype)
                fresh = (f"jnp.zeros_like({slot.name})" if fill.value == 0 else f"jnp.full_like({slot.name}, {literal.text})")
                region.add(f"{slot.name}[...] = {fresh}", origin(value))
            else:
                region.add(f"{slot.name}[...] = {self._fill(self.value(region, value), slot.place, slot.dtype).text}",
                           origin(value))

    def _yield(self, region: Region, loop: For) -> None:
        """Hand the loop's next values to its scratch; all are computed before the first is overwritten."""
        pending = []
        for position, value in enumerate(yielded(loop.body)):
            slot = self.plan.slots[loop, position]
            if value is loop.body.args[position] or self.slots.get(value) is slot:
                continue
            arg = loop.body.args[position]
            if self._only_in(arg, value):
                region.values[arg] = self._read(slot.name, slot.place)
            pending.append((slot, value))
        ready = [(slot, self._fill(self.value(region, value, len(pending) == 1), slot.place, slot.dtype), value)
                 for slot, value in pending]
        for slot, expr, value in ready:
            kept = self._read(slot.name, slot.place).text
            grows = expr.binding == SUM and expr.text.startswith(f"{kept} + ")
            region.add(f"{kept} += {expr.text[len(kept) + 3 :]}" if grows else f"{kept} = {expr.text}", origin(value))

    def _only_in(self, arg: Op, value: Op) -> bool:
        """Whether ``arg`` is read once, on the way to ``value``, by operations that are themselves used once."""
        if self.uses[arg] != 1:
            return False
        while value is not arg:
            found = [o for o in value.operands if self._reaches(o, arg)]
            if len(found) != 1 or (self.uses[value] != 1) or isinstance(value, Reduce | Load | Mask):
                return False
            value = found[0]
        return True

    def _reaches(self, op: Op, arg: Op) -> bool:
        return op is arg or (op not in self.slots and any(self._reaches(o, arg) for o in op.operands))

    def _store(self, region: Region, op: Store) -> None:
        assert isinstance(op.buffer, Arg)
        access = next(a for a in self.plan.writes if a.buffer == op.buffer.name)
        if access.flat:
            value = self._flat(region, op.value)
        else:
            value = self._turn(self.full(region, op.value, last=True), access.place, tile_type(op.value).dtype)
        region.add(f"{self._read(f'{op.buffer.name}_ref', access.place).text} = {value.text}", origin(op))

    def _flat(self, region: Region, op: Op) -> Expr:
        """``op`` as a vector of one dim.  Mosaic makes none of 16-bit columns, so it is made before they are narrowed."""
        dtype = tile_type(op).dtype
        inner = op.x if isinstance(op, Cast) and tile_type(op.x).dtype == "f32" and self.uses[op] == 1 else op
        value = self.full(region, inner)
        if tile_type(inner).dtype == "bf16":
            value = rules.cast(value, "f32")
        column = self.plan.layout.place(op)[0] is not None
        if column and not self.device.has("sublane_gather"):
            value = Expr(f"{value.at(0)}.T", value.place)
            column = False
        vector = Expr(_part(value, ":, 0" if column else "0"), value.place)
        return vector if dtype in ("f32", "i32") else rules.cast(vector, dtype)

    # ---- values

    def value(self, region: Region, op: Op, last: bool = False) -> Expr:
        """``op`` as an expression in ``region``; statements that compute it are added before.

        ``last``: the expression ends a statement of its own, so it needs no name however long it is.
        """
        if op in region.values:
            return region.values[op]
        if (constant := number(op)) is not None:
            return rules.number(constant, "f32")
        slot = self.slots.get(op) or self._keep(region, op)
        if slot is not None:
            expr = self._read(slot.name, slot.place)
            # What the loop still changes is read at once; a finished value where it is used.
            if isinstance(op, Arg) or self.uses[op] > 1:
                expr = self._name(region, slot.name.removesuffix("_ref"), expr, origin(op))
        else:
            expr = self._compute(region, op)
            if expr.place is not None:
                expr = self._turn(expr, self.plan.layout.place(op), tile_type(op).dtype)
            if self._wants_name(op, expr) and not (last and self.uses[op] == 1):
                expr = self._name(region, _hint(op), expr, origin(op))
        region.values[op] = expr
        return expr

    def _keep(self, region: Region, op: Op) -> Slot | None:
        """Scratch for a value that is expensive and belongs to another region."""
        home = self.home.get(op)
        if home is None or home is region or home is region.around or not self._expensive(op):
            return None
        if op not in self.kept:
            name = f"{_hint(op)}_ref"
            taken = {s.name for s in (*self.slots.values(), *self.kept.values())} | self.reserved
            n = 1
            while name in taken:
                n += 1
                name = f"{_hint(op)}_{n}_ref"
            dtype = tile_type(op).dtype
            slot = Slot(name, kept_at(self.plan.layout.place(op), dtype), dtype, "kept for the steps of the loop")
            self.kept[op] = slot
            with self._part({}, {}):
                home.add(f"{name}[...] = {self._fill(self.value(home, op), slot.place, dtype).text}", origin(op))
        return self.kept[op]

    def _expensive(self, op: Op) -> bool:
        if op in self.slots or not isinstance(op.type, TileType) or not op.type.dims:
            return False
        if isinstance(op, Reduce | Running | Dot):
            return True
        if isinstance(op, Unary) and op.fn in rules.EXPENSIVE and len(op.type.dims) == 2:
            return True
        return any(self._expensive(o) for o in op.operands if isinstance(o.type, TileType))

    def _wants_name(self, op: Op, expr: Expr) -> bool:
        if expr.literal or expr.text.isidentifier() or isinstance(op, Const | Extent):
            return False
        if isinstance(op, Dot) and filled_with(op.acc) is None:
            return self.uses[op] > 1
        if self.uses[op] > 1:
            return not isinstance(op, Broadcast | Start | Permute)
        return len(expr.text) > _INLINE

    def _name(self, region: Region, hint: str, expr: Expr, where: str) -> Expr:
        name = self._fresh(region, hint)
        region.add(f"{name} = {expr.text}", where)
        return Expr(name, expr.place)

    def _fresh(self, region: Region, hint: str) -> str:
        name, n = hint, 1
        while name in region.names:
            n += 1
            name = f"{hint}_{n}"
        region.names.add(name)
        return name

    def full(self, region: Region, op: Op, last: bool = False) -> Expr:
        """``op`` with every element of its block spelled out."""
        return self._fill(self.value(region, op, last), self.plan.layout.place(op), tile_type(op).dtype)

    def _fill(self, x: Expr, place: Place, dtype: str) -> Expr:
        if x.place == place:
            return x
        x = _one_lane(x) if place[1] != WIDE else x
        if x.place == place:
            return x
        shape = self._sizes(place)
        if x.place is None:
            return Expr(f"jnp.full({shape}, {x.text}, {rules.JNP[dtype]})", place)
        # A dim of one element may already have the full size.
        if shape == self._sizes(x.place):
            return Expr(x.text, place, x.binding)
        return Expr(f"jnp.broadcast_to({x.text}, {shape})", place)

    def _turn(self, x: Expr, place: Place, dtype: str) -> Expr:
        """``x`` transposed when its axes lie the other way round in ``place``."""
        if x.place is None or all(a in (None, WIDE) or a == b for a, b in zip(x.place, place, strict=True)):
            return x
        x = _one_lane(x)
        assert x.place is not None
        turned = (x.place[1], x.place[0])
        if dtype == "bool":
            return Expr(f"{x.at(0)}.astype(jnp.int32).T != 0", turned, COMPARE)
        return Expr(f"{x.at(0)}.T", turned)

    def _spread(self, x: Expr, place: Place) -> Expr:
        """A column that fills the lanes, over the lanes of a tile at ``place``."""
        if x.place is None or x.place[1] != WIDE or place[1] is None:
            return x
        span = self.spans[place[1]]
        if span.size > LANES and span.size % LANES:
            return _one_lane(x)
        if span.size <= LANES:
            return Expr(x.text if span.size == LANES else _part(x, f":, :{span.text}"), (x.place[0], place[1]))
        copies = f"{span.text} // {LANES}" if span.text.isidentifier() else str(span.size // LANES)
        return Expr(f"jnp.tile({x.text}, (1, {copies}))", (x.place[0], place[1]))

    def _compute(self, region: Region, op: Op) -> Expr:
        match op:
            case Const():
                return rules.number(op.value, op.dtype)
            case Extent() | Start():
                return self._scalar(op)
            case Coord():
                return self._coordinate(region, op) if op.dims else self._scalar(op)
            case Arg():
                return Expr(f"{op.name}_ref[0, 0]")
            case Unary():
                return self._unary(region, op)
            case Binary() | Compare():
                return rules.binary(op.fn, self.value(region, op.lhs), self.value(region, op.rhs), tile_type(op.lhs).dtype)
            case Select():
                condition, yes, no = (self.value(region, x) for x in (op.condition, op.yes, op.no))
                return rules.select(condition, yes, no, tile_type(op).dtype)
            case Cast():
                return self._cast(region, op)
            case Bitcast():
                return call("jax.lax.bitcast_convert_type", self.value(region, op.x), extra=rules.JNP[op.dtype])
            case Broadcast():
                x = self.value(region, op.x)
                if len(op.dims) < 2:
                    return x
                place = self.plan.layout.place(op)
                return self._spread(self._turn(x, place, tile_type(op).dtype), place)
            case Permute():
                x = self.value(region, op.x)
                swapped = op.axes != tile_type(op.x).axes and x.place is not None
                return Expr(f"{x.at(0)}.T", (x.place[1], x.place[0])) if swapped and x.place else x
            case Mask():
                return self._mask(region, op)
            case Load():
                return self._load(region, op)
            case Reduce():
                return self._reduce(region, op)
            case Running():
                return self._running(region, op)
            case Dot():
                return self._dot(region, op)
            case Result(source=ArgReduce() as source):
                return self._arg_reduce(region, source, op.index)
        raise AssertionError(op.mnemonic())  # reported as missing before

    def _unary(self, region: Region, op: Unary) -> Expr:
        x = self.value(region, op.x)
        if op.fn in rules.HELPERS:
            self.helpers[op.fn] = None
        if x.place is None and op.fn not in ("neg", "not", "abs"):
            # The scalar core has no transcendental functions; a vector of one element does.
            x = self._fill(x, (None, None), tile_type(op.x).dtype)
        return rules.unary(op.fn, x, tile_type(op).dtype)

    def _cast(self, region: Region, op: Cast) -> Expr:
        if isinstance(op.x, Const):
            return rules.number(op.x.value, op.dtype)
        if isinstance(op.x, Load) and op.dtype == "f32" and self.uses[op.x] == 1:
            return self._load(region, op.x, op.dtype)  # masks are cheapest at 32 bits
        x = self.value(region, op.x)
        narrow = op.dtype in ("i8", "u8", "i16", "u16") and tile_type(op.x).dtype not in ("i32", "i16", "u16", "i8", "u8")
        return rules.cast(rules.cast(x, "i32") if narrow else x, op.dtype)

    def _coordinate(self, region: Region, op: Coord) -> Expr:
        side = self.plan.layout.place(op).index(op.axis)
        x = self._axis_coordinates(region, op.axis, side)
        return x if op.dtype in ("i32", "i64") else rules.cast(x, op.dtype)

    def _axis_coordinates(self, region: Region, axis: str, side: int) -> Expr:
        """The coordinates of an axis along the rows (0) or columns (1) of a block."""
        if (axis, side) not in region.coordinates:
            place: Place = (axis, None) if side == 0 else (None, axis)
            count = Expr(f"jax.lax.broadcasted_iota(jnp.int32, {self._sizes(place)}, {side})", place)
            start = Expr(self.spans[axis].start, None, 3)
            text = count if start.text == "0" else infix("+", start, count)
            region.coordinates[axis, side] = self._name(region, "cols" if side else "rows", text, "")
        return region.coordinates[axis, side]

    def _inside(self, region: Region, axis: str, side: int) -> Expr:
        """Which elements along one side of a block lie inside the extent of ``axis``."""
        extent = self.spans[axis].axis.extent
        return infix("<", self._axis_coordinates(region, axis, side), Expr(str(extent), None, SUM))

    def _mask(self, region: Region, op: Mask) -> Expr:
        x = self.value(region, op.x)
        if not self._matters(op.axis):
            return x
        inside = self._inside(region, op.axis, self.plan.layout.place(op).index(op.axis))
        return _where(inside, x, op.value, tile_type(op).dtype)

    def _matters(self, axis: str) -> bool:
        """Whether what lies outside the extent of ``axis`` can be seen: only what is summed over the axis sees it."""
        return self.plan.spans[axis].ragged and axis in self.contracted

    def _load(self, region: Region, op: Load, dtype: str = "") -> Expr:
        """The block of a load, cast to ``dtype`` if one is given, with its pad where that can be seen."""
        assert isinstance(op.buffer, Arg)
        number = self.plan.read_number(op)
        access = self.plan.reads[number]
        x = self._read(read_names(self.plan)[number], access.place)
        have, place = access.dtype, access.place
        if access.flat:
            place = self.plan.layout.place(op)
            # Mosaic turns no 16-bit row into a column.
            detour = have if place[0] and have == "bf16" and dtype != "f32" else ""
            x = rules.cast(x, "f32") if detour else x
        if dtype and dtype != have:
            x, have = rules.cast(x, dtype), dtype
        if access.flat:
            index = "[None, :]" if not place[0] else "[:, None]" if self.device.has("sublane_gather") else "[None, :].T"
            x = Expr(f"{x.at(0)}{index}", place)
            x = rules.cast(x, detour) if detour else x
        conditions = []
        if op.pad is not None:
            conditions = [self._inside(region, a, side) for side, a in enumerate(place) if a and self._matters(a)]
        if conditions:
            both = conditions[0] if len(conditions) == 1 else infix("&", *conditions)
            rows = place[0]
            # Mosaic has no 16-bit masks for fewer rows than a tile of 32-bit values has.
            few = have == "bf16" and (rows is None or self.spans[rows].size < SUBLANES)
            padded = _where(both, rules.cast(x, "f32") if few else x, op.pad or 0, "f32" if few else have)
            x = rules.cast(padded, have) if few else padded
        dims = tile_type(op).axes
        if len(dims) == 2 and dims != place:
            return Expr(f"{x.at(0)}.T", (place[1], place[0]))
        return x

    def _reduce(self, region: Region, op: Reduce) -> Expr:
        x = self.full(region, op.x)
        place = self.plan.layout.place(op.x)
        side = place.index(op.axis)
        if op.fn in rules.HELPERS or op.fn == "prod":
            self.helpers["product"] = None
        kept: Place = (None, place[1]) if side == 0 else (place[0], None)
        return Expr(f"{rules.REDUCTIONS[op.fn]}({x.text}, axis={side}, keepdims=True)", kept)

    def _running(self, region: Region, op: Running) -> Expr:
        x, place, dtype = self.full(region, op.x), self.plan.layout.place(op.x), tile_type(op.x).dtype
        self.helpers["running"] = None
        nothing = rules.number(identity(op.fn, dtype), dtype)
        how = f"{', reverse=True' if op.reverse else ''}{', exclusive=True' if op.exclusive else ''}"
        made = Expr(f"running({rules.JOINS[op.fn]}, {x.text}, {place.index(op.axis)}, {nothing.text}{how})", place)
        if op.before is None or ((fill := filled_with(op.before)) is not None and fill.value == identity(op.fn, dtype)):
            return made
        return rules.binary(JOIN[op.fn], self._spread(self.value(region, op.before), place), made, dtype)

    def _arg_reduce(self, region: Region, op: ArgReduce, index: int) -> Expr:
        """The extreme value, or the lowest coordinate that holds it (or a NaN)."""
        x = self.full(region, op.x)
        if not x.text.isidentifier():
            x = self._name(region, _hint(op.x), x, origin(op.x))
        place = self.plan.layout.place(op.x)
        side = place.index(op.axis)
        kept: Place = (None, place[1]) if side == 0 else (place[0], None)
        best = Expr(f"jnp.{op.fn}({x.text}, axis={side}, keepdims=True)", kept)
        if index == 0:
            return best
        at = self._axis_coordinates(region, op.axis, side)
        hit = f"({x.text} == {best.text})"
        if tile_type(op.x).dtype == "f32":
            hit += f" | jnp.isnan({x.text})"
        return Expr(f"jnp.min(jnp.where({hit}, {at.text}, {2**31 - 1}), axis={side}, keepdims=True)", kept)

    def _operand(self, region: Region, op: Op) -> Expr:
        x = self.full(region, op)
        return x if len(x.text) <= _INLINE // 2 else self._name(region, _hint(op), x, origin(op))

    def _dot(self, region: Region, op: Dot) -> Expr:
        lhs, rhs = op.lhs, op.rhs
        want = self.plan.layout.place(op)
        free = next((a for a in tile_type(rhs).axes if a != op.axis), None)
        if free is not None and want[0] == free and want[1] != free:
            lhs, rhs = rhs, lhs  # the result's rows come from the left operand
        a, b = self._operand(region, lhs), self._operand(region, rhs)
        sides = (self.plan.layout.place(lhs).index(op.axis), self.plan.layout.place(rhs).index(op.axis))
        if sides == (1, 1) and self._sizes(self.plan.layout.place(rhs)).startswith("(1,"):
            # Pallas turns a product with a single row into one that Mosaic rejects for bf16; a column it takes.
            b, sides = Expr(f"{b.at(0)}.T", b.place), (1, 0)
        # At default precision the matrix unit would round f32 operands to bf16.
        exact = ", precision=jax.lax.Precision.HIGHEST" if tile_type(lhs).dtype == "f32" else ""
        kind = rules.JNP[tile_type(op.acc).dtype]
        if sides == (1, 0):
            text = f"jnp.dot({a.text}, {b.text}, preferred_element_type={kind}{exact})"
        else:
            dims = f"((({sides[0]},), ({sides[1]},)), ((), ()))"
            text = f"jax.lax.dot_general({a.text}, {b.text}, {dims}, preferred_element_type={kind}{exact})"
        left = next((x for x in tile_type(lhs).axes if x != op.axis), None)
        right = next((x for x in tile_type(rhs).axes if x != op.axis), None)
        product = Expr(text, (left, right))
        fill = filled_with(op.acc)
        if fill is not None and fill.value == 0:
            return product
        # The sum itself may be long: it stands on a line of its own, and long lines are broken.
        return infix("+", self.value(region, op.acc), product)


def _one_lane(x: Expr) -> Expr:
    """A column that fills the lanes, as one of one element a row."""
    return Expr(_part(x, ":, :1"), (x.place[0], None)) if x.place and x.place[1] == WIDE else x


def _part(x: Expr, index: str) -> str:
    """The text of ``x[index]``; of a reference only that part is read."""
    reference = re.fullmatch(r"(\w+_ref)\[\.\.\.\]", x.text)
    return f"{reference[1] if reference else x.at(0)}[{index}]"


def _where(condition: Expr, x: Expr, otherwise: float | int | bool, dtype: str) -> Expr:
    """``x`` where the condition holds.  Masks are 32-bit, so 8-bit values take a detour; booleans are logic."""
    if dtype == "bool":
        if otherwise:
            return infix("|", x, rules.unary("not", condition, "bool"))
        return infix("&", x, condition)
    if dtype in ("i8", "u8"):
        return rules.cast(call("jnp.where", condition, rules.cast(x, "i32"), rules.number(otherwise, "i32")), dtype)
    return call("jnp.where", condition, x, rules.number(otherwise, dtype))


def _uses(kernel: Kernel) -> Counter[Op]:
    uses: Counter[Op] = Counter()
    for op in kernel.body.walk():
        if isinstance(op, For):
            uses.update(op.init)
        else:
            uses.update(op.operands)
    return uses


def _hint(op: Op) -> str:
    """A name for a value: its buffer's, the reduction's, or its function's."""
    match op:
        case Load(buffer=Arg(name=name)):
            return name
        case Cast(x=x) | Broadcast(x=x) | Permute(x=x) | Mask(x=x):
            return _hint(x)
        case Reduce(fn=fn, x=x):
            return f"{'row' if len(tile_type(x).dims) < 2 or tile_type(x).axes[1] == op.axis else 'col'}_{fn}"
        case Running(fn=fn):
            return f"running_{fn}"
        case Dot():
            return "product"
        case Unary(fn="exp" | "exp2"):
            return "e" if len(tile_type(op).dims) > 1 else "scale"
        case Unary(fn=fn) | Binary(fn=fn):
            return rules.NAMES.get(fn, f"{fn}_")
        case Compare():
            return "test"
        case Select(no=no) if (fill := filled_with(no)) is not None and fill.value in (math.inf, -math.inf):
            return "masked"
        case Select(condition=Compare(fn="eq", lhs=x)) if x in op.operands:
            return "shift"  # what is subtracted before an exponential, where that is no infinity
        case Select():
            return "chosen"
        case Arg(name=name):
            return name
        case Result(source=ArgReduce(), index=index):
            return ("best", "where")[index]
    return "value"


def read_names(plan: KernelPlan) -> tuple[str, ...]:
    """The reference of each read: the buffer's name, numbered where a kernel reads it in several ways."""
    names: list[str] = []
    for access in plan.reads:
        base, n = access.buffer, 1
        while f"{base}{n if n > 1 else ''}_ref" in names:
            n += 1
        names.append(f"{base}{n if n > 1 else ''}_ref")
    return tuple(names)
