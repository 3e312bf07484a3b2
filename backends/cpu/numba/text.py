"""One tile kernel as an ``@njit`` function of plain loops.

Grid axes become loops over blocks. The plan of the kernel (:mod:`portakern.emit.loops`) says which loops a block has: its
elements are walked only as far as the array goes (so nothing is masked), and what is elementwise between two reductions is
one innermost loop over the axis that is contiguous in memory, with scalar locals, which LLVM vectorises.
"""

from __future__ import annotations

from dataclasses import dataclass

from portakern.emit.loops.plan import KernelLoopPlan
from portakern.emit.python_like import PythonWriter
from portakern.ir.tile import Axis, Kernel, Store

from .axes import NumbaAxisNames
from .loops import LoopText


@dataclass(frozen=True)
class NumbaKernelText:
    """The printed kernel: its name, text and the names of its parameters in order."""

    name: str
    text: str
    parameters: tuple[str, ...]


def print_kernel(plan: KernelLoopPlan) -> NumbaKernelText:
    """The numba text of a kernel; raises :class:`MissingRuleError` for an operation without a rule."""
    return _Printer(plan).run()


class _Printer(LoopText):
    def __init__(self, plan: KernelLoopPlan) -> None:
        super().__init__(plan)
        self.parallel = bool(self.kernel.schedule.option("parallel", False)) and _stores_disjoint(self.kernel)

    def run(self) -> NumbaKernelText:
        for a in self.axes.values():
            if a.axis.kind == "whole":
                a.end = self._extent(a.axis).text
        with self.out.block("HEAD"):
            self._grid()
        body = self.out.lines[1:]
        head = PythonWriter(width=116)
        flags = ", parallel=True" if self.parallel else ""
        head.line(f'@njit(error_model="numpy"{flags})')
        parameters = [*self.parameter.values(), *self.sizes.values()]
        with head.block(f"def {self.function}({', '.join(parameters)}):"):
            for line in self._constant_lines():
                head.line(line)
        lines = [x for x in head.lines if x.strip() != "pass"]
        given = (*(a.name for a in self.kernel.args), *self.kernel.sizes)
        return NumbaKernelText(self.function, "\n".join([*lines, *body]) + "\n", given)

    def _constant_lines(self) -> list[str]:
        order = [n for n in (*self.extent_names.values(), *self.tile_names.values()) if n in self.constants]
        extents = [n for n in order if n in self.extent_names.values()]
        tiles = [n for n in order if n not in extents]
        return [f"{', '.join(g)} = {', '.join(str(self.constants[n]) for n in g)}" for g in (extents, tiles) if g]

    def _grid(self) -> None:
        walked = [a for a in self.kernel.grid if a.steps != 1]
        for a in self.kernel.grid:
            if a.steps == 1:
                self._single(self.axes[a.name])
        if self.parallel and walked:
            self._parallel_grid(walked)
            return
        self._allocate()
        self._serial_grid(walked)

    def _allocate(self) -> None:
        for storage in self.plan.storages:
            self.out.line(self._allocation(storage))

    def _single(self, a: NumbaAxisNames) -> None:
        """An axis of one block starts at 0 and ends at its extent."""
        if a.axis.tile == 1:
            a.name = "0"
        else:
            a.end = self._extent(a.axis).text

    def _serial_grid(self, walked: list[Axis]) -> None:
        if not walked:
            self._nodes(self.plan.body)
            return
        a = self.axes[walked[0].name]
        if a.axis.tile == 1:
            with self.out.block(f"for {a.name} in range({self._extent(a.axis)}):"):
                self._serial_grid(walked[1:])
            return
        a.start = self.names.fresh(f"{a.name}0")
        with self.out.block(f"for {a.start} in range(0, {self._extent(a.axis)}, {self._tile(a.axis)}):"):
            self._tile_end(a)
            self._serial_grid(walked[1:])

    def _parallel_grid(self, walked: list[Axis]) -> None:
        """One flat loop over all blocks, so that threads share the work whatever the axes' sizes."""
        blocks = [self._blocks(a) for a in walked]
        with self.out.block(f"for block in prange({' * '.join(b.at(12) for b in blocks)}):"):
            self._allocate()
            rest = "block"
            for position in range(len(walked) - 1, -1, -1):
                a, steps = self.axes[walked[position].name], blocks[position]
                number = rest if position == 0 else f"{rest} % {steps.at(12)}"
                scaled = number if a.axis.tile == 1 else f"{number} * {self._tile(a.axis)}"
                if a.axis.tile > 1:
                    a.start = self.names.fresh(f"{a.name}0")
                if position == 0 and rest != "block" and a.axis.tile == 1:
                    scaled = rest
                self.out.line(f"{a.name if a.axis.tile == 1 else a.start} = {scaled}")
                if position > 0:
                    after = self.names.fresh("rest")
                    self.out.line(f"{after} = {rest} // {steps.at(12)}")
                    rest = after
                if a.axis.tile > 1:
                    self._tile_end(a)
            self._nodes(self.plan.body)


def _stores_disjoint(kernel: Kernel) -> bool:
    return all(op.mode == "set" for op in kernel.body.walk() if isinstance(op, Store))
