"""What must lie between two instructions on RDNA 3 (110) and RDNA 4 (120).

Most dependencies are resolved by hardware there.  Checked are two that are not: a WMMA whose result is a factor of the next one
(RDNA3 ISA, "Wave Matrix Multiply Accumulate", on what must lie between), and on RDNA 3 the use of a transcendental's result too
soon (LLVM, GCNHazardRecognizer, "VALUTransUse").  ``s_delay_alu`` is a hint and changes neither.
"""

from __future__ import annotations

from .facts import Facts


def needed(before: Facts, now: Facts, generation: int) -> tuple[int, str]:
    """How many vector instructions must lie between, and why."""
    if not now.vector:
        return 0, ""
    if before.matrix and now.matrix and before.written_vectors & (now.sources[0] | now.sources[1]):
        return 1, "multiplies what the matrix instruction before is writing"
    if generation == 110 and before.unit == "trans" and before.vector and before.written_vectors & now.reads:
        return 6, "reads what a transcendental instruction wrote, with no s_waitcnt_depctr between"
    return 0, ""


def directly_behind(before: Facts | None, now: Facts) -> str:
    """Why ``now`` must stand behind s_nop (LLVM, SIInsertWaitcnts, ``requiresNopBeforeDeallocVGPRs``)."""
    if now.name != "s_sendmsg" or "MSG_DEALLOC_VGPRS" not in " ".join((*now.instruction.operands, *now.instruction.modifiers)):
        return ""
    return "" if before is not None and before.name == "s_nop" else "gives registers back with no s_nop before it"


def apart(x: Facts) -> bool:
    """Whether some must wait for ``x`` that share no register with it."""
    return False


def reach(x: Facts) -> int:
    """Vector instructions behind which nothing needs to wait for ``x`` any more."""
    return 1 if x.matrix else 6


def produces(x: Facts) -> bool:
    return x.vector and (x.matrix or x.unit == "trans")
