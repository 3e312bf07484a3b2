"""Attention whose keys are walked in parts, for few queries and many keys.

With ``split_k=4`` in its schedule four blocks walk a quarter of the keys for every tile of queries and store what they have
carried to temporaries with one more dim; a second kernel, elementwise over the result, joins the parts as a walk over all keys
would have gone on, and does what follows.  With ``at_once=1`` in its schedule it loads all parts before it joins any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.program import Array
from portakern.ir.schedule import Schedule
from portakern.lower.attention_walk import Carried, all_of, both, settle, walk
from portakern.lower.domain import Domain, Run
from portakern.lower.kernel import Frame, Lowered, Request, at_most, grid
from portakern.lower.online import Attention
from portakern.lower.parts import parts_axis, range_of_part, store_part
from portakern.lower.tiles import collapse

AT_ONCE = "at_once"


def attention_in_parts(request: Request, found: Attention, scores: tt.Contract, domain: Domain, axes: Sequence[t.Axis],
                       schedule: Schedule, parts: int) -> Lowered:  # fmt: skip
    """One kernel whose blocks walk a part of the keys each, and one that joins what they carried."""
    part = parts_axis(domain, parts)
    frame = Frame(request, domain, [part, *axes], schedule, "attention")
    keys = frame.b.axis[domain.role("n")[0].name]
    carried = walk(frame, found, scores, range_of_part(frame, part, keys))
    ops = (found.weights.softmax.m, *found.sums, found.out)
    words = ("top", *(f"total{n or ''}" for n, _ in enumerate(found.sums)), "partial")
    arrays = tuple(store_part(frame, part, op, value, what) for op, value, what in zip(ops, carried, words, strict=True))
    return Lowered((frame.finish(), _joined(request, found, domain, part, arrays)), arrays)


def _joined(request: Request, found: Attention, domain: Domain, part: t.Axis, arrays: Sequence[Array]) -> t.Kernel:
    """The kernel that joins the parts, elementwise over the result, and computes what the stage stores."""
    mine, ops = replace(request, name=f"{request.name}_join"), (found.weights.softmax.m, *found.sums, found.out)
    cells = Domain([Run(r.classes, "parallel") for role in ("batch", "m", "d") for r in domain.role(role)],
                   domain.role("d")[0].classes[0])  # fmt: skip
    count = int(part.extent)  # type: ignore[call-overload]
    schedule = mine.choose(replace(mine.nest("elementwise", cells, 2 + len(arrays)), joins=count))
    at_most(schedule, cells.runs, 2, "axes")
    at_once = bool(schedule.option(AT_ONCE, 0))
    part = t.Axis(part.name, "whole", count, 1 << (count - 1).bit_length()) if at_once else replace(part, kind="loop")
    frame = Frame(mine, cells, [*grid(cells.runs, schedule), part], schedule, "elementwise")
    frame.arrays.types = {**frame.arrays.types, **{a.name: a.type for a in arrays}}
    b = frame.b

    def loaded(array: Array, op: Op) -> Op:
        coords = (t.Index.of(part.name), *cells.coords(request.classes.of(op)))
        view, indices = collapse(array.type.shape, coords)  # type: ignore[union-attr]
        return b.load(frame.arrays.view(array.name, view), indices)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        top, *totals, acc = map(loaded, arrays, ops)
        return tuple(both(b, found, Carried(carried[0], carried[1:-1], carried[-1]), Carried(top, tuple(totals), acc)))

    def of_all() -> Carried:
        lines = [loaded(array, op) for array, op in zip(arrays, ops, strict=True)]
        if b.axis[part.name].ragged:
            nothing = [float("-inf"), *(0.0 for _ in lines[1:])]
            lines = [b.add(t.Mask(x, part.name, value)) for x, value in zip(lines, nothing, strict=True)]
        return all_of(b, found, Carried(lines[0], tuple(lines[1:-1]), lines[-1]), part.name)

    if at_once:
        settle(frame, found, of_all(), domain.role("n")[0].extent)
        for number in range(len(request.program.outputs)):
            frame.store(number)
        return frame.finish()

    # Any of the result's axes may have tiles here, those too that had none in the walk.
    rows, result = b.dims(*(r.name for r in cells.runs[:-1])), b.dims(*(r.name for r in cells.runs))
    kinds = [array.type.dtype for array in arrays]  # type: ignore[union-attr]
    init = [("top", b.full(float("-inf"), kinds[0], rows)),
            *((f"total{i or ''}", b.full(0.0, kind, rows)) for i, kind in enumerate(kinds[1:-1])),
            ("acc", b.full(0.0, kinds[-1], result))]  # fmt: skip
    top, *totals, acc = b.loop(part.name, init, step)
    settle(frame, found, Carried(top, tuple(totals), acc), domain.role("n")[0].extent)
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return frame.finish()
