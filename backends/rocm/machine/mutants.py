"""Mutants of machine code: every wait, barrier, mask and lane pattern taken away or loosened, one at a time.

A mutant is the assembly text with one line changed.  Some change nothing that can be seen.  Two arguments say which:

- *waits*: a walk over the control-flow graph with the counters as queues (:func:`covered`).  If on no path an instruction
  touches a register, or a barrier publishes LDS, while an operation the wait was for may still be under way, later waits cover
  all that it covered.  The walk knows nothing of the machine's own bookkeeping.  Ways out of a branch that are never taken with
  the shapes a kernel was made for (:func:`edges`) are left out.
- *masks and bounds*: a second text, the *witness*, keeps the line and runs into an endless loop where the mutant would have
  let one more lane through.  If it ends, no lane was ever let through: for the shapes that the kernel was made for the mutant
  computes the same.
- *bounds*: a third text, *poisoned*, lets those lanes through with bits that the machine takes for undefined.  If no undefined
  value reaches memory, an address, a branch or EXEC, nothing that can be seen depends on them.
- *if and else*: where a mask only chooses between two sides (``saveexec`` and then ``xor``), its mutant takes one side for all
  lanes.  Clang makes such pairs of a fast and a general way to do the same.  Which they are is shown by results: the mutant
  leaves no array and its outputs have the same bits, on all inputs of the check.  The command compares them.
- *all*: a text that runs into the endless loop at the line itself says whether the line is ever reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .assembly import Assembly, Instruction, parse
from .encoding import form_of
from .program import GENERATIONS
from .registers import register

TRAP = ".Lmutant_trap"
_SAVED, _SPARE = "s98", ("s[100:101]", "s100")


@dataclass(frozen=True)
class Mutant:
    """One changed line.  ``kind`` is ``wait``, ``barrier``, ``mask``, ``bound``, ``layout`` or ``format``."""

    kind: str
    line: int
    what: str
    text: str
    witness: str = ""
    """The text that runs into :data:`TRAP` where the mutant would differ; empty where there is none."""
    poisoned: str = ""
    """The text in which what the mutant changes is undefined; empty where there is none."""
    sides: bool = False
    """Whether the mask chooses between the sides of an if and else."""
    reached: str = ""
    """The text that runs into :data:`TRAP` at the line."""


def mutants(text: str) -> Iterator[Mutant]:
    """All mutants of an assembly text, in the order of its lines."""
    assembly = parse(text)
    wave32 = any(k.descriptor.get("wavefront_size32", 0) for k in assembly.kernels.values())
    lines = text.splitlines()
    seen: set[int] = set()
    for i in assembly.instructions:
        if i.line not in seen:
            seen.add(i.line)
            for m in _of(i, lines, wave32):
                yield replace(m, reached=_with(lines, {i.line: f"s_branch {TRAP}"}, trap=True))


def _of(i: Instruction, lines: list[str], wave32: bool) -> Iterator[Mutant]:
    name = i.mnemonic
    if name == "s_waitcnt" or (name.startswith("s_wait_") and not name.startswith(("s_wait_alu", "s_wait_idle"))):
        yield from _waits(i, lines)
    elif name in ("s_barrier", "s_barrier_signal"):
        end = (
            next((n for n in range(i.line, len(lines)) if "s_barrier_wait" in lines[n]), None) if name != "s_barrier" else None
        )
        text = _with(lines, {i.line: "s_nop 0", **({end + 1: "s_nop 0"} if end is not None else {})})
        yield Mutant("barrier", i.line, f"without {i}", text)
    elif "exec" in name or (i.operands and i.operands[0].startswith("exec")) or name.startswith("v_cmpx"):
        yield from _masks(i, lines, wave32)
    elif match := re.match(r"v_cmp_(lt|gt|le|ge)_([iu](?:32|64|16))", name):
        yield from _bounds(i, match[1], lines, wave32)
    else:
        yield from _layouts(i, lines)


def _with(lines: list[str], changed: dict[int, str], trap: bool = False) -> str:
    """The text with lines replaced (numbered from 1)."""
    out = [("\t" + changed[n].replace("\n", "\n\t")) if n in changed else line for n, line in enumerate(lines, 1)]
    text = "\n".join(out) + "\n"
    if trap:
        # Behind the last instruction of the line's own kernel, and with room for the spare scalars.
        rest = range(max(changed), len(out))
        after = next((n for n in rest if out[n].startswith(".Lfunc_end") or out[n].strip().startswith(".section")), len(out))
        end = max(n for n, line in enumerate(out[:after]) if line.strip().startswith("s_endpgm"))
        text = "\n".join([*out[: end + 1], f"{TRAP}:", f"\ts_branch {TRAP}", *out[end + 1 :]]) + "\n"
        text = re.sub(r"(\.amdhsa_next_free_sgpr) \S+", r"\1 104", text)
    return text


# ---- waits -------------------------------------------------------------------------------------------------------------

_NAMES = {"loadcnt": "vmcnt", "dscnt": "lgkmcnt", "storecnt": "vscnt", "kmcnt": "kmcnt", "expcnt": "expcnt"}


def waits_of(i: Instruction) -> dict[str, int]:
    """Which counters an instruction waits for, and down to what; empty for any other instruction."""
    if i.mnemonic == "s_waitcnt":
        words = " ".join((*i.operands, *i.modifiers))
        return {name: int(n) for name, n in re.findall(r"(\w+cnt)\((\d+)\)", words)}
    if i.mnemonic == "s_waitcnt_vscnt":
        return {"vscnt": int(i.operands[-1], 0)}
    if not i.mnemonic.startswith("s_wait_"):
        return {}
    names = [_NAMES[n] for n in i.mnemonic.removeprefix("s_wait_").split("_") if n in _NAMES]
    value = int(i.operands[0], 0) if i.operands else 0
    if len(names) == 2:  # the first count lies above the second (RDNA4 ISA 16.5)
        return {names[0]: value >> 8, names[1]: value & 0xFF}
    return dict.fromkeys(names, value)


def _waits(i: Instruction, lines: list[str]) -> Iterator[Mutant]:
    waits = waits_of(i)
    for counter, count in waits.items():
        for kept in (None, count + 1):
            new = {**waits, counter: kept}
            what = f"{i} without {counter}" if kept is None else f"{i} with {counter}({kept})"
            yield Mutant("wait", i.line, what, _with(lines, {i.line: _spelled(i, new)}))


def _spelled(i: Instruction, waits: dict[str, int | None]) -> str:
    left = {name: n for name, n in waits.items() if n is not None}
    if not left:
        return "s_nop 0"
    if i.mnemonic == "s_waitcnt":
        return "s_waitcnt " + " ".join(f"{name}({n})" for name, n in left.items())
    if i.mnemonic == "s_waitcnt_vscnt":
        return f"s_waitcnt_vscnt null, 0x{left['vscnt']:x}"
    back = {new: old for old, new in _NAMES.items()}
    return "\n".join(f"s_wait_{back[name]} 0x{n:x}" for name, n in left.items())


# ---- masks -------------------------------------------------------------------------------------------------------------


def _guarded(test: str, bits: str) -> str:
    """``test`` leaves in the spare scalar the lanes in which a mutant would differ; SCC is kept."""
    return f"s_cselect_b32 {_SAVED}, 1, 0\n{test}\ns_cbranch_scc1 {TRAP}\ns_cmp_lg_u32 {_SAVED}, 0"


def _masks(i: Instruction, lines: list[str], wave32: bool) -> Iterator[Mutant]:
    bits, spare = ("b32", _SPARE[1]) if wave32 else ("b64", _SPARE[0])
    exec_ = "exec_lo" if wave32 else "exec"
    without = "and_not1" if wave32 else "andn2"
    line, ops = lines[i.line - 1].strip(), i.operands
    kept = re.sub(r"\s*(;|//).*", "", line)

    follows = lines[i.line].strip() if i.line < len(lines) else ""
    sides = i.mnemonic.startswith("s_and_saveexec") and follows.startswith(f"s_xor_{bits} {ops[0]}, {exec_}, {ops[0]}")

    def mutant(new: str, test: str, before: bool) -> Mutant:
        check = _guarded(test, bits)
        witness = _with(lines, {i.line: f"{check}\n{kept}" if before else f"{kept}\n{check}"}, trap=True)
        return Mutant("mask", i.line, f"{i} lets all lanes through", _with(lines, {i.line: new}), witness, sides=sides)

    if i.mnemonic == f"s_and_saveexec_{bits}":
        yield mutant(f"s_mov_{bits} {ops[0]}, {exec_}", f"s_xor_{bits} {spare}, {exec_}, {ops[0]}", False)
    elif i.mnemonic in (f"s_andn2_saveexec_{bits}", f"s_and_not1_saveexec_{bits}"):
        # Lanes of the source that are active now are taken out of it.
        spared = f"s_mov_{bits} {spare}, {ops[1]}"
        new = f"{spared}\ns_mov_{bits} {ops[0]}, {exec_}\ns_mov_{bits} {exec_}, {spare}"
        m = mutant(new, f"s_and_{bits} {spare}, {exec_}, {ops[1]}", True)
        yield Mutant(m.kind, m.line, m.what, re.sub(r"(\.amdhsa_next_free_sgpr) \S+", r"\1 104", m.text), m.witness)
    elif len(ops) == 3 and ops[0] == ops[1] == exec_ and i.mnemonic == f"s_and_{bits}":
        yield mutant("s_nop 0", f"s_{without}_{bits} {spare}, {exec_}, {ops[2]}", True)
    elif (
        len(ops) == 3 and ops[0] == ops[1] == exec_ and i.mnemonic in (f"s_xor_{bits}", f"s_andn2_{bits}", f"s_and_not1_{bits}")
    ):
        yield mutant("s_nop 0", f"s_and_{bits} {spare}, {exec_}, {ops[2]}", True)
    elif i.mnemonic.startswith("v_cmpx"):
        check = _guarded(f"s_xor_{bits} {spare}, {exec_}, {spare}", bits)
        witness = _with(lines, {i.line: f"s_mov_{bits} {spare}, {exec_}\n{kept}\n{check}"}, trap=True)
        yield Mutant("mask", i.line, f"{i} lets all lanes through", _with(lines, {i.line: "s_nop 0"}), witness)


def _bounds(i: Instruction, relation: str, lines: list[str], wave32: bool) -> Iterator[Mutant]:
    """A compare with a constant, by one more."""
    if len(i.operands) != 3 or not re.fullmatch(r"-?\d+|0x[0-9a-f]+", i.operands[1]):
        return
    bits, spare = ("b32", _SPARE[1]) if wave32 else ("b64", _SPARE[0])
    value = int(i.operands[1], 0) + (1 if relation in ("gt", "ge") else -1)
    # Constants that the encoding of the compare has no room for, or that leave the type.
    if value < -16 or value > 0x7FFFFFFF or (value < 0 and "_u" in i.mnemonic):
        return
    if i.mnemonic.endswith("_e64") and not -16 <= value <= 64:
        return
    kept = re.sub(r"\s*(;|//).*", "", lines[i.line - 1].strip())
    changed = f"{i.mnemonic} {i.operands[0]}, {value}, {i.operands[2]}"
    base = i.mnemonic.removesuffix("_e32").removesuffix("_e64")
    test = f"{base}_e64 {spare}, {value}, {i.operands[2]}\ns_xor_{bits} {spare}, {spare}, {i.operands[0]}"
    witness = _with(lines, {i.line: f"{kept}\n{_guarded(test, bits)}"}, trap=True)
    never = "s103" if wave32 else "s[102:103]"  # never written
    poison = f"{test}\ns_and_{bits} {spare}, {spare}, {never}\ns_xor_{bits} {i.operands[0]}, {i.operands[0]}, {spare}"
    poisoned = f"{kept}\ns_cselect_b32 {_SAVED}, 1, 0\n{poison}\ns_cmp_lg_u32 {_SAVED}, 0"
    yield Mutant("bound", i.line, f"{i} with {value}", _with(lines, {i.line: changed}), witness,
                 _with(lines, {i.line: poisoned}, trap=True))  # fmt: skip


# ---- layouts and formats ---------------------------------------------------------------------------------------------------


_PATTERNS = {
    "quad_perm:[1,0,3,2]": "quad_perm:[0,1,2,3]", "quad_perm:[2,3,0,1]": "quad_perm:[0,1,2,3]", "row_ror:8": "row_ror:4",
    "row_shr:1": "row_shr:2", "row_shr:2": "row_shr:3", "row_shr:4": "row_shr:5", "row_shr:8": "row_shr:9",
    "row_xmask:1": "row_xmask:2", "row_xmask:2": "row_xmask:4", "row_xmask:4": "row_xmask:8", "row_xmask:8": "row_xmask:1",
    "swizzle(SWAP,4)": "swizzle(SWAP,8)", "swizzle(SWAP,8)": "swizzle(SWAP,4)", "swizzle(SWAP,16)": "swizzle(SWAP,8)",
}  # fmt: skip
"""Lane patterns of reductions and scans, and others that leave lanes out.  (Reversing a quad in place of swapping its halves,
say, would change nothing once its pairs are joined.)"""


def _layouts(i: Instruction, lines: list[str]) -> Iterator[Mutant]:
    line = re.sub(r"\s*(;|//).*", "", lines[i.line - 1].strip())
    if i.mnemonic.startswith(("v_mfma", "v_wmma")) and i.operands[1] != i.operands[2]:
        d, a, b, c = i.operands
        swapped = f"{i.mnemonic} {d}, {b}, {a}, {c} {' '.join(i.modifiers)}"
        yield Mutant("layout", i.line, f"{i} with A and B exchanged", _with(lines, {i.line: swapped}))
    for old, new in _PATTERNS.items():
        if re.search(re.escape(old) + r"(?!\d)", line):
            yield Mutant("layout", i.line, f"{i} with {new}", _with(lines, {i.line: line.replace(old, new)}))
            break
    if i.mnemonic.startswith("v_") and re.search("fp8|bf8", i.mnemonic):
        other = re.sub("fp8|bf8", lambda m: "bf8" if m[0] == "fp8" else "fp8", i.mnemonic, count=1)
        yield Mutant("format", i.line, f"{i} as {other}", _with(lines, {i.line: line.replace(i.mnemonic, other, 1)}))


# ---- what later waits cover ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """What matters of one instruction to the walk."""

    counter: str
    ordered: bool
    pending: frozenset[tuple[str, int]]
    touched: frozenset[tuple[str, int]]
    waits: tuple[tuple[str, int], ...]
    barrier: bool
    shared: bool


Edge = tuple[int, bool]
"""A conditional branch by its line, and whether it is taken."""


def edges(text: str) -> Iterator[tuple[Edge, str]]:
    """Both ways out of every conditional branch, each with the text that runs into :data:`TRAP` on that way."""
    lines = text.splitlines()
    for i in parse(text).instructions:
        if i.mnemonic.startswith("s_cbranch"):
            yield (i.line, True), _with(lines, {i.line: f"{i.mnemonic} {TRAP}"}, trap=True)
            kept = f"{i.mnemonic} {i.operands[0]}"
            yield (i.line, False), _with(lines, {i.line: f"{kept}\ns_branch {TRAP}"}, trap=True)


def covered(text: str, kernel: str, never: frozenset[Edge] = frozenset()) -> bool:
    """Whether no path of ``kernel`` touches what may still be under way; paths over edges in ``never`` do not count."""
    assembly = parse(text)
    isa = assembly.target.rpartition("-")[2].partition(":")[0]
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    effects = [_effect(i, GENERATIONS[isa]) for i in assembly.instructions[start:end]]
    follow = [_successors(assembly, n, start, end, never) for n in range(start, end)]
    # For each place: the operations that may be under way, and how many of their counter were issued after them, at least.
    state: list[dict[int, int] | None] = [None] * len(effects)
    state[0] = {}
    todo = [0]
    while todo:
        n = todo.pop()
        entering = state[n]
        assert entering is not None
        after = _step(effects, n, entering)
        if after is None:
            return False
        for m in follow[n]:
            known = state[m]
            if known is None:
                state[m] = dict(after)
                todo.append(m)
                continue
            joined = {k: min(after.get(k, 1 << 30), known.get(k, 1 << 30)) for k in after.keys() | known.keys()}
            if joined != known:
                state[m] = joined
                todo.append(m)
    return True


def _step(effects: list[Effect], n: int, entering: dict[int, int]) -> dict[int, int] | None:
    """The operations under way behind instruction ``n``; ``None`` where it touches one of them."""
    e = effects[n]
    under_way = dict(entering)
    for counter, count in e.waits:
        under_way = {k: young for k, young in under_way.items()
                     if effects[k].counter != counter or young < count or (count and not effects[k].ordered)}  # fmt: skip
    for k in under_way:
        if e.touched & effects[k].pending or (e.barrier and effects[k].shared):
            return None
    if e.counter:
        under_way = {k: young + (effects[k].counter == e.counter) for k, young in under_way.items()}
        under_way[n] = 0
    return under_way


def _successors(assembly: Assembly, n: int, start: int, end: int, never: frozenset[Edge]) -> list[int]:
    i = assembly.instructions[n]
    following = [n + 1 - start] if n + 1 < end else []
    if i.mnemonic == "s_endpgm":
        return []
    if i.mnemonic == "s_branch":
        return [assembly.labels[i.operands[0]] - start]
    if i.mnemonic.startswith("s_cbranch"):
        taken = [] if (i.line, True) in never else [assembly.labels[i.operands[0]] - start]
        return [*([] if (i.line, False) in never else following), *taken]
    return following


def _effect(i: Instruction, generation: int) -> Effect:
    form = form_of(i)
    registers = [frozenset(_registers(text)) for text in i.operands]
    touched = frozenset().union(*registers) if registers else frozenset()
    written = [registers[n] for n, slot in enumerate(form.slots) if slot.written and n < len(registers)]
    pending = frozenset().union(*written) if written else frozenset()
    counter, ordered = _counter(i, form.unit, bool(written), generation)
    waits = tuple(waits_of(i).items())
    shared = form.unit == "lds" and not i.mnemonic.startswith(("ds_swizzle", "ds_bpermute", "ds_permute"))
    shared |= "lds" in i.modifiers or "_lds_" in i.mnemonic
    barrier = i.mnemonic in ("s_barrier", "s_barrier_signal")
    return Effect(counter, ordered, pending if counter else frozenset(), touched, waits, barrier, shared and bool(counter))


def _counter(i: Instruction, unit: str, loads: bool, generation: int) -> tuple[str, bool]:
    """Which counter an instruction raises, and whether its operations end in order (CDNA3 ISA 4.4, RDNA3 ISA 5.6)."""
    if unit == "smem":
        return ("kmcnt" if generation >= 120 else "lgkmcnt"), False
    if unit == "lds":
        return "lgkmcnt", True
    if unit not in ("vmem", "flat"):
        return "", True
    store = "store" in i.mnemonic
    return ("vscnt" if store and generation >= 110 else "vmcnt"), True


def _registers(text: str) -> Iterator[tuple[str, int]]:
    plain = re.sub(r"[|\-]|neg\(|abs\(|sext\(|\)", "", text).removesuffix(".l").removesuffix(".h")
    found = register(plain)
    if found is not None:
        yield from ((str(found.kind), found.number + n) for n in range(found.count))
