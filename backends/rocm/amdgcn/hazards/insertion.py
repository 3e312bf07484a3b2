"""Wait states that the compiler left out.

LLVM's hazard recognizer looks back from an instruction over the blocks before it, and into each block once
(GCNHazardRecognizer.cpp, getWaitStatesSince): where two ways lead back to the same matrix instruction and the longer one is
walked first, the shorter one is not walked at all, and no ``s_nop`` is put on it.  A loop with a second way out, whose last
product leaves registers that are used anew behind the loop, is enough:

    v_mfma_f32_16x16x4_f32 v[6:9], ...
    s_cbranch_vccnz exit        ; two wait states to what is behind `exit`
    ...                         ; eleven this way
    exit: v_and_b32 v7, 15, v0  ; ten are needed: else the product overwrites v7

So the text is judged by the simulator's own rules on every path, and what is missing is put in before it is assembled.
"""

from __future__ import annotations

from portakern.errors import SimulatorError

from ..assembly.parser import parse
from ..isa import GENERATIONS
from .walk import find

_RDNA = 110
_MOST = 16
"""Wait states of one ``s_nop``."""


def with_wait_states(text: str, isa: str) -> str:
    """``text``, the assembly of kernels for ``isa``, with ``s_nop`` where instructions follow too soon on CDNA.

    What the machine's parser does not know is left as it is, and so are other generations.
    """
    generation = GENERATIONS.get(isa, _RDNA)
    if generation >= _RDNA:
        return text
    try:
        while missing := _missing(text, generation):
            text = _with_nops(text, missing)
    except SimulatorError:
        return text
    return text


def _missing(text: str, generation: int) -> dict[int, int]:
    """Line -> wait states that are missing before it, of the first such instruction of each kernel: those behind gain too."""
    assembly = parse(text)
    found = [find(assembly, kernel, generation)[:1] for kernel in assembly.kernels]
    return {x.instruction.line: x.needed - x.found for first in found for x in first}


def _with_nops(text: str, missing: dict[int, int]) -> str:
    lines: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        left = missing.get(number, 0)
        while left > 0:
            lines.append(f"\ts_nop {min(left, _MOST) - 1}")
            left -= _MOST
        lines.append(line)
    return "\n".join(lines)
