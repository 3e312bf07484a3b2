"""Values as expressions: written where they are asked for.

A cheap value is computed again in each region that needs it, an expensive one is kept in scratch by the region it
belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from portakern.device import Device
from portakern.emit.running import Running
from portakern.ir.core import Arg, Block, Op, Result, Yield, sources, yielded
from portakern.ir.functions import COSTLY
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
    ScanBy,
    Select,
    SortBy,
    Start,
    TileType,
    Unary,
    tile_type,
)

from ..planning.blocks import SUBLANES, BlockAccess, origin, tuple_text
from ..planning.constants import filled_with, number
from ..planning.joined_rows import Repeated
from ..planning.joined_taps import JoinedTaps, joined_taps
from ..planning.kernel_plan import PallasKernelPlan, ScratchBuffer, kept_at
from ..planning.loops import carried_through, loops_before
from ..planning.picks import found_text, picked_text
from ..planning.scalars import scalar_text
from ..planning.taps import TapLoop
from ..planning.whole_lines import Turned
from ..syntax import operations
from ..syntax.expressions import SUM, BlockAxes, PlacedExpr, call, infix
from . import folds
from .assembly import fill_value
from .names import fresh, hint, read_names
from .regions import Region
from .shapes import Shapes, in_steps

INLINE = 64  # characters; a longer expression gets a name


class Values:
    """The values of a kernel in its regions; adds the statements that compute them."""

    def __init__(self, plan: PallasKernelPlan, reserved: set[str], device: Device) -> None:
        self.plan = plan
        self.device = device
        self.reserved = reserved
        self.shapes = Shapes(plan)
        self.slots: dict[Op, ScratchBuffer] = {}  # carried arguments and results of loops, and kept values
        self.kept: dict[Op, ScratchBuffer] = {}
        self.home: dict[Op, Region] = {}
        self.uses = _uses(plan.kernel)
        self.contracted = {op.axis for op in plan.kernel.body.walk() if isinstance(op, Reduce | Running | ArgReduce | Dot)}
        self.helpers: dict[str, None] = {}
        self.functions: dict[object, str] = {}  # of scans, by what they say
        self.scans: dict[int, dict[ScanBy | SortBy, list[str]]] = {}  # the names of their results, by region
        self.frames: dict[tuple[str, str], str] = {}  # framed blocks by region and reference
        self.tap_loops: list[TapLoop] = []  # those around what is written now
        for (loop, position), slot in plan.slots.items():
            self.slots[loop.body.args[position]] = slot
        for op in plan.kernel.body.walk():
            if isinstance(op, Result) and isinstance(op.source, For) and not isinstance(op.source, TapLoop):
                self.slots[op] = plan.slots[op.source, op.index]

    def scalar(self, op: Op) -> PlacedExpr:
        taps = {a: replace(self.plan.spans[a], begin=name) for a, name in self.shapes.taps.items()}
        return scalar_text(op, {**self.plan.spans, **taps}) or PlacedExpr("0")

    def value(self, region: Region, op: Op, last: bool = False) -> PlacedExpr:
        """``op`` as an expression in ``region``; statements that compute it are added before.

        ``last``: the expression ends a statement of its own, so it needs no name however long it is.
        """
        if op in region.values:
            return region.values[op]
        if (constant := number(op)) is not None:
            return operations.number(constant, "f32")
        slot = self.slots.get(op) or self._keep(region, op)
        if slot is not None:
            expr = self.shapes.read(slot.name, slot.place)
            # What the loop still changes is read at once; a finished value where it is used.
            if isinstance(op, Arg) or self.uses[op] > 1:
                expr = self._name(region, slot.name.removesuffix("_ref"), expr, origin(op))
        else:
            expr = self.compute(region, op)
            if expr.place is not None:
                expr = self.shapes.turn(expr, self.plan.layout.place(op), tile_type(op).dtype)
            if self._wants_name(op, expr) and not (last and self.uses[op] == 1):
                expr = self._name(region, hint(op), expr, origin(op))
        region.values[op] = expr
        return expr

    def _keep(self, region: Region, op: Op) -> ScratchBuffer | None:
        """Scratch for a value that is expensive and belongs to another region."""
        home = self.home.get(op)
        if home is None or home is region or home is region.around or not self._expensive(op):
            return None
        if op not in self.kept:
            name = f"{hint(op)}_ref"
            taken = {s.name for s in (*self.slots.values(), *self.kept.values())} | self.reserved
            n = 1
            while name in taken:
                n += 1
                name = f"{hint(op)}_{n}_ref"
            dtype = tile_type(op).dtype
            slot = ScratchBuffer(name, kept_at(self.plan.layout.place(op), dtype), dtype, "kept for the steps of the loop")
            self.kept[op] = slot
            with self.shapes.part({}, {}):
                home.add(f"{name}[...] = {self.shapes.fill(self.value(home, op), slot.place, dtype).text}", origin(op))
        return self.kept[op]

    def _expensive(self, op: Op) -> bool:
        """Whether a tile takes sums, or functions of blocks, to compute."""
        found = sources(op, lambda o: o.operands if self._is_computed(o) else ())
        return any(self._is_computed(o) and self._costs(o) for o in found)

    def _is_computed(self, op: Op) -> bool:
        return op not in self.slots and isinstance(op.type, TileType) and bool(op.type.dims)

    def _costs(self, op: Op) -> bool:
        if isinstance(op, Reduce | Running | Dot) or (isinstance(op, Result) and isinstance(op.source, TapLoop)):
            return True
        return isinstance(op, Unary) and op.fn in COSTLY and len(tile_type(op).dims) == 2

    def _wants_name(self, op: Op, expr: PlacedExpr) -> bool:
        if expr.literal or expr.text.isidentifier() or isinstance(op, Const | Extent):
            return False
        if isinstance(op, Dot) and filled_with(op.acc) is None:
            return self.uses[op] > 1
        if self.uses[op] > 1:
            return not isinstance(op, Broadcast | Start | Permute)
        return len(expr.text) > INLINE

    def _name(self, region: Region, wanted: str, expr: PlacedExpr, where: str) -> PlacedExpr:
        name = fresh(wanted, region.names)
        region.add(f"{name} = {expr.text}", where)
        return PlacedExpr(name, expr.place)

    def full(self, region: Region, op: Op, last: bool = False) -> PlacedExpr:
        """``op`` with every element of its block spelled out."""
        return self.shapes.fill(self.value(region, op, last), self.plan.layout.place(op), tile_type(op).dtype)

    def compute(self, region: Region, op: Op) -> PlacedExpr:
        match op:
            case Const():
                return operations.number(op.value, op.dtype)
            case Extent() | Start():
                return self.scalar(op)
            case Coord():
                return self._coordinate(region, op) if op.dims else self.scalar(op)
            case Arg():
                return PlacedExpr(f"{op.name}_ref[0, 0]")
            case Unary():
                return self._unary(region, op)
            case Binary() | Compare():
                return self._binary(region, op)
            case Select():
                condition, yes, no = (self.value(region, x) for x in (op.condition, op.yes, op.no))
                return operations.select(condition, yes, no, tile_type(op).dtype)
            case Cast():
                return self._cast(region, op)
            case Bitcast():
                return call("jax.lax.bitcast_convert_type", self.value(region, op.x), extra=operations.JNP[op.dtype])
            case Broadcast():
                x = self.value(region, op.x)
                if len(op.dims) < 2:
                    return x
                place = self.plan.layout.place(op)
                return self.shapes.spread(self.shapes.turn(x, place, tile_type(op).dtype), place)
            case Permute():
                x = self.value(region, op.x)
                swapped = op.axes != tile_type(op.x).axes and x.place is not None
                return PlacedExpr(f"{x.at(0)}.T", (x.place[1], x.place[0])) if swapped and x.place else x
            case Turned():
                x = self.full(region, op.x)
                return PlacedExpr(f"pltpu.roll({x.text}, {op.by}, 1)", x.place)
            case Repeated():
                x, place = self.value(region, op.x), self.plan.layout.place(op)
                few, columns = (self.shapes.spans[a].text for a in tile_type(op.x).axes)
                spread = f"jnp.broadcast_to({x.at(0)}[:, None], ({few}, {op.times}, {columns}))"
                return PlacedExpr(f"{spread}.reshape({self.shapes.spans[op.dims[0][0]].text}, {columns})", place)
            case Mask():
                return self._mask(region, op)
            case Load(dims=()) if op.buffer.name in self.plan.prefetched:  # type: ignore[attr-defined]
                return picked_text(op, self.shapes.spans) or self._load(region, op)
            case Load():
                return self._load(region, op)
            case Reduce():
                return self._reduce(region, op)
            case Running():
                return self._running(region, op)
            case Dot():
                return self._dot(region, op)
            case Result(source=TapLoop() as source):
                return self._over_taps(region, source, op.index)
            case Result(source=ScanBy() as source):
                return self._scan_by(region, source, op.index)
            case Result(source=SortBy() as source):
                return self._sort_by(region, source, op)
            case Result(source=ArgReduce() as source):
                return self._arg_reduce(region, source, op.index)
        raise AssertionError(op.mnemonic())  # reported as missing before

    def _unary(self, region: Region, op: Unary) -> PlacedExpr:
        x = self.value(region, op.x)
        if op.fn in operations.HELPERS:
            self.helpers[op.fn] = None
        if x.place is None and op.fn not in ("neg", "not", "abs"):
            # The scalar core has no transcendental functions; a vector of one element does.
            x = self.shapes.fill(x, (None, None), tile_type(op.x).dtype)
        return operations.unary(op.fn, x, tile_type(op).dtype)

    def _binary(self, region: Region, op: Binary | Compare) -> PlacedExpr:
        lhs, rhs, dtype = self.value(region, op.lhs), self.value(region, op.rhs), tile_type(op.lhs).dtype
        if op.fn == "pow" and lhs.place is None and rhs.place is None:
            lhs = self.shapes.fill(lhs, (None, None), dtype)
        return operations.binary(op.fn, lhs, rhs, dtype)

    def _cast(self, region: Region, op: Cast) -> PlacedExpr:
        if isinstance(op.x, Const):
            return operations.number(op.x.value, op.dtype)
        if isinstance(op.x, Load) and op.dtype == "f32" and self.uses[op.x] == 1:
            return self._load(region, op.x, op.dtype)  # masks are cheapest at 32 bits
        return operations.converted(self.value(region, op.x), tile_type(op.x).dtype, op.dtype)

    def _coordinate(self, region: Region, op: Coord) -> PlacedExpr:
        side = self.plan.layout.place(op).index(op.axis)
        x = self._axis_coordinates(region, op.axis, side)
        return x if op.dtype in ("i32", "i64") else operations.cast(x, op.dtype)

    def _axis_coordinates(self, region: Region, axis: str, side: int) -> PlacedExpr:
        """The coordinates of an axis along the rows (0) or columns (1) of a block."""
        if (axis, side) not in region.coordinates:
            place: BlockAxes = (axis, None) if side == 0 else (None, axis)
            count = PlacedExpr(f"jax.lax.broadcasted_iota(jnp.int32, {self.shapes.sizes(place)}, {side})", place)
            start = PlacedExpr(self.shapes.spans[axis].start, None, 3)
            text = count if start.text == "0" else infix("+", start, count)
            region.coordinates[axis, side] = self._name(region, "cols" if side else "rows", text, "")
        return region.coordinates[axis, side]

    def _inside(self, region: Region, axis: str, side: int) -> PlacedExpr:
        """Which elements along one side of a block lie inside the extent of ``axis``."""
        extent = self.shapes.spans[axis].axis.extent
        return infix("<", self._axis_coordinates(region, axis, side), PlacedExpr(str(extent), None, SUM))

    def _mask(self, region: Region, op: Mask) -> PlacedExpr:
        x = self.value(region, op.x)
        if not self._matters(op.axis):
            return x
        inside = self._inside(region, op.axis, self.plan.layout.place(op).index(op.axis))
        return _where(inside, x, op.value, tile_type(op).dtype)

    def _matters(self, axis: str) -> bool:
        """Whether what lies outside the extent of ``axis`` can be seen: only what is summed over the axis sees it."""
        return self.plan.spans[axis].ragged and axis in self.contracted

    def _load(self, region: Region, op: Load, dtype: str = "") -> PlacedExpr:
        """The block of a load, cast to ``dtype`` if one is given, with its pad where that can be seen."""
        assert isinstance(op.buffer, Arg)
        number = self.plan.read_number(op)
        access = self.plan.reads[number]
        name = read_names(self.plan)[number]
        name = self._source(region, name, access)
        x = self.shapes.window(name, access) if access.window else self.shapes.read(name, access.place, access.cut)
        if len(x.text) > INLINE:
            x = self._name(region, hint(op), x, origin(op))
        have, place = access.dtype, access.place
        if access.flat:
            place = self.plan.layout.place(op)
            # Mosaic turns no 16-bit row into a column.
            detour = have if place[0] and have == "bf16" and dtype != "f32" else ""
            x = operations.cast(x, "f32") if detour else x
        if dtype and dtype != have:
            x, have = operations.cast(x, dtype), dtype
        if access.flat:
            index = "[None, :]" if not place[0] else "[:, None]" if self.device.has("sublane_gather") else "[None, :].T"
            x = PlacedExpr(f"{x.at(0)}{index}", place)
            x = operations.cast(x, detour) if detour else x
        conditions = []
        if op.pad is not None:
            conditions = [self._inside(region, a, side) for side, a in enumerate(place) if a and self._matters(a)]
        if op.gathers:  # of windows there are none, whose dims may be more than those of the array
            picked = [(i.gather, size) for i, size in zip(op.indices, access.view.shape, strict=True) if i.gather >= 0]
            conditions += [found_text(op.gathers[number], size, self.shapes.spans) for number, size in picked]
        if conditions:
            both = reduce(lambda one, other: infix("&", one, other), conditions)
            rows = place[0]
            # Mosaic has no 16-bit masks for fewer rows than a tile of 32-bit values has, nor for rows that a tap has shifted.
            shifted = bool(access.window) and bool(access.window[-2].taps)
            few = have == "bf16" and (rows is None or self.shapes.spans[rows].size < SUBLANES or shifted)
            padded = _where(both, operations.cast(x, "f32") if few else x, op.pad or 0, "f32" if few else have)
            x = operations.cast(padded, have) if few else padded
        dims = tile_type(op).axes
        if len(dims) == 2 and dims != place:
            return PlacedExpr(f"{x.at(0)}.T", (place[1], place[0]))
        return x

    def _over_taps(self, region: Region, loop: TapLoop, index: int) -> PlacedExpr:
        """What a loop over taps carries at its end; the loop is written where it is asked for first."""
        carried = loop.body.args
        if carried[index] in region.values:
            return region.values[carried[index]]
        if (joined := joined_taps(loop, lambda op: self.plan.reads[self.plan.read_number(op)])) is not None:
            return self._joined(region, joined)
        for earlier in loops_before(loop, region.values):
            self.value(region, earlier)
        inner = Region("", names=region.names, loops=region.loops, around=region, values=dict(region.values),
                       coordinates=dict(region.coordinates))  # fmt: skip
        shared = carried_through(around[-1], loop) if (around := self.tap_loops) else {}
        for n, (arg, start) in enumerate(zip(carried, loop.init, strict=True)):
            assert isinstance(arg, Arg)
            made = region.values[start] if n in shared else self._started(region, start)
            inner.values[arg] = made if n in shared else self._name(region, arg.name, made, origin(start))
        self.shapes.taps[loop.axis] = tap = fresh("tap", region.names)
        ends = yielded(loop.body)
        self.tap_loops.append(loop)
        ready = [self.full(inner, value, last=len(ends) == 1) for value in ends]
        self.tap_loops.pop()
        names = [inner.values[a].text for a in carried]
        if names == [x.text for x in ready]:
            pass  # a loop inside has carried them on
        elif len(ends) == 1 and ready[0].binding == SUM and ready[0].text.startswith(f"{names[0]} + "):
            inner.add(f"{names[0]} += {ready[0].text[len(names[0]) + 3 :]}", origin(ends[0]))
        else:
            inner.add(f"{', '.join(names)} = {', '.join(x.text for x in ready)}", origin(ends[0]))
        region.add(f"for {tap} in range({self.plan.spans[loop.axis].axis.extent}):")
        region.lines += [(f"    {text}", where) for text, where in inner.lines]
        del self.shapes.taps[loop.axis]
        region.values.update((a, inner.values[a]) for a in carried)
        return region.values[carried[index]]

    def _joined(self, region: Region, taps: JoinedTaps) -> PlacedExpr:
        """The product of the windows of all taps, side by side, with their weights, one below the other."""
        numbers = [self.plan.read_number(op) for op in (taps.windows, taps.weights)]
        names = [read_names(self.plan)[n] for n in numbers]
        windows, weights = (self.plan.reads[n] for n in numbers)
        source = self._source(region, names[0], windows)
        inside = set(region.names)
        called = {x.axis: fresh("tap", inside) for x in taps.loops}
        walks = [(called[x.axis], int(self.plan.spans[x.axis].axis.extent)) for x in taps.loops]  # type: ignore[arg-type]
        summed = prod(n for _, n in walks) * self.plan.spans[taps.dot.axis].size
        self.shapes.taps.update(called)
        rows = self.shapes.window(source, windows, walks, str(summed))
        for axis in called:
            del self.shapes.taps[axis]
        rows = self.shapes.turn(rows, self.plan.layout.place(taps.windows), tile_type(taps.windows).dtype)
        name = self._name(region, "windows", rows, origin(taps.dot))
        columns = self.shapes.read(names[1], weights.place).text.split("[")[0]
        below = PlacedExpr(f"{columns}[...].reshape({summed}, {self.shapes.spans[weights.place[1] or ''].text})", weights.place)
        operands = folds.operands(taps.dot, self.plan.layout)
        a, b = (name, below) if operands[0] is taps.windows else (below, name)
        product = folds.product(taps.dot, *operands, a, b, self.plan.layout, self.shapes)
        start = taps.loops[0].init[0]
        fill = filled_with(start)
        return product if fill is not None and fill.value == 0 else infix("+", self.value(region, start), product)

    def _started(self, region: Region, start: Op) -> PlacedExpr:
        place, kind = self.plan.layout.place(start), operations.JNP[tile_type(start).dtype]
        fill = filled_with(start)
        if fill is not None and fill.value == 0 and tile_type(start).dims:
            return PlacedExpr(f"jnp.zeros({self.shapes.sizes(place)}, {kind})", place)
        return self.full(region, start)

    def _source(self, region: Region, reference: str, access: BlockAccess) -> str:
        """The name of what windows are taken of: the reference, or its block with what lies around it and cut into steps, which
        is made before all loops over taps."""
        steps = in_steps(access)
        if access.inside is None and not steps:
            return reference
        while region.around is not None:
            region = region.around
        if (found := self.frames.get((region.title, reference))) is not None:
            return found
        text = f"{reference}[...]"
        if access.inside is not None:
            ends = [e for e, b in zip(access.inside.around, access.block, strict=True) if b is not None]
            fill = fill_value(access.inside.fill)
            text = f"jnp.pad({text}, {tuple_text(tuple(f'({a}, {b})' for a, b in ends))}"
            text += ")" if fill in ("0", "0.0") else f", constant_values={fill})"
        name = fresh(access.buffer, region.names)
        region.add(f"{name} = {text}" + (f".reshape({', '.join(steps)})" if steps else ""))
        self.frames[region.title, reference] = name
        return name

    def _reduce(self, region: Region, op: Reduce) -> PlacedExpr:
        if op.fn == "prod":
            self.helpers["reduce_product"] = None
        return folds.reduced(op, self.full(region, op.x), self.plan.layout.place(op.x))

    def _running(self, region: Region, op: Running) -> PlacedExpr:
        self.helpers["running"] = None
        place = self.plan.layout.place(op.x)
        made = folds.running(op, self.full(region, op.x), place)
        if op.before is None or folds.starts_fresh(op):
            return made
        return folds.joined(op, self.shapes.spread(self.value(region, op.before), place), made)

    def _scan_by(self, region: Region, op: ScanBy, index: int) -> PlacedExpr:
        """One array of a scan; all of them are made at once."""
        place, known = self.plan.layout.place(op.xs[0]), self.scans.setdefault(id(region), {})
        if op not in known:
            self.helpers["running_by"] = None
            arrays = [a.name.removesuffix("_left") for a in op.join.args[: len(op.xs)]]  # type: ignore[attr-defined]
            xs = ", ".join(self.full(region, x).text for x in op.xs)
            join = self._function(op.join, place)
            known[op] = [fresh(f"running_{name}", region.names) for name in arrays]
            made = ", ".join(known[op]) if len(known[op]) > 1 else f"({known[op][0]},)"
            region.add(f"{made} = running_by({join}, {place.index(op.axis)}, {xs})", origin(op))
        return PlacedExpr(known[op][index], place)

    def _sort_by(self, region: Region, op: SortBy, result: Result) -> PlacedExpr:
        """One array of a sort; all of them are sorted at once, and the first elements of each line are sliced off."""
        place, known = self.plan.layout.place(op.xs[0]), self.scans.setdefault(id(region), {})
        if op not in known:
            self.helpers["sorted_by"] = None
            xs = [self.full(region, x).text for x in op.xs]
            known[op] = [fresh(f"sorted_{hint(x)}", region.names) for x in op.xs]
            made = ", ".join(known[op]) if len(known[op]) > 1 else f"({known[op][0]},)"
            region.add(f"{made} = sorted_by({place.index(op.axis)}, {', '.join(xs)})", origin(op))
        name = known[op][result.index]
        if not op.into:
            return PlacedExpr(name, place)
        span = self.plan.spans[op.into[0][0]].size
        return PlacedExpr(f"{name}[:, :{span}]" if place[1] == op.axis else f"{name}[:{span}]", self.plan.layout.place(result))

    def _function(self, join: Block, place: BlockAxes) -> str:
        """The name of the function that ``join`` becomes, which stands above the kernel and takes blocks."""
        name = f"{self.plan.name}_join{len(self.functions) or ''}"
        if join.says not in self.functions:
            self.functions[join.says] = name
            names: set[str] = set()
            values = {a: PlacedExpr(fresh(a.name, names), place) for a in join.args}  # type: ignore[attr-defined]
            lines = [f"def {name}({', '.join(v.text for v in values.values())}):"]
            for op in join.ops:
                if isinstance(op, Yield):
                    given = ", ".join(values[v].text for v in op.values)
                    lines.append(f"    return {given}{',' if len(op.values) == 1 else ''}")
                    continue
                values[op] = self._in_function(op, [values[o] for o in op.operands])
                if sum(o is op for user in join.ops for o in user.operands) > 1:
                    lines.append(f"    {fresh(hint(op), names)} = {values[op].text}")
                    values[op] = PlacedExpr(lines[-1].split()[0], place)
            self.helpers["\n".join(lines) + "\n"] = None
        return self.functions[join.says]

    def _in_function(self, op: Op, args: Sequence[PlacedExpr]) -> PlacedExpr:
        """An operation of a function of elements, on blocks of them."""
        match op:
            case Const():
                return operations.number(op.value, op.dtype)
            case Extent():
                return self.scalar(op)
            case Unary():
                if op.fn in operations.HELPERS:
                    self.helpers[op.fn] = None
                return operations.unary(op.fn, args[0], tile_type(op).dtype)
            case Binary() | Compare():
                return operations.binary(op.fn, args[0], args[1], tile_type(op.lhs).dtype)
            case Select():
                return operations.select(args[0], args[1], args[2], tile_type(op).dtype)
            case Cast():
                return PlacedExpr(f"{args[0].at(0)}.astype({operations.JNP[op.dtype]})", args[0].place)
        raise AssertionError(op.mnemonic())

    def _arg_reduce(self, region: Region, op: ArgReduce, index: int) -> PlacedExpr:
        x = self.full(region, op.x)
        if not x.text.isidentifier():
            x = self._name(region, hint(op.x), x, origin(op.x))
        place = self.plan.layout.place(op.x)
        if index == 0:
            return folds.extreme(op, x, place)
        return folds.where_extreme(op, x, place, self._axis_coordinates(region, op.axis, place.index(op.axis)))

    def _operand(self, region: Region, op: Op) -> PlacedExpr:
        x = self.full(region, op)
        return x if len(x.text) <= INLINE // 2 else self._name(region, hint(op), x, origin(op))

    def _dot(self, region: Region, op: Dot) -> PlacedExpr:
        lhs, rhs = folds.operands(op, self.plan.layout)
        a, b = self._operand(region, lhs), self._operand(region, rhs)
        product = folds.product(op, lhs, rhs, a, b, self.plan.layout, self.shapes)
        fill = filled_with(op.acc)
        if fill is not None and fill.value == 0:
            return product
        # The sum itself may be long: it stands on a line of its own, and long lines are broken.
        return infix("+", self.value(region, op.acc), product)


def _where(condition: PlacedExpr, x: PlacedExpr, otherwise: float | int | bool, dtype: str) -> PlacedExpr:
    """``x`` where the condition holds.  Masks are 32-bit, so 8-bit values take a detour; booleans are logic."""
    if dtype == "bool":
        if otherwise:
            return infix("|", x, operations.unary("not", condition, "bool"))
        return infix("&", x, condition)
    if dtype in ("i8", "u8"):
        chosen = call("jnp.where", condition, operations.cast(x, "i32"), operations.number(otherwise, "i32"))
        return operations.cast(chosen, dtype)
    return call("jnp.where", condition, x, operations.number(otherwise, dtype))


def _uses(kernel: Kernel) -> Counter[Op]:
    uses: Counter[Op] = Counter()
    for op in kernel.body.walk():
        if isinstance(op, For):
            uses.update(op.init)
        else:
            uses.update(op.operands)
    return uses
