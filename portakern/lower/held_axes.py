"""The axes of a kernel that walks a loop whose lanes meet: those that a block holds, those that are cut up, and the others.

Along what a step reduces a block has all, since the next step waits for it.  What is only reduced to be shown need not be whole
in one block: each shows what its part comes to, and a kernel behind the loop joins the parts.  So the gradient of a state-space
model, whose weights of a step get sums over all channels, has as many blocks as the model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op, Yield
from portakern.ir.schedule import Nest
from portakern.ir.size import Size
from portakern.lower.classes import AxisClass, Classes, meeting_themselves
from portakern.lower.domain import Domain, Run, merge, of_result, real
from portakern.lower.kernel import NoSchedule, Request
from portakern.lower.uses import users_of

FEW = 1 << 10
"""Elements that a block holds as they are, though parts of them would do."""

PART, LEAST = 1 << 8, 8
"""Elements that a block holds where it has a part of an axis, so that there are many blocks, and how many of that axis at
least, so that what is shown of each is little.  Gradients of a state-space model of 1 x 4096 x 2048 lanes with 16 numbers each
took 3.4, 2.9 and 2.5 ms on an H200 with 512, 256 and 128 elements, of 8 x 2048 x 2048 lanes 2.6, 2.5 and 3.0; those of the
delta rule with 32 heads of 128 features 8.3 and 8.8 ms with 4 and 8 rows of the state, with 128 heads of 64 features 4.0 and
3.6 (``benchmarks/steps.py --gradients``, with these as given)."""


Cuts = tuple[tuple[AxisClass, int], ...]
"""Axes, and how many of their elements a block has."""


@dataclass(frozen=True)
class Cut:
    """An axis that lies in parts of ``tile`` elements, one in each block; ``part`` counts them."""

    axis: AxisClass
    part: AxisClass
    tile: int


@dataclass(frozen=True)
class HeldAxes:
    """The axes of a kernel, those of them that are cut up, and what its schedule is chosen by."""

    domain: Domain
    nest: Nest
    cuts: tuple[Cut, ...] = ()


def held_axes(request: Request, carries: int, length: Size, parts: bool) -> HeldAxes | None:
    """Those for which the backend has tiles, in a loop of so many steps whose first ``carries`` results are its carries.
    ``parts`` is whether a block may have parts of axes."""
    return next((made for made in _ways(request, carries, parts) if _is_covered(request, made, length)), None)


def first_way(request: Request, carries: int, parts: bool) -> HeldAxes | None:
    """Those that are best, whatever the backend has tiles for; ``None`` where no lanes meet."""
    return next(_ways(request, carries, parts), None)


def is_holdable(step: tt.TensorProgram, classes: Classes, carries: int) -> bool:
    """Whether lanes meet along axes that blocks can hold, or have parts of."""
    late = late_axes(step, classes, carries)
    return bool(held_runs(step, classes, carries)) or (bool(late) and held_runs(step, classes, carries, late) is not None)


def is_little(step: tt.TensorProgram, classes: Classes, carries: int) -> bool:
    """Whether blocks have all that lanes meet along, though parts of it would do."""
    whole = held_runs(step, classes, carries)
    return whole is not None and _elements(whole) <= FEW


def _is_covered(request: Request, made: HeldAxes, length: Size) -> bool:
    nest = replace(made.nest, steps=length)
    try:
        return request.choose(nest).covers(nest.role("held"))
    except NoSchedule:
        return False


# ---- which axes lanes meet along -----------------------------------------------------------------------------------------


def held_runs(step: tt.TensorProgram, classes: Classes, carries: int, cut: Collection[AxisClass] = ()
              ) -> list[list[AxisClass]] | None:  # fmt: skip
    """The axes of which a block has all where it has parts of those in ``cut``, in order of memory, those that are always
    reduced together as one: what a step reduces, and what some of its results have and others have not, of which the first are
    its carries.  ``None`` where lanes meet in another way than along them."""
    folds = [op for op in step.body.ops if isinstance(op, tt.Fold)]
    results = [of_result(step, classes, n) for n in range(len(step.results))]
    over = [{c for c in real(classes.of_operand(f, 0)[a] for a in f.axes) if c not in cut} for f in folds]
    every = {c for dims in results for c in real(dims)}
    held = set().union(*over) | {c for c in every if c not in cut and any(c not in dims for dims in results)}
    parallel = every - held
    if meeting_themselves(step, classes) or not all(isinstance(c.extent, int) for c in held):
        return None
    place: dict[Op, list[AxisClass]] = {a: real(dims) for a, dims in zip(step.args[:carries], results, strict=False)}
    for op in step.body.ops:
        for number, operand in enumerate(op.operands):
            if operand in place and not isinstance(op, Yield) and real(classes.of_operand(op, number)) != place[operand]:
                return None
        if isinstance(op, tt.Map | tt.Fold) and not set(real(classes.of(op))) <= held | parallel:
            return None
    longest = max(results, key=len)
    order = dict.fromkeys(c for dims in (longest, *(classes.of_operand(f, 0) for f in folds)) for c in dims if c in held)
    runs: dict[tuple[bool, ...], list[AxisClass]] = {}
    for c in order:
        runs.setdefault(tuple(c in axes for axes in over), []).append(c)
    return list(runs.values())


def late_axes(step: tt.TensorProgram, classes: Classes, carries: int) -> list[AxisClass]:
    """The axes along which lanes meet in what a step shows alone, in order of memory: nothing waits for these reductions."""
    folds = {op: set(real(classes.of_operand(op, 0)[a] for a in op.axes)) for op in step.body.ops if isinstance(op, tt.Fold)}
    shown = {n: f for n in range(carries, len(step.results)) if (f := shown_fold(step, n)) is not None}
    results = [set(of_result(step, classes, n)) for n in range(len(step.results))]
    order = real(c for n in range(carries) for c in of_result(step, classes, n))
    return [c for c in order
            if all(f in shown.values() for f, over in folds.items() if c in over)
            and all(c in dims or (n in shown and c in folds[shown[n]]) for n, dims in enumerate(results))
            and any(c in over for over in folds.values())]  # fmt: skip


def shown_fold(step: tt.TensorProgram, number: int) -> tt.Fold | None:
    """The reduction that result ``number`` is, or is a conversion of, if nothing else in the step uses it."""
    users, op = users_of(step), step.results[number]
    if isinstance(op, tt.Convert) and len(users[op]) == 1:
        op = op.x
    return op if isinstance(op, tt.Fold) and len(users[op]) == 1 and step.results.count(step.results[number]) == 1 else None


# ---- the axes of their kernel --------------------------------------------------------------------------------------------


def _ways(request: Request, carries: int, parts: bool) -> Iterator[HeldAxes]:
    """What blocks may have, the best first: all where that is little, else parts of an axis that may be cut up."""
    late = late_axes(request.program, request.classes, carries) if parts else []
    tried: list[Cuts] = []
    whole = held_runs(request.program, request.classes, carries)
    if whole and (not late or is_little(request.program, request.classes, carries)):
        tried.append(())
    tried += _in_parts(request, carries, late) if late else []
    tried += [()] if whole else []
    tried += [tuple((c, 1) for c in late)] if late else []
    for cuts in dict.fromkeys(tried):
        if (made := _axes(request, carries, cuts)) is not None:
            yield made


def _in_parts(request: Request, carries: int, late: Sequence[AxisClass]) -> Iterator[Cuts]:
    """Parts of the longest axis in ``late``, if blocks have all of the others beside it; else single coordinates of those and
    parts of the last."""
    longest = max(late, key=lambda c: c.extent if isinstance(c.extent, int) else 0)
    for *others, last in dict.fromkeys(((longest,), tuple(late))):
        inside = held_runs(request.program, request.classes, carries, [*others, last])
        if inside is None or (len(others) + 1 < len(late) and _elements(inside) * LEAST > PART):
            continue
        apart = tuple((c, 1) for c in others)
        for n in _lengths(last.extent, max(LEAST, PART // _elements(inside))):
            yield (*apart, (last, n)) if n != last.extent else apart


def _elements(runs: Sequence[Sequence[AxisClass]]) -> int:
    return max(1, math.prod(c.extent for run in runs for c in run))  # type: ignore[misc]


def _lengths(extent: Size, most: int) -> list[int]:
    """How many elements parts of an axis may have, all of them as many and several."""
    if not isinstance(extent, int):
        return []
    return [n for n in range(min(most, extent), 1, -1) if extent % n == 0 and n >= min(LEAST, extent)]


def _axes(request: Request, carries: int, cuts: Cuts) -> HeldAxes | None:
    program, classes = request.program, request.classes
    held = held_runs(program, classes, carries, [c for c, _ in cuts])
    if held is None:
        return None
    order = real(c for n in range(len(program.results)) for c in of_result(program, classes, n))
    seen, apart = request.accesses(), {*request.unmergeable(), *(c for c, _ in cuts)}
    inside = {c: tile for c, tile in cuts if tile > 1}
    parallel = merge([c for c in order if not any(c in run for run in held) and c not in inside], "parallel", seen, apart)
    runs = [*(r for run in held for r in merge(run, "held", seen, apart)), *(Run((c,), "held", n) for c, n in inside.items())]
    if len(runs) > 2:
        return None
    longest = max((real(of_result(program, classes, n)) for n in range(carries)), key=len, default=[])
    runs.sort(key=lambda r: longest.index(r.classes[0]) if r.classes[0] in longest else len(longest))
    last = longest[-1:]  # none of single numbers
    beside = [r for r in parallel if last and last[0] in r.classes and len(runs) == 1]  # columns, which lie side by side
    contiguous = last[0] if beside or not runs else runs[-1].classes[-1]
    made = [Cut(c, part, tile) for (c, tile), part in zip(cuts, _parts(cuts, order), strict=True)]
    counted = [Run((c.part,), "parallel") for c in made if c.tile > 1]
    domain = Domain([*(r for r in parallel if r not in beside), *counted, *runs, *beside], contiguous)
    for c in made:
        if c.tile > 1:
            domain = domain.at(c.axis, t.Index((t.Term(c.part.name, c.tile), t.Term(c.axis.name))))
    return HeldAxes(domain, _nest(request, domain, counted), tuple(made))


def _parts(cuts: Sequence[tuple[AxisClass, int]], others: Sequence[AxisClass]) -> Iterator[AxisClass]:
    """What counts the parts of each of ``cuts``: the axis itself where they have one element."""
    taken = {c.name for c in others}
    for c, tile in cuts:
        names = (f"{c.name}_part{n or ''}" for n in count())
        name = next(n for n in names if n not in taken)
        yield c if tile == 1 else AxisClass(name, c.extent // tile)


def _nest(request: Request, domain: Domain, counted: Collection[Run]) -> Nest:
    every = {c for run in domain.runs if run not in counted for c in run.classes}
    full = [dims for dims in request.accesses() if every <= set(dims)]
    return request.nest("held" if domain.role("held") else "elementwise", domain, 2 + len(full))
