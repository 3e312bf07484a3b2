"""What a walked loop shows of axes that it has in parts: a block shows what its part comes to, kernels behind it join them."""

from __future__ import annotations

from dataclasses import replace

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.program import Array
from portakern.lower.classes import axis_classes
from portakern.lower.held_axes import Cut, HeldAxes, shown_fold
from portakern.lower.kernel import Frame, Lowered, Request
from portakern.lower.row_parts import lower_rows_or_parts
from portakern.lower.tiles import collapse, wide


class LateSums:
    """Those of one loop: the results that are shown in parts, and the arrays of these parts."""

    def __init__(self, request: Request, axes: HeldAxes | None) -> None:
        self.request = request
        cuts = axes.cuts if axes is not None else ()
        self.counted = [c.part.name for c in cuts if c.tile > 1]
        self.folds: dict[int, tuple[tt.Fold, list[Cut]]] = {}
        for n in range(len(request.program.results)):
            if (fold := shown_fold(request.program, n)) is not None:
                mine = {request.classes.of_operand(fold, 0)[a] for a in fold.axes}
                if along := [c for c in cuts if c.axis in mine]:
                    self.folds[n] = fold, along
        self.parts: dict[int, Array] = {}

    @property
    def arrays(self) -> tuple[Array, ...]:
        return tuple(self.parts.values())

    def store(self, frame: Frame, number: int) -> bool:
        """Store the part of result ``number`` that a block has, where it is one of parts."""
        if number not in self.folds:
            return False
        fold, cuts = self.folds[number]
        name, dtype = self.request.program.outputs[number], wide(tt.tensor_type(fold).dtype)
        own, here = tt.tensor_type(fold).shape, frame.domain.coords(frame.classes_of(number))
        whole = zip(*frame.w.in_line(name, own, here), self._places(name, len(own)), strict=True)
        kept = [(size, c) for size, c, place in whole if place is None or place.terms]
        shape, coords = tuple(size for size, _ in kept), tuple(c for _, c in kept)
        counts = tuple(c.part.extent for c in cuts)
        fresh = self._fresh(frame, f"{self.request.name}_{name}_parts")
        array = Array(fresh, t.BufferType((*counts, *shape), dtype), "temporary")
        frame.arrays.types = {**frame.arrays.types, array.name: array.type}
        view, indices = collapse((*counts, *shape), (*(t.Index.of(c.part.name) for c in cuts), *coords))
        dims = frame.b.dims(*dict.fromkeys(a for i in indices for a in i.axes))
        frame.b.store(frame.b.fit(frame.w.known[fold], dims), frame.arrays.view(array.name, view), indices)
        self.parts[number] = array
        return True

    def _places(self, name: str, own: int) -> tuple[t.Index | None, ...]:
        """Where along each dim of the array ``name`` a step has its element, of which it knows ``own`` dims itself.  Steps of
        loops around this one are no axes of its kernel; an array of parts belongs to one of them."""
        line = self.request.lines.get(name)
        if line is None:
            return (None,) * own
        return line.places if line.leading is None else (*line.leading, *(None,) * own)

    def _fresh(self, frame: Frame, name: str) -> str:
        while name in frame.arrays.types:
            name += "_"
        return name

    def joins(self) -> list[Lowered]:
        """What joins the parts that were stored."""
        return [lower_rows_or_parts(self._join(number, array)) for number, array in self.parts.items()]

    def _join(self, number: int, array: Array) -> Request:
        fold, cuts = self.folds[number]
        program, of = self.request.program, array.type
        assert isinstance(of, t.BufferType)
        parts = Arg(array.name, tt.TensorType(of.shape, of.dtype))
        whole: Op = tt.Fold(fold.fn, parts, tuple(range(len(cuts))), loc=fold.loc)
        dtype, name = tt.tensor_type(program.results[number]).dtype, program.outputs[number]
        ops = [whole] if dtype == of.dtype else [whole, whole := tt.Convert(whole, dtype)]
        made = tt.TensorProgram(program.name, Block((parts,), (*ops, Yield((whole,)))), (name,))
        line = self.request.lines.get(name)
        around = tuple(None if p is not None and p.terms else p for p in line.places) if line is not None else ()
        lines = {name: replace(line, places=around)} if line is not None and any(p is not None for p in around) else {}
        return replace(self.request, name=f"{self.request.name}_join_{name}", program=made, lines=lines,
                       classes=axis_classes(made, {}))  # fmt: skip
