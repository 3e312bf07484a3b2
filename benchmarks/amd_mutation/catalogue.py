"""All mutants of a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from portakern.backends.rocm.amdgcn.assembly.parser import Instruction

from .bounds import bounds, is_bound, is_select, selects
from .layouts import formats, layouts
from .masks import is_mask, masks
from .mutant import Mutant
from .ranges import is_buffer, ranges
from .synchronisation import barriers, is_wait, nops, waits
from .workshop import Workshop


def mutants(workshop: Workshop, kernel: str) -> Iterator[Mutant]:
    """In the order of the lines."""
    instructions = workshop.kernel(kernel).instructions
    for at, i in enumerate(instructions):
        yield from _of(i, instructions[at + 1 :], workshop, kernel)
    formatted = next((i for i in instructions if any("fp8" in x or "bf8" in x for x in (i.mnemonic, *i.modifiers))), None)
    if formatted is not None and workshop.isa in ("gfx942", "gfx950"):
        other = "OCP" if workshop.isa == "gfx942" else "FNUZ"
        yield Mutant("format", formatted.line, f"all 8-bit floats as {other}", other_formats=True)


def _of(i: Instruction, following: list[Instruction], workshop: Workshop, kernel: str) -> Iterator[Mutant]:
    spare = workshop.kernel(kernel).spare
    line = workshop.line(i.line)
    if is_wait(i):
        yield from waits(i)
    elif i.mnemonic in ("s_barrier", "s_barrier_signal", "s_barrier_wait"):
        yield from barriers(i, following)
    elif i.mnemonic == "s_nop":
        yield from nops(i)
    else:
        if is_mask(i):
            yield from masks(i, following, spare)
        if is_bound(i):
            yield from bounds(i, spare)
        if is_select(i):
            yield from selects(i, line, spare)
        if is_buffer(i):
            yield from ranges(i, spare)
        if " :: " not in line:
            yield from layouts(i, line, spare, "s_wait_dscnt 0x0" if workshop.isa == "gfx1201" else "s_waitcnt lgkmcnt(0)")
            yield from formats(i)
