"""The contraction family: one matrix product with the elementwise work on its operands and on its result.

Of the axes that only one operand has, the innermost becomes the tile axis (m or n) and further ones become grid axes
of tile 1; of the contracted axes the last is walked in tiles and further ones one coordinate at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Op
from portakern.ir.schedule import Nest, Schedule
from portakern.lower.classes import AxisClass
from portakern.lower.domain import Domain, Run, innermost, merge
from portakern.lower.kernel import Frame, Lowered, NoSchedule, Request, along, grid, one_by_one
from portakern.lower.parts import join_parts, parts_axis, parts_of, range_of_part, store_part, whole_loop
from portakern.lower.rows import Range, nested
from portakern.lower.tiles import Coordinates, wide


def lower_contraction(request: Request) -> Lowered:
    contract = next(op for op in request.program.body.ops if isinstance(op, tt.Contract))
    summed = next((op for op in request.program.body.ops if isinstance(op, tt.Fold)), None)
    return _lowered(request, [contract], summed)


def lower_pair(request: Request) -> Lowered:
    """Products that share an operand, in one walk."""
    pair = [op for op in request.program.body.ops if isinstance(op, tt.Contract)]
    places = {tuple(c for i in (0, 1) for c in request.classes.of_operand(op, i)) for op in pair}
    if len(places) != 1:
        raise NoSchedule("two products that do not run along the same axes")
    return _lowered(request, pair)


def _lowered(request: Request, products: Sequence[tt.Contract], summed: tt.Fold | None = None) -> Lowered:
    """``products`` run along the same axes; ``summed`` is the sum over batches of the only one."""
    first = products[0]
    domain = _domain(request, first, summed)
    live = 3 if summed is None else 4
    nest = request.nest("contraction", domain, live, dots=operand_dtype(first), precision=first.precision)
    mapped = domain.role("reduced")[0].name if summed is not None else ""
    nest = replace(_placed(request, domain, nest, first), products=len(products), mapped=mapped)
    schedule = request.choose(nest)
    one_by_one(schedule, [*domain.role("batch"), *domain.role("reduced")])
    parts = parts_of(schedule)
    cut = _cut(domain, nest, schedule) if parts > 1 else None
    axes = _axes(domain, schedule)
    if summed is not None or (cut is not None and cut.role != "k"):
        # A block that one tile covers is a step of the walk over blocks, as its operands are fetched.
        axes[-1] = along(domain.role("k")[0], schedule)
    part = parts_axis(domain, parts) if cut is not None else None
    frame = Frame(request, domain, axes if part is None else [part, *axes], schedule, "contraction")
    ranges = {cut.name: range_of_part(frame, part, frame.b.axis[cut.name])} if cut is not None and part is not None else None
    sums: dict[Op, Op] = (dict(zip(products, _products(frame, products, ranges), strict=True)) if summed is None
                          else {summed: _sum_of_products(frame, first, summed, ranges)})  # fmt: skip
    if part is not None:
        names = ["partial"] if len(sums) == 1 else [f"partial{number}" for number in range(len(sums))]
        made = {op: store_part(frame, part, op, acc, name) for (op, acc), name in zip(sums.items(), names, strict=True)}
        return Lowered((frame.finish(), join_parts(request, made, whole_loop(frame).combine)), tuple(made.values()))
    frame.w.known.update({op: frame.b.cast(acc, wide(tt.tensor_type(op).dtype)) for op, acc in sums.items()})
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return Lowered((frame.finish(),))


def _cut(domain: Domain, nest: Nest, schedule: Schedule) -> Run:
    """The axis of which blocks take a part each (split-K), and another kernel joins their sums."""
    chosen = nest.divided(dict(schedule.tiles))
    return next(r for r in domain.runs if chosen is not None and r.name == chosen.name)


def operand_dtype(op: tt.Contract) -> str:
    return tt.tensor_type(op.lhs).dtype


def free_classes(request: Request, op: tt.Contract) -> tuple[list[AxisClass], ...]:
    """Axis classes of batch, of the free dims of each side, and of the contracted dims."""
    lhs, rhs = request.classes.of_operand(op, 0), request.classes.of_operand(op, 1)
    return ([lhs[i] for i in op.lhs_batch], [lhs[i] for i in op.lhs_free], [rhs[i] for i in op.rhs_free],
            [lhs[i] for i in op.lhs_axes])


def _domain(request: Request, op: tt.Contract, over: tt.Fold | None = None) -> Domain:
    """``over`` sums batches of ``op``: these are walked, before what a single product sums."""
    batch, left, right, summed = free_classes(request, op)
    seen, apart = request.accesses(), request.unmergeable()
    walked_batches = {request.classes.of_operand(over, 0)[a] for a in over.axes} if over is not None else set()
    runs: list[Run] = [Run((c,), "batch") for c in batch if c.extent != 1 and c not in walked_batches]
    tiles: list[Run] = []
    for side, role in zip((right, left) if turned(request, op) else (left, right), "mn", strict=True):
        merged = merge(side, role, seen, apart)
        main = _main(merged)
        runs += [Run(r.classes, "batch") for r in merged if r is not main and r.extent != 1]
        tiles.append(main)
    walked = merge(summed, "k", seen, apart)
    main = _main(walked)
    outer = [Run(r.classes, "reduced") for r in walked if r is not main and r.extent != 1]
    before = [Run((c,), "reduced") for c in batch if c.extent != 1 and c in walked_batches]
    return Domain([*runs, *tiles, *before, *outer, main])


def turned(request: Request, op: tt.Contract) -> bool:
    """Whether the operands change places: neighbours of every result in memory run along the free dims of the left one."""
    _, left, right, _ = free_classes(request, op)
    inner = [next((c for c in reversed(request.classes.of(r)) if c.extent != 1), None) for r in request.program.results]
    return any(c in left for c in inner) and not any(c in right for c in inner)


def _placed(request: Request, domain: Domain, nest: Nest, op: tt.Contract) -> Nest:
    """``nest`` of ``op``, which knows how its operands lie in memory."""
    return replace(nest, turned=_lines_of_rows(request, domain), across=_lines_of_columns(request, domain, op))


def _lines_of_rows(request: Request, domain: Domain) -> bool:
    """Whether an array that has rows and what is summed, but no columns, is contiguous along the rows."""
    rows, columns, summed = ({c for r in domain.role(x) for c in r.classes if c.extent != 1} for x in "mnk")
    left = [dims for dims in request.accesses() if rows.intersection(dims) and summed.intersection(dims)]
    return not rows.isdisjoint(innermost(dims for dims in left if columns.isdisjoint(dims)))


def _lines_of_columns(request: Request, domain: Domain, op: tt.Contract) -> bool:
    """Whether the right operand of ``op`` is an array that is contiguous along the columns."""
    number = 0 if turned(request, op) else 1
    dim = _contiguous_dim(op.operands[number])
    columns = {c for r in domain.role("n") for c in r.classes}
    return dim is not None and request.classes.of_operand(op, number)[dim] in columns


def _contiguous_dim(op: Op) -> int | None:
    """The dim of ``op``, an array seen from any side, along which neighbours are neighbours in memory."""
    match op:
        case Arg():
            return _last(op)
        case tt.Convert(x=x) | tt.Slice(x=x):
            return _contiguous_dim(x)
        case tt.Transpose(x=x, order=order):
            inner = _contiguous_dim(x)
            return None if inner is None else order.index(inner)
        case tt.Expand(x=x, dims=dims):
            inner = _contiguous_dim(x)
            return None if inner is None else dims[inner]
        case tt.Reshape(x=x):
            return _last(op) if _contiguous_dim(x) == _last(x) else None
    return None


def _last(op: Op) -> int | None:
    """The last dim with more than one element."""
    shape = tt.tensor_type(op).shape
    return next((d for d in reversed(range(len(shape))) if shape[d] != 1), None)


def _main(runs: Sequence[Run]) -> Run:
    """The run that is tiled: the innermost one with more than one element."""
    long = [r for r in runs if r.extent != 1]
    return long[-1] if long else runs[-1]


def _axes(domain: Domain, schedule: Schedule) -> list[t.Axis]:
    cells = [*domain.role("batch"), *domain.role("m"), *domain.role("n")]
    walked = [*domain.role("reduced"), *domain.role("k")]
    return [*grid(cells, schedule), *(t.Axis(r.name, "loop", r.extent, schedule.tile(r.name)) for r in walked)]


def coords(frame: Frame, classes: Sequence[AxisClass]) -> Coordinates:
    return frame.domain.coords(classes)


def _products(frame: Frame, ops: Sequence[tt.Contract], ranges: Mapping[str, Range] | None = None, runs: Sequence[Run] = ()
              ) -> tuple[Op, ...]:  # fmt: skip
    """The sums of ``ops``, which run along the same axes, as they are accumulated: in one walk over all contracted axes
    (``runs`` where others are walked), or over ``ranges`` of some."""
    b = frame.b
    m, n, k = (frame.domain.role(r)[0].name for r in "mnk")
    dtype = ops[0].dtype if DTYPES[ops[0].dtype].bits >= 32 else "f32"
    sides = [[(x, coords(frame, frame.request.classes.of_operand(op, i))) for i, x in enumerate((op.lhs, op.rhs))]
             for op in ops]  # fmt: skip
    if turned(frame.request, ops[0]):
        sides = [both[::-1] for both in sides]

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        return tuple(dot(frame, op, both, acc, (m, n, k)) for op, both, acc in zip(ops, sides, carried, strict=True))

    zero = b.full(0.0 if DTYPES[dtype].is_float else 0, dtype, b.dims(m, n))
    init = [("acc" if len(ops) == 1 else f"acc{number}", zero) for number in range(len(ops))]
    walked = runs or [*frame.domain.role("reduced"), *frame.domain.role("k")]
    return nested(frame, walked, init, step, _add(frame), ranges)


def _sum_of_products(frame: Frame, op: tt.Contract, over: tt.Fold, ranges: Mapping[str, Range] | None = None) -> Op:
    """The sum ``over`` batches, or over ``ranges`` of them, of what is made of the product of each."""
    b, classes = frame.b, frame.request.classes
    walked = {classes.of_operand(over, 0)[a] for a in over.axes}
    reduced = frame.domain.role("reduced")
    outer = [r for r in reduced if walked.issuperset(r.classes)]
    inner = [*(r for r in reduced if r not in outer), *frame.domain.role("k")]
    dtype = wide(tt.tensor_type(over).dtype)
    dims = b.dims(*(frame.domain.role(r)[0].name for r in "mn"))

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        (product,) = _products(frame, [op], ranges, inner)
        frame.w.known[op] = b.cast(product, wide(op.dtype))
        made = b.fit(frame.w.value(over.x, coords(frame, classes.of_operand(over, 0))), dims)
        del frame.w.known[op]
        return (b.binary("add", carried[0], made),)

    init = b.full(0.0 if DTYPES[dtype].is_float else 0, dtype, dims)
    (total,) = nested(frame, outer, [("total", init)], step, _add(frame), ranges)
    return total


def _add(frame: Frame):
    """How two parts of a sum join."""
    return lambda left, right: tuple(frame.b.binary("add", a, b) for a, b in zip(left, right, strict=True))


def dot(frame: Frame, op: tt.Contract | tt.SegmentContract, sides: Sequence[tuple[Op, Coordinates]], acc: Op,
        axes: tuple[str, str, str]) -> Op:  # fmt: skip
    """``acc`` plus one tile's product of two operands at their coordinates; ``axes`` are the names of its m, n and k."""
    m, n, k = axes
    left, right = (operand(frame, x, where, (free, k), k) for (x, where), free in zip(sides, (m, n), strict=True))
    return frame.b.add(t.Dot(left, right, acc, k, op.precision, loc=op.loc))


def operand(frame: Frame, op: Op, where: Coordinates, dims: tuple[str, str], k: str) -> Op:
    """An operand tile in its own dtype, over exactly ``dims`` in whatever order it comes, zero outside the extent of
    ``k``."""
    b = frame.b
    x = frame.w.value(op, where)
    have = t.tile_type(x)
    lacking = [a for a in dims if a not in have.axes and b.dims(a)]
    if lacking:  # constant along an axis: a broadcast operand
        x = b.fit(x, b.dims(*dims))
    if b.axis[k].ragged:
        x = b.add(t.Mask(x, k, 0.0 if DTYPES[have.dtype].is_float else 0))
    return b.cast(x, tt.tensor_type(op).dtype)
