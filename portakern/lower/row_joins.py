"""The kernel that joins what blocks have found of parts of rows, and stores what follows from whole rows.

A few parts are joined one after the other as the loop that made them says.  With more of them that would be one access to
memory after another, for a thread of each row: then all parts of a row are a tile, which is reduced as rows are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array
from portakern.ir.schedule import Schedule
from portakern.ir.size import Size, product
from portakern.lower.classes import AxisClass
from portakern.lower.domain import Domain, Run
from portakern.lower.elementwise import ONE
from portakern.lower.kernel import Frame, Request, at_most, grid
from portakern.lower.parts import inlined, parts_axis
from portakern.lower.rows import Carried, Folding, fold_of, identity, rows_nest
from portakern.lower.tiles import Coordinates, collapse, wide

MANY = 16
"""Parts that are joined at once: 75 parts of 4 sums one after the other took an H200 some 3 us."""

FEW = 1024
"""Rows of which that is worth it: neighbouring rows lie side by side, which a tile along parts reads one by one."""

Parts = Mapping[Carried, Array]
"""What is joined: for what the walks carried, an array of all parts, which lie along its first dim."""


def join_rows(request: Request, arrays: Parts, made: Mapping[tt.Fold, Array], known: Mapping[Op, Array], combine: Block,
              follow: Sequence[int]) -> t.Kernel:  # fmt: skip
    """The kernel that joins ``arrays`` and stores reductions as ``made``, and the outputs whose numbers ``follow``.  Reductions
    that earlier kernels have stored are ``known``."""
    frame, part = _frame(request, arrays, 2 + len(arrays))
    stored = {a.name: a.type for a in (*known.values(), *arrays.values(), *made.values())}
    frame.arrays.types = {**frame.arrays.types, **stored}
    classes, domain = request.classes, frame.domain
    for f, array in known.items():
        frame.w.known[f] = frame.w.load(Arg(array.name, f.type), tt.tensor_type(f).shape, domain.coords(classes.of(f)))
    at = {f: domain.coords(classes.of(fold_of(f))) for f in arrays}
    totals = (_at_once if part.kind == "whole" else _in_turn)(frame, part, arrays, at, combine)
    for f, total in totals.items():
        if isinstance(f, tt.Fold):
            frame.w.known[f] = frame.b.cast(total, wide(tt.tensor_type(f).dtype))
    for f, array in made.items():
        frame.w.store(f, array.name, tt.tensor_type(f).shape, at[f])
    for number in follow:
        frame.store(number)
    return frame.finish()


def _frame(request: Request, arrays: Parts, live: int) -> tuple[Frame, t.Axis]:
    """The kernel, and its axis over parts: walked, or in one tile."""
    whole, _ = rows_nest(request)
    rows, parts = whole.role("parallel") or (ONE,), _count(arrays)
    axis = parts_axis(whole, parts)
    results = product(tuple(r.extent for r in rows))
    if not isinstance(parts, int) or parts < MANY or not isinstance(results, int) or results > FEW:
        domain = Domain(rows, whole.contiguous)
        schedule = request.choose(request.nest("elementwise", domain, live))
        at_most(schedule, rows, 2, "axes")
        part = replace(axis, kind="loop")
        return Frame(request, domain, [*grid(rows, schedule), part], schedule, "elementwise"), part
    domain = Domain([*rows, Run((AxisClass(axis.name, parts),), "reduced")])
    schedule = _covering(request.choose(request.nest("rows", domain, live)), axis.name, parts)
    at_most(schedule, rows, 1, "parallel axes")
    part = replace(axis, kind="whole", tile=schedule.tile(axis.name))
    return Frame(request, domain, [*grid(rows, schedule), part], schedule, "rows"), part


def _count(arrays: Parts) -> Size:
    return next(iter(arrays.values())).type.shape[0]  # type: ignore[union-attr]


def _covering(schedule: Schedule, name: str, extent: int) -> Schedule:
    """``schedule`` with a tile that covers the axis ``name``, whatever was asked for axes of its role."""
    covers = max(schedule.tile(name), 1 << (extent - 1).bit_length())
    return replace(schedule, tiles=tuple((n, covers if n == name else size) for n, size in schedule.tiles))


def _at_once(frame: Frame, part: t.Axis, arrays: Parts, at: Mapping[Carried, Coordinates], _: Block) -> dict[Carried, Op]:
    """All parts of a row as one tile."""
    folding = Folding(frame, [f for f in arrays if isinstance(f, tt.Fold)])
    found: dict[Carried, Op] = {}
    for f, array in arrays.items():
        view, indices = collapse(array.type.shape, (t.Index.of(part.name), *at[f]))  # type: ignore[union-attr]
        found[f] = frame.b.load(frame.arrays.view(array.name, view), indices)
    return dict(zip(folding.order, folding.of_parts(found), strict=True))


def _in_turn(frame: Frame, part: t.Axis, arrays: Parts, at: Mapping[Carried, Coordinates], combine: Block) -> dict[Carried, Op]:
    """A walk over the parts: what ``combine`` makes of all before and the next one."""
    b = frame.b
    views = {f: collapse(array.type.shape, (t.Index.of(part.name), *at[f])) for f, array in arrays.items()}  # type: ignore[union-attr]

    def dims(f: Carried) -> t.Dims:
        return b.dims(*(a for i in views[f][1][1:] for a in i.axes))

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        loaded = [b.load(frame.arrays.view(arrays[f].name, view), indices) for f, (view, indices) in views.items()]
        return inlined(b, combine, (*carried, *loaded))

    init = [(f"part{n}", b.full(identity(fold_of(f).fn, array.dtype), array.dtype, dims(f)))
            for n, (f, array) in enumerate(arrays.items())]  # fmt: skip
    totals = b.loop(part.name, init, step, combine=lambda left, right: inlined(b, combine, (*left, *right)))
    return dict(zip(arrays, totals, strict=True))
