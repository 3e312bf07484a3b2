"""Wait states that must lie between two instructions on CDNA 2 (90), CDNA 3 (94) and CDNA 4 (95).

Sources: AMD, *CDNA 3 Instruction Set Architecture* (and CDNA 2), "Manually Inserted Wait States (NOPs)" and, of MFMA,
"Dependency Resolution: Required Independent Instructions"; their numbers as LLVM's GCNHazardRecognizer and the wait state
observers of AMD's rocRoller have them, and those of CDNA 4 as clang inserts them.
"""

from __future__ import annotations

from collections.abc import Iterator

from .facts import Facts

_LANE = ("v_readlane_b32", "v_writelane_b32")


def needed(before: Facts, now: Facts, generation: int) -> tuple[int, str]:
    """How many wait states must lie between, and why; 0 where none."""
    worst = (0, "")
    for found in _rules(before, now, generation):
        worst = max(worst, found)
    return worst


def reach(x: Facts) -> int:
    """Wait states behind which nothing needs to wait for ``x`` any more."""
    return 21 if x.matrix else 5


def produces(x: Facts) -> bool:
    """Whether anything must wait for ``x``."""
    return x.vector or x.writes_m0 or _wide_store(x) or x.name.startswith("s_setreg") or x.load


def apart(x: Facts) -> bool:
    """Whether some must wait for ``x`` that share no register with it."""
    return x.name.startswith(("v_mfma_f64", "s_setreg")) or x.load


def _rules(before: Facts, now: Facts, generation: int) -> Iterator[tuple[int, str]]:
    if before.matrix:
        yield from _behind_matrix(before, now, generation)
    elif before.vector:
        yield from _behind_vector(before, now, generation)
        if before.name.startswith("v_dot"):
            yield from _behind_dot(before, now)
    elif before.writes_m0 and (_copies_to_lds(now) or now.name in ("s_sendmsg", "v_mov_indexed")):
        yield 1, "reads M0, which a scalar instruction wrote"
    elif before.name.startswith("s_setreg") and now.name.startswith(("s_setreg", "s_getreg")):
        yield 2, "reads or writes a hardware register that was just written"
    elif before.load and now.load and (before.unit == "smem") == (now.unit == "smem"):
        # A group of loads is repeated from its first one after a page fault (LLVM, checkSoftClauseHazards).
        if (before.reads | now.reads) & (before.writes | now.writes):
            yield 1, "may be repeated together with the load before, where one overwrites what one of them reads"
    elif _wide_store(before) and now.plain_vector and before.sources[_data(before)] & now.written_vectors:
        yield (1 if generation == 90 else 2), "overwrites the data of a store of more than 8 bytes"


# ---- behind a vector instruction -------------------------------------------------------------------------------------


def _behind_vector(before: Facts, now: Facts, generation: int) -> Iterator[tuple[int, str]]:
    scalars = before.written_scalars
    if scalars:
        if now.unit in ("vmem", "flat") and scalars & now.reads:
            yield 5, "reads a scalar register that a vector instruction wrote"
        if now.name in _LANE and scalars & now.sources[1]:
            yield 4, "takes its lane from a scalar register that a vector instruction wrote"
        if now.name.startswith("v_div_fmas") and before.writes_vcc:
            yield 4, "reads VCC, which a vector instruction wrote"
        if generation >= 94 and now.vector and scalars & now.reads:
            yield 2, "reads a scalar register that a vector instruction wrote"
    if before.writes_exec:
        if now.dpp:
            yield 5, "moves between lanes (DPP), and a vector instruction wrote EXEC"
        if now.matrix:
            yield 4, "is a matrix instruction, and a vector instruction wrote EXEC"
        if generation >= 94 and now.name in (*_LANE, "v_readfirstlane_b32"):
            yield 4, "reads or writes a lane, and a vector instruction wrote EXEC"
        if now.name.startswith("v_permlane") and generation >= 95:
            yield 4, "swaps lanes, and a vector instruction wrote EXEC"
    written = before.written_vectors & now.reads
    if written:
        yield from _reading(before, now, generation)


def _reading(before: Facts, now: Facts, generation: int) -> Iterator[tuple[int, str]]:
    """``now`` reads a vector register that ``before`` wrote."""
    if now.dpp:
        yield 2, "moves between lanes (DPP) what a vector instruction wrote"
    if now.matrix and not before.name.startswith("v_dot"):
        yield 2, "multiplies what a vector instruction wrote"
    if generation >= 95 and now.name.startswith("v_permlane"):
        yield 2, "swaps lanes of what a vector instruction wrote"
    if generation < 94 or not now.vector:
        return
    if now.name in ("v_readlane_b32", "v_readfirstlane_b32"):
        yield 1, "reads a lane of what a vector instruction wrote"
    if before.unit == "trans" and now.unit != "trans":
        yield 1, "reads what a transcendental instruction wrote"
    if _writes_part(before):
        yield 1, "reads a register of which half was written"


