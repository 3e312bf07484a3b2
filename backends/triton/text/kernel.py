"""One tile kernel as a ``@triton.jit`` function: its signature, its constants, and the blocks that a program takes.

What is inside is printed by the parts below: axes and grid (:mod:`.axes`, :mod:`.grid`), values, memory and
statements (:mod:`.values`, :mod:`.memory`, :mod:`.statements`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portakern.device import Device
from portakern.emit.python_like import PythonWriter
from portakern.ir.core import Arg
from portakern.ir.tile import BufferType, Kernel, TileType, buffer_type

from ..prepare.kernel import rewritten
from . import operations
from .grid import GridText
from .statements import StatementText


@dataclass(frozen=True)
class TritonKernelText:
    """The printed kernel: its name, text, run-time parameters in order, constexpr parameters with values, and the
    number of blocks as an expression over the open dims (``static`` where there are none).

    ``descriptors`` are those of the parameters that the host makes: name, array, its shape as the kernel sees it, and the
    shape of a block.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    constants: tuple[tuple[str, int], ...]
    blocks: str
    static: bool
    options: tuple[tuple[str, int | bool], ...] = ()
    descriptors: tuple[tuple[str, str, BufferType, tuple[int, ...]], ...] = ()


def print_kernel(kernel: Kernel, device: Device, host: Mapping[str, str] | None = None) -> TritonKernelText:
    """The Triton text of ``kernel``, whose host calls open dims as ``host`` says.

    Raises :class:`MissingRuleError` for an operation without a rule.
    """
    return _Printer(rewritten(kernel, device), host=dict(host or {})).run()


class _Printer(GridText, StatementText):
    def run(self) -> TritonKernelText:
        static = all(isinstance(a.extent, int) for a in self.kernel.grid)
        walking = static and self._programs() > 0
        with self.out.block("HEAD"):
            if walking:
                self._walk_over_blocks()
            else:
                self._one_block()
        body = "\n".join(self.out.lines[1:]) + "\n"
        functions = "".join(f"{text}\n\n" for _, text in self.functions.values())
        text = f"{functions}@triton.jit\n{self._head()}\n{body}"
        blocks = " * ".join(self._steps(a.axis, host=True) for a in self._grid_axes()) or "1"
        if walking:
            blocks = f"min({self._programs()}, {blocks})"
        given = (*(a.name if n in self.parameter.values() else n for a, n in self._arguments()), *self.kernel.sizes)
        made = tuple((name, b.buffer.name, buffer_type(b.buffer), b.shape) for name, b in self.descriptors.values())
        options = self._launch_options()
        return TritonKernelText(self.function, text, given, self._constants(), blocks, static, options, made)

    def _one_block(self, pid: str = "") -> None:
        self._grid(pid)
        for a in self.axes.values():
            if a.axis.kind == "whole":
                self._coordinates(a)
        self._block(self.kernel.body)

    def _walk_over_blocks(self) -> None:
        self.out.comment("Each program takes one block after another; storing one overlaps with loading for the next.")
        blocks = " * ".join(self._steps(a.axis) for a in self._grid_axes())
        with self.out.block(f"for pid in tl.range(tl.program_id(0), {blocks}, tl.num_programs(0), flatten=True):"):
            self._one_block("pid")

    def _programs(self) -> int:
        """How many programs share the blocks of a product; 0: one block each."""
        asked = int(self.kernel.schedule.option("programs", 0)) if self.kernel.family == "contraction" else 0
        many = self._grid_axes()
        return 0 if self._pid_is_wide() or len(many) < 2 or not self.blocks else asked

    def _arguments(self) -> list[tuple[Arg, str]]:
        """The kernel's arguments with their names in its text: an array as a pointer, a descriptor or both."""
        found = []
        for a in self.kernel.args:
            found += [(a, self.parameter[a])] if a in self.parameter else []
            found += [(a, self.descriptors[a][0])] if a in self.descriptors else []
        return found

    def _head(self) -> str:
        scalars = {n: f"{n}: {operations.DTYPE[a.type.dtype]}" for a, n in self._arguments() if isinstance(a.type, TileType)}
        typed = [scalars.get(n, n) for _, n in self._arguments()]
        typed += [f"{s}: tl.int64" for s in self.sizes.values()]
        constants = [f"{c}: tl.constexpr" for c, _ in self._constants()]
        writer = PythonWriter()
        writer.line(f"def {self.function}({', '.join([*typed, *constants])}):")
        return "\n".join(writer.lines)

    def _constants(self) -> tuple[tuple[str, int], ...]:
        """Extents, then tiles, then the rest, each in the order of the axes."""
        order = [*self.extents.values(), *self.tiles.values(), *self.constants]
        return tuple((name, self.constants[name]) for name in dict.fromkeys(order) if name in self.constants)

    def _launch_options(self) -> tuple[tuple[str, int | bool], ...]:
        """What may be fused is written (``tl.fma``): Triton's own default changes with its release."""
        schedule = self.kernel.schedule
        extra = [(k, int(v)) for k, v in schedule.options if k in ("waves_per_eu", "maxnreg") and int(v) > 0]
        return (("num_warps", schedule.warps), ("num_stages", schedule.stages), *extra, ("enable_fp_fusion", False))
