"""The iteration space of one kernel: its axes with their roles, and neighbouring axes merged where every array allows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Op
from portakern.ir.program import ArrayFacts
from portakern.ir.schedule import NestAxis
from portakern.ir.size import Size, Sym, product
from portakern.lower.classes import AxisClass, Classes
from portakern.lower.placing import Line, Placed
from portakern.lower.tiles import ZERO, Coordinate, Coordinates, Part
from portakern.lower.uses import users_of


@dataclass(frozen=True)
class Run:
    """Axis classes that run as one axis; mostly a single one, of which a block may have a part of ``length`` elements."""

    classes: tuple[AxisClass, ...]
    role: str
    length: int = 0

    @property
    def name(self) -> str:
        return "_".join(c.name for c in self.classes)

    @property
    def extent(self) -> Size:
        return self.length or product(tuple(c.extent for c in self.classes))


class Domain:
    """Runs in order and where each class stands in them."""

    def __init__(self, runs: Sequence[Run], contiguous: AxisClass | None = None) -> None:
        self.runs = tuple(runs)
        self.contiguous = contiguous
        self.place: dict[AxisClass, Coordinate] = {}
        for run in runs:
            for i, c in enumerate(run.classes):
                inner = product(tuple(x.extent for x in run.classes[i + 1 :]))
                self.place[c] = (t.Index.of(run.name) if len(run.classes) == 1
                                 else Part(run.name, i, len(run.classes), inner, c.extent))

    def at(self, axis: AxisClass, place: Coordinate) -> Domain:
        """This space with ``axis`` at another coordinate."""
        made = Domain(self.runs, self.contiguous)
        made.place = {**self.place, axis: place}
        return made

    def coords(self, classes: Iterable[AxisClass]) -> Coordinates:
        """Coordinates of dims of these classes; a class outside the domain has one element."""
        return tuple(self.place.get(c, ZERO) for c in classes)

    def nest_axes(self, windows: Mapping[AxisClass, str], own: Container[AxisClass]) -> tuple[NestAxis, ...]:
        return tuple(NestAxis(r.name, r.role, r.extent, self.contiguous in r.classes, windows.get(r.classes[0], ""),
                              own=len(r.classes) == 1 and r.classes[0] in own) for r in self.runs)

    def role(self, role: str) -> tuple[Run, ...]:
        return tuple(r for r in self.runs if r.role == role)


def accesses(program: tt.TensorProgram, classes: Classes, placed: Mapping[str, Placed],
             lines: Mapping[str, Line]) -> list[tuple[AxisClass, ...]]:  # fmt: skip
    """For every array the program loads or stores, the classes of its dims as that access sees them.  ``placed`` says which
    outputs are pieces of arrays, ``lines`` of which arrays the program has one element along dims that it does not know of.
    Such a dim, and one that elements are picked along, has a class of no name (:data:`PICKED`), which nothing walks."""
    found: list[tuple[AxisClass, ...]] = []

    def whole(name: str, dims: tuple[AxisClass, ...]) -> tuple[AxisClass, ...]:
        line = lines.get(name)
        if line is None or line.leading is not None:
            return dims
        left = iter(dims)
        return tuple(next(left) if place is None else PICKED for place in line.places)

    pixels, positions = _in_a_row(program), _positions_in_a_row(program, classes)
    pixels |= {op.x for op in _of_planes(program)}
    for op in program.body.ops:
        if op.mnemonic() == "give":
            continue
        for number, operand in enumerate(op.operands):
            if not isinstance(operand, Arg) or not tt.tensor_type(operand).shape:
                continue
            if isinstance(op, tt.Reshape):
                found.append(classes.of(op))  # a free view: the load sees the new shape
            elif op in pixels:
                continue  # they are found one by one
            elif isinstance(op, tt.Windows):
                found.append(classes.of_operand(op, number))  # windowed dims merge with nothing, see unmergeable
            elif isinstance(op, tt.Transpose | tt.Expand | tt.Map | tt.Convert | tt.Fold | tt.Cumulate | tt.AssociativeScan
                            | tt.KeySort | tt.Contract | tt.BitConvert):
                found.append(whole(operand.name, classes.of_operand(op, number)))
            elif isinstance(op, tt.Gather):
                dims = classes.of_operand(op, number)
                found.append(dims if number == 1 else (*dims[: op.axis], PICKED, *dims[op.axis + 1 :]))
            elif isinstance(op, tt.SegmentFold | tt.SegmentContract) and number < len(op.operands) - 1:
                found.append(classes.of_operand(op, number))
            else:
                found.append(())  # slices and the like: no merging with what they touch
    for number, (result, name) in enumerate(zip(program.results, program.outputs, strict=True)):
        if (place := placed.get(name)) is not None:
            found += _unmoved(of_result(program, classes, number), place, positions)
        else:
            found.append(() if isinstance(result, Arg) else whole(name, classes.of(result)))
    return found


def _in_a_row(program: tt.TensorProgram) -> set[tt.Windows]:
    """Windows that may reach outside and that a product takes: their positions may run as one axis."""
    if not any(isinstance(op, tt.Contract) for op in program.body.ops):
        return set()
    return {op for op in program.body.ops if isinstance(op, tt.Windows) and op.reaching}


def _of_planes(program: tt.TensorProgram) -> set[tt.Windows]:
    """Those of planes, whose taps and channels may run as one axis, too."""
    users = users_of(program)
    return {op for op in _in_a_row(program) if isinstance(op.x, tt.Transpose) and users[op.x] == [op]}


def _positions_in_a_row(program: tt.TensorProgram, classes: Classes) -> set[AxisClass]:
    return {classes.of(op)[d] for op in _in_a_row(program) for d in op.dims}


PICKED = AxisClass("", Sym.named("picked"))
"""Stands for a dim of an array that indices are picked along: its neighbours are no neighbours of each other."""


def innermost(seen: Iterable[Sequence[AxisClass]]) -> list[AxisClass]:
    """The axis along which each access in ``seen`` is contiguous, of those that have one."""
    return [c for dims in seen for c in real(dims)[-1:] if c is not PICKED]


def windows_of(program: tt.TensorProgram, classes: Classes) -> dict[AxisClass, str]:
    """The axes of the ``positions`` and of the ``taps`` of windows."""
    found: dict[AxisClass, str] = {}
    for op in program.body.ops:
        if isinstance(op, tt.Windows):
            mine = classes.of(op)
            found |= {mine[d]: "positions" for d in op.dims} | dict.fromkeys(mine[-len(op.dims) :], "taps")
    return found


def own_taps(program: tt.TensorProgram, classes: Classes) -> set[AxisClass]:
    """The axes of the taps of windows that do not overlap."""
    views = [op for op in program.body.ops if isinstance(op, tt.Windows)]
    taps = [zip(classes.of(op)[-len(op.dims) :], op.window, op.strides, op.dilation, strict=True) for op in views]
    return {c for op in taps for c, window, stride, dilation in op if window <= stride and dilation == 1}


@dataclass(frozen=True)
class Slide:
    """Dim ``number`` of the windows ``view``, by the axes of its positions and of its taps."""

    view: tt.Windows
    number: int
    positions: AxisClass
    taps: AxisClass

    @property
    def stride(self) -> int:
        return self.view.strides[self.number]


def slide_of(program: tt.TensorProgram, classes: Classes) -> Slide | None:
    """The first dim whose windows overlap without gaps, of the only windows that a stage reduces."""
    views = [op for op in program.body.ops if isinstance(op, tt.Windows)]
    over = {c for op in program.body.ops if isinstance(op, tt.Fold) for c in (classes.of_operand(op, 0)[a] for a in op.axes)}
    if len(views) != 1:
        return None
    (view,), mine = views, classes.of(views[0])
    taps = mine[len(mine) - len(view.dims) :]
    for number, d in enumerate(view.dims):
        apart = view.dilation[number] != 1 or view.window[number] <= view.strides[number]
        if not apart and taps[number] in over and isinstance(mine[d].extent, int):
            return Slide(view, number, mine[d], taps[number])
    return None


def of_result(program: tt.TensorProgram, classes: Classes, number: int) -> tuple[AxisClass, ...]:
    """The axes of result ``number``."""
    result = program.results[number]
    return classes.of_operand(program.body.ops[-1], number) if isinstance(result, Arg) else classes.of(result)


def _unmoved(classes: Sequence[AxisClass], place: Placed, positions: Container[AxisClass]) -> list[tuple[AxisClass, ...]]:
    """Neighbouring dims along which a piece is all of its array, or pixels that are stored one by one: nothing merges across
    another, were it one element long."""
    runs: list[list[AxisClass]] = [[]]
    for c, moved in zip(classes, place.moved, strict=True):
        runs.append([]) if moved and c not in positions else runs[-1].append(c)
    return [tuple(r) for r in runs]


def merge(classes: Sequence[AxisClass], role: str, seen: Sequence[tuple[AxisClass, ...]],
          apart: Iterable[AxisClass] = ()) -> list[Run]:
    """Runs of ``classes`` (in memory order), merging neighbours that every access in ``seen`` has side by side.

    Classes in ``apart`` (used by coordinate, slice or the like) merge with nothing, nor do those of one element, which have no
    order among them; contracted ones merge across these.
    """
    runs: list[list[AxisClass]] = []
    alone = {*apart, *(c for c in classes if c.extent == 1)}
    for c in classes:
        long = [r for r in runs if r[-1].extent != 1] if role == "k" else runs
        last = long[-1] if long else None
        if last and c not in alone and last[-1] not in alone and _always_adjacent(last[-1], c, seen):
            last.append(c)
        else:
            runs.append([c])
    return [Run(tuple(r), role) for r in runs]


def _always_adjacent(a: AxisClass, b: AxisClass, seen: Sequence[tuple[AxisClass, ...]]) -> bool:
    for dims in seen:
        real = [c for c in dims if c.extent != 1]
        if (a in real) != (b in real) or (a in real and real.index(b) != real.index(a) + 1):
            return False
    return True


def unmergeable(program: tt.TensorProgram, classes: Classes, facts: Mapping[str, ArrayFacts] | None,
                placed: Mapping[str, Placed], counted: bool = True) -> set[AxisClass]:  # fmt: skip
    """Classes that cannot be merged: their coordinates matter (slices, flips, windows, segments, places of pieces; iota, unless
    what is ``counted`` may be), or an array along them is strided."""
    found: set[AxisClass] = set()
    for number, name in enumerate(program.outputs):
        if (place := placed.get(name)) is not None:
            found.update(c for c, moved in zip(of_result(program, classes, number), place.moved, strict=True) if moved)
    pixels, planes = _in_a_row(program), _of_planes(program)
    found -= _positions_in_a_row(program, classes)
    strided = {name for name, known in (facts or {}).items() if known.strides is not None}
    for op in program.body.ops:
        for number, operand in enumerate(op.operands):
            if isinstance(operand, Arg) and operand.name in strided:
                found.update(classes.of_operand(op, number))
        if isinstance(op, tt.Slice | tt.Flip) or (counted and isinstance(op, tt.Iota)):
            found.update(classes.of(op))
        if isinstance(op, tt.Windows):
            mine = classes.of(op)
            taps = range(len(mine) - len(op.dims), len(mine)) if op not in planes else ()
            found.update(mine[d] for d in (*(op.dims if op not in pixels else ()), *taps))
        if isinstance(op, tt.Slice | tt.Flip):
            found.update(classes.of_operand(op, 0))
        if isinstance(op, tt.SegmentFold):
            found.update((classes.of(op)[op.axis], classes.of_operand(op, 0)[op.axis]))
        if isinstance(op, tt.SegmentContract):
            found.update((classes.of(op)[0], classes.of_operand(op, 1)[0]))
        if isinstance(op, tt.Gather) and not isinstance(op.x, Arg):  # picked through views of an array
            found.update(classes.of(op))
    return found


def real(classes: Iterable[AxisClass]) -> list[AxisClass]:
    """Those that have more than one element, without repeats."""
    return [c for c in dict.fromkeys(classes) if c.extent != 1]


ArrayType = t.BufferType | t.TileType


def array_types(program: tt.TensorProgram, scalars: Iterable[str] = (),
                facts: Mapping[str, ArrayFacts] | None = None, placed: Mapping[str, Placed] | None = None,
                lines: Mapping[str, Line] | None = None) -> dict[str, ArrayType]:  # fmt: skip
    """Types of the arguments and results of a stage by name: buffers, and tiles without dims for ``scalars``; instead of a
    piece, the array that it belongs to, and of one element of ``lines``, all of them."""
    found: dict[str, ArrayType] = {}

    def add(name: str, op: Op) -> None:
        have = tt.tensor_type(op)
        known = (facts or {}).get(name, ArrayFacts())
        shape = lines[name].of.shape if lines and name in lines else have.shape
        found[name] = (t.TileType((), have.dtype) if name in scalars
                       else t.BufferType(shape, have.dtype, known.strides, known.align))

    for arg in program.args:
        add(arg.name, arg)
    for name, op in zip(program.outputs, program.results, strict=True):
        if (place := (placed or {}).get(name)) is not None:
            found[place.array] = t.BufferType(place.of.shape, place.of.dtype)
        else:
            add(name, op)
    return found