def _behind_dot(before: Facts, now: Facts) -> Iterator[tuple[int, str]]:
    """Dot products forward their result to the accumulator of the same instruction only."""
    same = before.instruction.mnemonic == now.instruction.mnemonic
    reads = frozenset().union(*now.sources[:2]) if same else now.reads
    if (now.plain_vector or now.memory) and before.written_vectors & reads:
        yield 3, "reads what a dot product wrote"
    if now.plain_vector and not same and before.written_vectors & now.writes:
        yield 3, "overwrites what a dot product writes"


# ---- behind a matrix instruction ----------------------------------------------------------------------------------------


def _behind_matrix(before: Facts, now: Facts, generation: int) -> Iterator[tuple[int, str]]:
    result = before.written_vectors
    if now.matrix:
        a, b, c = now.sources[:3]
        scales = frozenset[int]().union(*now.sources[3:])
        if result & (a | b | scales):
            yield _factors(before, generation), "multiplies what a matrix instruction is writing"
        if result & c:
            yield _accumulator(before, now, c == result, generation), "adds to what a matrix instruction is writing"
        return
    if now.plain_vector or now.memory:
        if result & now.reads:
            yield _reading_result(before, now, generation), "reads what a matrix instruction is writing"
        if result & now.writes:
            yield _factors(before, generation), "overwrites what a matrix instruction is writing"
    if now.plain_vector:
        if _is_f64(before) and now.name in ("v_fma_f64", "v_fmac_f64"):
            yield 2, "follows a matrix product of f64"
        if not _is_f64(before) and (generation == 90 or _is_xdl(before)) and before.sources[2] & now.writes:
            yield {2: 1, 4: 3, 8: 7, 16: 15}[before.passes], "overwrites what a matrix instruction adds to"


def _factors(before: Facts, generation: int) -> int:
    """Before the result may be a factor, or be overwritten."""
    if _is_f64(before):
        return 6 if "4x4x4" in before.name else 11 + 8 * (generation == 95)
    if generation == 90:
        return {2: 5, 8: 11, 16: 19}[before.passes]
    if not _is_xdl(before):
        return {2: 4, 4: 6, 8: 10, 16: 18}[before.passes]
    return before.passes + 3 + _later(before, generation)


def _accumulator(before: Facts, now: Facts, same: bool, generation: int) -> int:
    """Before the result may be added to: at once where it is the whole accumulator, else as soon as it is written."""
    small64 = _is_f64(before) and "4x4x4" in before.name
    if _is_f64(before) and generation == 90 and not _is_f64(now):
        return 0
    if same:
        return 4 if small64 and _is_f64(now) and "4x4x4" in now.name else 2 * (generation >= 94 and before.passes == 2)
    if _is_f64(before):
        return 0 if _is_xdl(now) else 4 if small64 else 9 + 8 * (generation == 95)
    if generation == 90:
        return before.passes + _is_f64(now)
    if not _is_xdl(before):
        return 0 if _is_xdl(now) else before.passes
    return before.passes + 1 + _later(before, generation)


def _reading_result(before: Facts, now: Facts, generation: int) -> int:
    if _is_f64(before) and now.memory:
        return 9 if "4x4x4" in before.name else 18
    return _factors(before, generation)


def _later(before: Facts, generation: int) -> int:
    """CDNA 4 gives results of the XDL units one wait state later, save for the shortest."""
    return int(generation == 95 and before.passes > 2)


# ---- kinds ------------------------------------------------------------------------------------------------------------------


def _is_f64(x: Facts) -> bool:
    return x.name.startswith("v_mfma_f64")


def _is_xdl(x: Facts) -> bool:
    """Executed by the matrix cores proper: not f64, and from CDNA 3 on not f32."""
    return not _is_f64(x) and not (x.name.endswith("_f32") and "xf32" not in x.name)


def _writes_part(x: Facts) -> bool:
    """SDWA, or op_sel with its last bit, the destination's."""
    text = " ".join(x.instruction.modifiers)
    if x.instruction.mnemonic.endswith("_sdwa"):
        return "dst_sel:" in text and "dst_sel:DWORD" not in text
    _, marked, rest = text.partition("op_sel:[")
    bits = rest.partition("]")[0].split(",") if marked else []
    return len(bits) > len(x.sources) and bits[-1].strip() == "1"


def _copies_to_lds(x: Facts) -> bool:
    return "lds" in x.instruction.modifiers or "_load_lds_" in x.name


def _data(x: Facts) -> int:
    return 0 if x.name.startswith("buffer") else 1


def _wide_store(x: Facts) -> bool:
    """Of more than 8 bytes; buffers with a scalar offset in a register wait by themselves."""
    if not x.name.startswith(("buffer_store", "global_store", "flat_store", "scratch_store")):
        return False
    if len(x.sources) <= _data(x) or len(x.sources[_data(x)]) < 3:
        return False
    return not x.name.startswith("buffer") or not x.sources[-1]
