"""Whether later waits cover all that a wait covered: a walk over the control-flow graph with the counters as queues.

If on no path an instruction touches a register, or a barrier publishes LDS, while an operation that it depends on may still be
under way, the code waits enough.  The walk knows nothing of the machine's own bookkeeping: it joins all paths, where the
machine follows one.  Ways out of a branch that are never taken with the shapes a kernel was made for are left out.

Stores to global memory are waited for by nobody in a kernel: what one kernel stores, only later kernels read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from portakern.backends.rocm.amdgcn.assembly.parser import Assembly, Instruction
from portakern.backends.rocm.amdgcn.assembly.registers import register
from portakern.backends.rocm.amdgcn.isa import GENERATIONS, form_of

from .synchronisation import waits_of

Edge = tuple[int, bool]
"""A conditional branch by its line, and whether it is taken."""

Waits = tuple[tuple[str, int], ...]
"""Counters, and down to what is waited."""


@dataclass(frozen=True)
class Effect:
    """What matters of one instruction to the walk."""

    counter: str
    ordered: bool
    pending: frozenset[tuple[str, int]]
    read: frozenset[tuple[str, int]]
    written: frozenset[tuple[str, int]]
    waits: tuple[tuple[str, int], ...]
    barrier: bool
    shared: bool
    """Under way, it reads or writes LDS."""
    copies: bool
    """From memory to LDS."""
    local: bool
    """An access to LDS."""
    most: int
    """Operations that its counter counts."""

    def touches(self, other: Effect, copies: bool) -> bool:
        """Whether this needs ``other`` to be done; ``copies`` says whether the kernel copies from memory to LDS behind this."""
        if self.read & other.pending:
            return True
        if self.written & other.pending and not (other.ordered and self.ordered and other.counter == self.counter):
            return True  # loads that end in order may write the same register
        # Reads of LDS are done in the order of their issue, whoever writes later; not so before copies from memory.
        if self.barrier and other.shared and (copies or not other.pending):
            return True
        return self.local and other.copies


def reached(assembly: Assembly, kernel: str, never: frozenset[Edge]) -> set[int]:
    """The lines of ``kernel`` that are executed, where ``never`` are all ways out of branches that are not taken."""
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    found, todo = {0}, [0]
    while todo:
        for m in successors(assembly, todo.pop() + start, start, end, never):
            if m not in found:
                found.add(m)
                todo.append(m)
    return {assembly.instructions[start + n].line for n in found}


def separates(assembly: Assembly, kernel: str, line: int, never: frozenset[Edge]) -> bool:
    """Whether LDS is touched both before and behind the barrier in ``line``, up to the barriers around it."""
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    effects = effects_of(assembly, kernel)
    behind = [successors(assembly, n, start, end, never) for n in range(start, end)]
    before: list[list[int]] = [[] for _ in behind]
    for n, following in enumerate(behind):
        for m in following:
            before[m].append(n)
    at = next(n for n in range(end - start) if assembly.instructions[start + n].line == line)
    return _touched(effects, at, before) and _touched(effects, at, behind)


def _touched(effects: list[Effect], at: int, follow: list[list[int]]) -> bool:
    """Whether LDS is touched on a way from ``at`` that passes no barrier."""
    seen, todo = {at}, [at]
    while todo:
        for m in follow[todo.pop()]:
            if m in seen or effects[m].barrier:
                continue
            if effects[m].local or effects[m].copies:
                return True
            seen.add(m)
            todo.append(m)
    return False


def uncovered(assembly: Assembly, kernel: str, never: frozenset[Edge] = frozenset()) -> set[int]:
    """The lines of operations that a path of ``kernel`` touches while they may be under way; none goes over ``never``."""
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    effects = effects_of(assembly, kernel)
    follow = [successors(assembly, n, start, end, never) for n in range(start, end)]
    copies = before_copies(effects, follow)
    found: set[int] = set()
    for n, entering in enumerate(_under_way(effects, follow)):
        left = _waited(effects, effects[n].waits, entering or {})
        found |= {k for k in left if effects[n].touches(effects[k], copies[n])}
    return {assembly.instructions[start + k].line for k in found}


def exposed(assembly: Assembly, kernel: str, line: int, waits: Waits, never: frozenset[Edge] = frozenset()) -> set[int]:
    """The lines of operations that something touches while they are under way only because ``line`` waits for ``waits`` alone.

    Followed is what the instruction in ``line`` waits for and ``waits`` leave under way, until another wait covers it.
    """
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    effects = effects_of(assembly, kernel)
    follow = [successors(assembly, n, start, end, never) for n in range(start, end)]
    copies = before_copies(effects, follow)
    at = next(n for n in range(end - start) if assembly.instructions[start + n].line == line)
    entering = _under_way(effects, follow)[at] or {}
    kept = _waited(effects, effects[at].waits, entering)
    more = {k: young for k, young in _waited(effects, waits, entering).items() if k not in kept}
    found: set[int] = set()
    state: list[dict[int, int] | None] = [None] * len(effects)
    state[at] = {}
    todo = [at]
    while todo:
        n = todo.pop()
        left = _waited(effects, waits if n == at else effects[n].waits, state[n] or {})
        found |= {k for k in left if effects[n].touches(effects[k], copies[n])}
        after = _joined(left, more) if n == at else _issued(effects, n, left, again=False)
        todo += _passed_on(after, follow[n], state)
    return {assembly.instructions[start + k].line for k in found}


def before_copies(effects: list[Effect], follow: list[list[int]]) -> list[bool]:
    """Of each place, whether a copy from memory to LDS may follow."""
    come: list[list[int]] = [[] for _ in follow]
    for n, behind in enumerate(follow):
        for m in behind:
            come[m].append(n)
    found = [False] * len(effects)
    todo = [n for n, e in enumerate(effects) if e.copies]
    while todo:
        for m in come[todo.pop()]:
            if not found[m]:
                found[m] = True
                todo.append(m)
    return found


def _under_way(effects: list[Effect], follow: list[list[int]]) -> list[dict[int, int] | None]:
    """For each place: the operations that may be under way, and how many of their counter were issued after them, at least."""
    state: list[dict[int, int] | None] = [None] * len(effects)
    state[0] = {}
    todo = [0]
    while todo:
        n = todo.pop()
        after = _issued(effects, n, _waited(effects, effects[n].waits, state[n] or {}))
        todo += _passed_on(after, follow[n], state)
    return state


def _passed_on(after: dict[int, int], to: list[int], state: list[dict[int, int] | None]) -> list[int]:
    """The places whose state becomes another one."""
    moved = []
    for m in to:
        known = state[m]
        joined = after if known is None else _joined(after, known)
        if joined != known:
            state[m] = dict(joined)
            moved.append(m)
    return moved


def _joined(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    return {k: min(a.get(k, 1 << 30), b.get(k, 1 << 30)) for k in a.keys() | b.keys()}


def covered(assembly: Assembly, kernel: str, never: frozenset[Edge] = frozenset()) -> bool:
    """Whether no path of ``kernel`` touches what may still be under way."""
    return not uncovered(assembly, kernel, never)


def effects_of(assembly: Assembly, kernel: str) -> list[Effect]:
    isa = assembly.target.rpartition("-")[2].partition(":")[0]
    return [_effect(i, GENERATIONS[isa]) for i in assembly.instructions[assembly.labels[kernel] : assembly.end_of(kernel)]]


def _waited(effects: list[Effect], waits: Waits, entering: dict[int, int]) -> dict[int, int]:
    """The operations under way behind ``waits``."""
    left = entering
    for counter, count in waits:
        left = {k: young for k, young in left.items()
                if effects[k].counter != counter or young < count or (count and not effects[k].ordered)}  # fmt: skip
    return left


def _issued(effects: list[Effect], n: int, left: dict[int, int], again: bool = True) -> dict[int, int]:
    """Behind instruction ``n``, which is itself under way then if ``again``."""
    counter = effects[n].counter
    if not counter:
        return left
    older = {k: young + (effects[k].counter == counter) for k, young in left.items()}
    # An issue stalls while its counter is at its end (see `capacity` in native/waits.cpp): the oldest is done then.
    most = effects[n].most
    older = {k: young for k, young in older.items() if young < most or effects[k].counter != counter or not effects[k].ordered}
    return {**older, n: 0} if again else older


def successors(assembly: Assembly, n: int, start: int, end: int, never: frozenset[Edge]) -> list[int]:
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
    read = frozenset(r for text in form.implicit for r in _registers(text))
    written: frozenset[tuple[str, int]] = frozenset()
    slots = [slot for slot in form.slots if slot.role != "x"]
    for n, text in enumerate(i.operands):
        found = frozenset(_registers(text))
        slot = slots[n] if n < len(slots) else None
        if slot is not None and slot.written:
            written |= found
        if slot is None or not slot.written or slot.also_read:
            read |= found
    counter, ordered = _counter(i, form.unit, generation)
    waits = tuple(waits_of(i).items())
    local = form.unit == "lds" and not i.mnemonic.startswith(("ds_swizzle", "ds_bpermute", "ds_permute"))
    copies = "lds" in i.modifiers or "_lds_" in i.mnemonic
    barrier = i.mnemonic in ("s_barrier", "s_barrier_signal")
    return Effect(counter, ordered, written if counter else frozenset(), read, written, waits, barrier,
                  (local or copies) and bool(counter), copies, local, _most(counter, generation))  # fmt: skip


def _most(counter: str, generation: int) -> int:
    if counter == "kmcnt":
        return 31
    return 15 if counter == "lgkmcnt" and generation < 110 else 63


def _counter(i: Instruction, unit: str, generation: int) -> tuple[str, bool]:
    """Which counter an instruction raises, and whether its operations end in order (CDNA3 ISA 4.4, RDNA3 ISA 5.6)."""
    if unit == "smem":
        return ("kmcnt" if generation >= 120 else "lgkmcnt"), False
    if unit == "lds":
        return "lgkmcnt", True
    if unit not in ("vmem", "flat"):
        return "", True
    store = "store" in i.mnemonic
    return ("vscnt" if store and generation >= 110 else "vmcnt"), unit != "flat"


def _registers(text: str) -> Iterator[tuple[str, int]]:
    plain = re.sub(r"[|\-]|neg\(|abs\(|sext\(|\)", "", text).removesuffix(".l").removesuffix(".h")
    found = register(plain)
    if found is not None:
        yield from ((str(found.kind), found.number + n) for n in range(found.count))
