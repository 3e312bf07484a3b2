"""Which instructions may lie how far back: distances over the control-flow graph, the smallest on any path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from ..assembly.linking import destination
from ..assembly.parser import Assembly, Instruction
from . import cdna, rdna
from .facts import Facts, facts

Recent = Mapping[int, int]
"""Instructions that others must wait for, and the wait states since."""


@dataclass(frozen=True)
class Hazard:
    """``instruction`` comes ``found`` wait states behind ``producer`` and needs ``needed``."""

    instruction: Instruction
    producer: Instruction
    found: int
    needed: int
    why: str
    unit: str

    @property
    def message(self) -> str:
        return (f"it {self.why}, line {self.producer.line} `{self.producer}`: {self.needed} {self.unit} must lie between, "
                f"and {self.found} do")  # fmt: skip


def find(assembly: Assembly, kernel: str, generation: int) -> list[Hazard]:
    """Of a kernel, in its order."""
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    known: dict[tuple[str, ...], Facts] = {}
    instructions = assembly.instructions[start:end]
    all_facts = [_facts(i, known) for i in instructions]
    rules = cdna if generation < 110 else rdna
    # What is for both kinds of memory (no xnack in the target) must hold where loads are repeated.
    repeats = ":xnack-" not in assembly.target and assembly.kernels[kernel].descriptor.get("reserve_xnack_mask", 1)
    blocks = _blocks(assembly, start, end)
    entering: dict[int, dict[int, int]] = {0: {}}
    todo = [0]
    worst: dict[int, _Found] = {}
    while todo:
        block = todo.pop()
        recent = dict(entering[block])
        for n in range(block, blocks[block][0]):
            _judge(all_facts, n, recent, rules, generation, worst)
            recent = _after(all_facts, n, recent, rules, generation)
            if all_facts[n].load and not repeats:
                recent.pop(n, None)
        for after in blocks[block][1]:
            known_there = entering.get(after)
            merged = _merged(known_there or {}, recent)
            if known_there is None or merged != known_there:
                entering[after] = merged
                todo.append(after)
    for n, now in enumerate(all_facts):
        if generation >= 110 and (why := rdna.directly_behind(all_facts[n - 1] if n else None, now)):
            worst[n] = _Found(max(0, n - 1), 0, 1, why)
    unit = "wait states" if generation < 110 else "vector instructions"
    return [
        Hazard(instructions[n], instructions[x.producer], x.distance, x.needed, x.why, unit) for n, x in sorted(worst.items())
    ]


def _facts(i: Instruction, known: dict[tuple[str, ...], Facts]) -> Facts:
    key = (i.mnemonic, *i.operands, "|", *i.modifiers)
    if key not in known:
        known[key] = facts(i)
    return known[key]


@dataclass(frozen=True)
class _Found:
    producer: int
    distance: int
    needed: int
    why: str


def _judge(all_facts: Sequence[Facts], n: int, recent: Recent, rules: ModuleType, generation: int,
           worst: dict[int, _Found]) -> None:  # fmt: skip
    now = all_facts[n]
    for k, distance in recent.items():
        before = all_facts[k]
        if not before.writes_exec and before.touched.isdisjoint(now.touched) and not rules.apart(before):
            continue
        needed, why = rules.needed(before, now, generation)
        if needed > distance and (n not in worst or worst[n].needed - worst[n].distance < needed - distance):
            if before.matrix and _rewritten(all_facts, recent, k, now):
                continue
            worst[n] = _Found(k, distance, needed, why)


def _rewritten(all_facts: Sequence[Facts], recent: Recent, k: int, now: Facts) -> bool:
    """Whether a later matrix instruction, which waited by itself, writes what ``now`` shares with matrix instruction ``k``."""
    shared = all_facts[k].writes & now.touched
    later = (all_facts[m] for m, distance in recent.items() if distance < recent[k])
    return bool(shared) and any(x.matrix and shared <= x.writes for x in later)


def _after(all_facts: Sequence[Facts], n: int, recent: dict[int, int], rules: ModuleType, generation: int) -> dict[int, int]:
    now = all_facts[n]
    if generation < 110:
        passed = now.states
    elif now.memory or _waits_for_vectors(now):  # memory instructions are issued when all vector results are there
        return {k: d for k, d in recent.items() if all_facts[k].matrix}
    else:
        passed = int(now.vector)
    left = {k: d + passed for k, d in recent.items() if d + passed < rules.reach(all_facts[k])}
    if now.matrix:  # a later product of the same registers waits for the earlier one by itself
        left = {k: max(d, all_facts[k].passes * _waited_for(all_facts[k], now, rules, generation)) for k, d in left.items()}
        left = {k: d for k, d in left.items() if not (all_facts[k].matrix and all_facts[k].writes <= now.writes)}
    if generation == 110:  # another transcendental ends the hazard of those before, and so does writing the register anew
        ends = now.unit == "trans" and now.vector
        left = {k: d for k, d in left.items()
                if all_facts[k].unit != "trans" or not (ends or all_facts[k].written_vectors <= now.writes)}  # fmt: skip
    if rules.produces(now):
        left[n] = 0
    return left


def _waited_for(before: Facts, now: Facts, rules: ModuleType, generation: int) -> bool:
    """Whether ``now`` takes what matrix instruction ``before`` makes and may follow sooner than that is made: the hardware
    holds it back, and so what is behind it."""
    return before.matrix and bool(before.writes & now.reads) and rules.needed(before, now, generation)[0] < before.passes


def _waits_for_vectors(x: Facts) -> bool:
    if x.name not in ("s_waitcnt_depctr", "s_wait_alu"):
        return False
    return "va_vdst(0)" in " ".join((*x.instruction.operands, *x.instruction.modifiers)).replace("depctr_", "")


def _merged(a: Recent, b: Recent) -> dict[int, int]:
    return {k: min(a.get(k, 1 << 30), b.get(k, 1 << 30)) for k in a.keys() | b.keys()}


def _blocks(assembly: Assembly, start: int, end: int) -> dict[int, tuple[int, list[int]]]:
    """Of each basic block by its first instruction, the one behind its last, and where it goes."""
    targets = {at - start for at in assembly.labels.values() if start <= at < end}
    branches = [n for n in range(end - start) if assembly.instructions[start + n].mnemonic.startswith(_LEAVES)]
    starts = sorted({0} | targets | {n + 1 for n in branches if n + 1 < end - start})
    found: dict[int, tuple[int, list[int]]] = {}
    for first, last in zip(starts, [*starts[1:], end - start], strict=True):
        i = assembly.instructions[start + last - 1]
        follows = [last] if last < end - start and not i.mnemonic.startswith(("s_branch", "s_endpgm", "s_setpc")) else []
        if i.mnemonic.startswith(("s_branch", "s_cbranch", "s_setpc")):
            label = destination(assembly.instructions, start + last - 1)
            follows += [assembly.labels[label] - start] if label is not None else []
        found[first] = last, follows
    return found


_LEAVES = ("s_branch", "s_cbranch", "s_endpgm", "s_setpc", "s_swappc")
