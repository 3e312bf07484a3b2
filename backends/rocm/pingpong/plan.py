"""The plan of a product whose waves take turns: what each turn reads, sets going, waits for and multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p
from portakern.ir.size import Size

from .interleave import Quarter
from .operand import StagedOperand


@dataclass(frozen=True)
class Turn:
    """One turn of a wave: between two barriers it reads and sets going, between the next two it multiplies.

    ``reads`` half ``half`` of an operand's slice (this step's, or the next one's where ``ahead``) into the registers ``into``.
    ``sends`` is what goes on its way to LDS: (operand, half, steps ahead); or, through registers, what is put into the other
    slot and fetched anew; ``direct`` is whether copies pass registers by.  Quarter ``quarter`` is multiplied from the registers
    rows and ``cols``; ``looks`` is whether the wave looks at them (subnormal.h), and so waits for them while it is the other
    wave that multiplies.  :mod:`.order` derives the rest: ``wait`` is how many copies to LDS may still be under way after
    ``sends``, ``needs`` names the registers that must have arrived before the multiplication.
    """

    reads: StagedOperand
    half: int
    ahead: int
    into: str
    sends: tuple[StagedOperand, int, int] | None
    quarter: tuple[int, int]
    cols: str
    looks: bool = False
    direct: bool = False
    wait: int | None = None
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        step = " of the next slice" if self.ahead else ""
        lines = [f"read {self.into} = half {self.half} of {self.reads.name}{step} (LDS to registers)"]
        if self.sends is not None:
            operand, half, ahead = self.sends
            if self.wait is None:
                lines.append(f"put the next slice of {operand.name} (registers to LDS)")
                lines.append(f"every other time, fetch two slices of {operand.name} (memory to registers)")
            else:
                lines.append(f"copy half {half} of {operand.name}, {ahead} steps ahead (memory to LDS)")
        if self.wait is not None:
            lines.append(f"wait until {self.wait} copies are under way")
        arrive = f"wait for {', '.join(self.needs)}" if self.needs else ""
        multiply = f"multiply quarter {self.quarter} += rows * {self.cols}"
        if self.looks:
            lines += [f"{arrive}, and look for subnormal numbers", "barrier", multiply] if arrive else ["barrier", multiply]
        else:
            lines += ["barrier", f"{arrive}; {multiply}" if arrive else multiply]
        lines.append("barrier")
        return "\n".join(lines)


@dataclass(frozen=True)
class PingPongPlan(KernelPlan):
    """``tiles`` counts the tiles of the result: rows, columns, batches; blocks take them in bands of ``band`` rows, and the
    ``dies`` of the device take neighbouring ones.  ``direct`` is whether copies to LDS pass registers by.  A step is either
    ``turns`` of one slice, or ``quarters`` of two slices by waves that have their SIMDs to themselves."""

    tiles: tuple[Size, Size, Size] = (1, 1, 1)
    band: int = 8
    dies: int = 1
    depth: int = 0
    direct: bool = False
    operands: tuple[StagedOperand, ...] = ()
    places: tuple[p.Scalar, ...] = ()
    before: tuple[p.Statement, ...] = ()
    acc: str = "acc"
    turns: tuple[Turn, ...] = ()
    quarters: tuple[Quarter, ...] = ()
    after: tuple[p.Statement, ...] = ()

    def scopes(self) -> tuple[p.Scope, ...]:
        return (p.Scope((*self.places, *self.before, *self.after)),)

    @property
    def slice(self) -> int:
        """How deep one slot is."""
        a = self.operands[0]
        return a.cols if a.straight else a.rows

    def __str__(self) -> str:
        params = ", ".join(f"{q.name}: {q.dtype}{'' if q.role != 'array' else '*'}" for q in self.params)
        rows, cols, batches = self.tiles
        who = "waves 4 to 7 are one barrier behind waves 0 to 3" if self.turns else "each wave is alone on its SIMD"
        way = "memory to LDS" if self.direct else "memory to registers to LDS"
        lines = [
            f"kernel {self.name}({params})",
            f"    blocks {self.blocks}, warps {self.warps}, threads {self.threads}",
            f"    tiles {rows} x {cols} x {batches}, in bands of {self.band} rows, neighbours on the same of {self.dies} dies",
            *(f"    layout {x}" for x in self.layouts),
            *(f"    {x}" for x in self.operands),
            f"    operands go from {way}; {who}",
            *(f"    {x.name} = {x.value}" for x in self.places),
            *(f"    {s}" for s in self.before),
            f"    each {'slice' if self.turns else 'two slices'} of {self.slice} of depth {self.depth}",
        ]
        for n, part in enumerate(self.turns or self.quarters):
            word = "turn" if self.turns else "part"
            lines += [f"        {word} {n}", *(f"            {line}" for line in str(part).split("\n"))]
        lines.append("    all copies have landed, all waves are done: the epilogue, on registers")
        return "\n".join([*lines, *(f"    {line}" for s in self.after for line in str(s).split("\n"))]) + "\n"
