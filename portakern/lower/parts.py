"""Reductions in parts that blocks of their own make, and the kernel that joins them as the loop's ``combine`` says.

A product with few tiles and a long contracted axis leaves most of a device idle.  With ``split_k=4`` in its schedule, four
blocks walk a quarter of that axis for every tile and store what they have carried, unrounded, to a temporary with one more dim;
a second kernel, elementwise over the result and tiled as such, walks the parts and does what follows the product.  Rows
(:mod:`portakern.lower.row_parts`) and attention (:mod:`portakern.lower.attention_parts`) have the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op, Yield, yielded
from portakern.ir.program import Array
from portakern.ir.schedule import Schedule
from portakern.ir.size import Size, ceildiv
from portakern.lower.classes import axis_classes
from portakern.lower.cuts import program_of
from portakern.lower.domain import Domain
from portakern.lower.elementwise import elementwise_domain
from portakern.lower.kernel import Frame, Request, at_most, grid
from portakern.lower.tiles import Coordinates, collapse, wide

OPTION = "split_k"


def parts_of(schedule: Schedule) -> int:
    """How many parts ``schedule`` asks for."""
    asked = schedule.option(OPTION, 1)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise ScheduleError(f"{OPTION}={asked} in the schedule: a positive integer is needed")
    return asked


def parts_axis(domain: Domain, parts: Size) -> t.Axis:
    """The grid axis over parts, by a name that no other axis has."""
    name = "part"
    while any(r.name == name for r in domain.runs):
        name += "_"
    return t.Axis(name, "grid", parts, 1)


def range_of_part(frame: Frame, part: t.Axis, walked: t.Axis) -> tuple[Op, Op]:
    """The coordinates of ``walked`` that a block sums: whole tiles, as many for each part, fewer for the last."""
    b, length = frame.b, ceildiv(walked.steps, int(part.extent)) * walked.tile  # type: ignore[call-overload]
    if isinstance(walked.steps, int) and walked.steps < int(part.extent):  # type: ignore[call-overload]
        raise ScheduleError(f"{walked.name} has {walked.steps} tiles of {walked.tile}, too few for {OPTION}={part.extent}",
                            hint=f"ask for at most {walked.steps} parts, or a smaller tile along {walked.name}")  # fmt: skip
    begin = b.binary("mul", b.add(t.Start(part.name)), b.scalar_size(length))
    end = b.binary("min", b.binary("add", begin, b.scalar_size(length)), b.scalar_size(walked.extent))
    return begin, end


def whole_loop(frame: Frame) -> t.For:
    """The outermost loop of a kernel under construction, which says how parts of it join."""
    return next(op for op in frame.b.ops if isinstance(op, t.For) and op.combine.ops)


def store_part(frame: Frame, part: t.Axis, op: Op, value: Op, what: str = "partial") -> Array:
    """Store ``value``, a part of the tile of ``op``, to a temporary made for it, whose name ends in ``what``."""
    request, shape = frame.request, (part.extent, *tt.tensor_type(op).shape)
    name = f"{request.name}_{what}"
    while name in frame.arrays.types:
        name += "_"
    array = Array(name, t.BufferType(shape, t.tile_type(value).dtype), "temporary")
    frame.arrays.types = {**frame.arrays.types, name: array.type}
    coords = (t.Index.of(part.name), *frame.domain.coords(request.classes.of(op)))
    view, indices = collapse(shape, coords)
    dims = frame.b.dims(*(a for i in indices for a in i.axes))
    frame.b.store(frame.b.fit(value, dims), frame.arrays.view(name, view), indices)
    return array


def join_parts(request: Request, partials: Mapping[Op, Array], combine: Block) -> t.Kernel:
    """The kernel that joins the parts of each of ``partials`` and computes from them what the stage of ``request`` stores."""
    program = request.program
    names = {op: array.name for op, array in partials.items()}
    rest = with_copies(program_of(program, program.results, program.outputs, names))
    # Names of its own, so that tiles asked for the product's axes are not taken for those of this kernel.
    hints = {names[op]: tuple(f"{c.name}_out" for c in request.classes.of(op)) for op in partials}
    mine = replace(request, name=f"{request.name}_join", program=rest, classes=axis_classes(rest, hints))
    domain, family = elementwise_domain(mine)
    live = 2 + sum(1 for a in rest.args if tt.tensor_type(a).shape)
    first = next(iter(partials.values()))
    schedule = mine.choose(replace(mine.nest(family, domain, live), io_dtype=first.dtype))
    at_most(schedule, domain.runs, 2, "axes")
    part = replace(parts_axis(domain, int(first.type.shape[0])), kind="loop")  # type: ignore[union-attr, arg-type]
    frame = Frame(mine, domain, [*grid(domain.runs, schedule), part], schedule, family)
    frame.arrays.types = {**frame.arrays.types, **{x.name: x.type for x in partials.values()}}
    args = {op: next(a for a in rest.args if a.name == name) for op, name in names.items()}
    where = [(x, (t.Index.of(part.name), *domain.coords(_classes_of(mine, args[op])))) for op, x in partials.items()]
    totals = _joined(frame, where, combine)
    frame.w.known.update({args[op]: frame.b.cast(total, wide(tt.tensor_type(op).dtype))
                          for op, total in zip(partials, totals, strict=True)})  # fmt: skip
    for number in range(len(rest.outputs)):
        frame.store(number)
    return frame.finish()


def with_copies(program: tt.TensorProgram) -> tt.TensorProgram:
    """``program`` with results that are arguments made copies of them, which run along the axes of their other uses."""
    *ops, give = program.body.ops
    copies: dict[Op, Op] = {r: tt.Convert(r, tt.tensor_type(r).dtype) for r in program.results if isinstance(r, Arg)}
    return replace(program, body=Block(program.body.args, (*ops, *copies.values(), give.remap(lambda o: copies.get(o, o)))))


def _classes_of(request: Request, arg: Arg):
    """The axes that the dims of an argument run along, where it is first used."""
    user = next(op for op in request.program.body.ops if arg in op.operands)
    return request.classes.of_operand(user, user.operands.index(arg))


def _joined(frame: Frame, partials: Sequence[tuple[Array, Coordinates]], combine: Block) -> tuple[Op, ...]:
    """A walk over the parts: what ``combine`` makes of all before and the next one."""
    b = frame.b
    views = [(x.name, *collapse(x.type.shape, coords)) for x, coords in partials]  # type: ignore[union-attr]
    first = views[0][2][0].axes[0]

    def init(array: Array, indices: Sequence[t.Index]) -> Op:
        dims = b.dims(*(a for i in indices[1:] for a in i.axes))
        return b.full(0.0 if DTYPES[array.dtype].is_float else 0, array.dtype, dims)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        read = (b.load(frame.arrays.view(name, view), indices) for name, view, indices in views)
        return inlined(b, combine, (*carried, *read))

    called = ["acc"] if len(partials) == 1 else [f"acc{number}" for number in range(len(partials))]
    begin = [(name, init(x, view[2])) for name, (x, _), view in zip(called, partials, views, strict=True)]
    return b.loop(first, begin, step, combine=lambda left, right: inlined(b, combine, (*left, *right)))


def inlined(b: Builder, block: Block, values: tuple[Op, ...]) -> tuple[Op, ...]:
    """What ``block`` yields of ``values``, which may have other dims than its arguments.

    Its operations are new ones: none is in two blocks, and a block may be inlined several times.
    """
    made: dict[Op, Op] = dict(zip(block.args, values, strict=True))
    for op in block.ops:
        if not isinstance(op, Yield):
            new = op.remap(made.__getitem__)
            made[op] = b.add(replace(op) if new is op else new)  # type: ignore[type-var]
    return tuple(made[v] for v in yielded(block))
