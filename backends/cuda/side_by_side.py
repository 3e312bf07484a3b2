"""Kernels one after the other that need nothing of each other become one launch.

The end of a kernel and the start of the next leave a device half idle for some microseconds, which is much for copies of
operands that take 17 each (see :mod:`.hopper.packing`): the first blocks do the work of the first.  Products that make pieces
of one array, as the phases of a transposed convolution do, have few blocks each and fill a device together.  Their blocks take
turns where they write every other element of the same lines, of which memory gets whole sectors if all are written at about the
same time, and if their texts are short: a unit reads the instructions of all of them then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from portakern.emit.clike import KernelPlan, Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.names import CNames
from portakern.emit.clike.plan import statements
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import ONE, Name, PlanTerm, add, whole
from portakern.ir.functions import COSTLY
from portakern.ir.program import moved

from .plans import BLOCK, CudaKernelPlan, scratch_bytes, shared_operand_bytes
from .thirds import WAYS

IDLE = 1.25
"""How many more blocks than have work a launch may have, for blocks to take turns."""


@dataclass(frozen=True)
class SideBySide(CudaKernelPlan):
    """``parts`` have the grid's blocks one after the other, each as many as it has ``blocks``; or they take ``turns``, block by
    block, and the last blocks of a part that has fewer do nothing."""

    parts: tuple[KernelPlan, ...] = ()
    turns: bool = False

    def scopes(self) -> tuple[p.Scope, ...]:
        return tuple(replace(scope, given=frozenset({*scope.given, *(s.name for s in part.shared)}))
                     for part in self.parts for scope in part.scopes())  # fmt: skip

    def __str__(self) -> str:
        how = "taking turns" if self.turns else "side by side"
        return f"{how} in one launch of {self.blocks} blocks: {self.name}\n" + "".join(map(str, self.parts))


def joined(plan: p.ProgramPlan) -> p.ProgramPlan:
    """``plan`` with its elementwise kernels that follow each other and are independent as one, and so its products that make
    pieces of one array, whatever stands between them."""
    if not plan.repeats:
        plan = replace(plan, kernels=tuple(_together(plan.kernels)))
    kernels: list[KernelPlan] = []
    place: list[int] = []
    edges = {n for r in plan.repeats for n in (r.first, r.last)}  # what is repeated stays apart from what is not
    for number, kernel in enumerate(plan.kernels):
        parts = _parts(kernels[-1]) if kernels and number not in edges else ()
        if parts and all(_independent(part, kernel) for part in parts):
            kernels[-1] = _join((*parts, kernel))
        else:
            kernels.append(kernel)
        place.append(len(kernels) - 1)
    repeats = moved(plan.repeats, lambda n: place[n], lambda n: place[n] + 1)
    return replace(plan, kernels=tuple(kernels), repeats=repeats)


def _together(kernels: Sequence[KernelPlan]) -> list[KernelPlan]:
    """Products of pieces at the place of the last of them, where nothing between needs the first ones."""
    made: list[KernelPlan] = []
    for kernel in kernels:
        at = next((n for n in reversed(range(len(made))) if _of_one_array(made[n], kernel)), None)
        if at is not None and not any(_needs(later, made[at]) or _needs(made[at], later) for later in made[at + 1 :]):
            made.append(_join((*_parts(made.pop(at)), kernel)))
        else:
            made.append(kernel)
    return made


def _of_one_array(first: KernelPlan, second: KernelPlan) -> bool:
    """Whether both are products that one launch can do, and write pieces of one array."""
    parts = (*_parts(first), second)
    if any(x.family != "contraction" or scratch_bytes(x) for x in parts):
        return False
    if not all(_plain(x) for x in parts) or not all(_alike(x, second) for x in parts):
        return False
    written = [{q.source for q in x.params if q.written} for x in parts]
    return all(w == written[0] for w in written) and not any(q.source in written[0] for x in parts for q in x.params
                                                             if not q.written)  # fmt: skip


def _needs(first: KernelPlan, second: KernelPlan) -> bool:
    """Whether one of them writes what the other one reads or writes."""
    written = {q.source for q in first.params if q.written}
    return any(q.source in written for q in second.params)


def _parts(plan: KernelPlan) -> tuple[KernelPlan, ...]:
    return plan.parts if isinstance(plan, SideBySide) else (plan,)


def _independent(first: KernelPlan, second: KernelPlan) -> bool:
    """Whether both can run at once in one kernel: elementwise, with as many threads, neither reading what the other writes."""
    if any(not _plain(x) or x.family != "elementwise" or x.shared for x in (first, second)) or not _alike(first, second):
        return False
    written = [{q.source for q in plan.params if q.written} for plan in (first, second)]
    return not any(q.source in written[1 - n] for n, plan in enumerate((first, second)) for q in plan.params)


def _plain(plan: KernelPlan) -> bool:
    """Whether a kernel is one that can be a part: of a known number of blocks, each of which its scalars alone tell apart."""
    if type(plan) is not CudaKernelPlan or not isinstance(plan.blocks, int):
        return False
    return not any(BLOCK.text in p.words(s) for s in plan.body if not isinstance(s, p.Scalar))


def _alike(first: KernelPlan, second: KernelPlan) -> bool:
    """Whether both can be in one kernel: with as many threads, and no name that means two arrays."""
    assert isinstance(first, CudaKernelPlan) and isinstance(second, CudaKernelPlan)
    if (first.threads, first.at_once, first.keep) != (second.threads, second.at_once, second.keep):
        return False
    names = {q.name: q.source for q in first.params}
    return not any(names.get(q.name, q.source) != q.source for q in second.params)


def _join(parts: Sequence[KernelPlan]) -> SideBySide:
    parts = tuple(replace(x, beside=True) for x in parts if isinstance(x, CudaKernelPlan))
    first = max(parts, key=shared_operand_bytes)
    blocks = [x.blocks for x in parts if isinstance(x.blocks, int)]
    turns = len(parts) * max(blocks) <= IDLE * sum(blocks) and all(_leaves_gaps(x) and _is_short(x) for x in parts)
    params = tuple(dict.fromkeys(q for x in parts for q in x.params))
    layouts = tuple(dict.fromkeys(layout for x in parts for layout in x.layouts))
    fields = {**vars(first), "layouts": layouts, "name": _name([x.name for x in parts]), "params": params,
              "blocks": len(parts) * max(blocks) if turns else sum(blocks)}  # fmt: skip
    return SideBySide(**fields, parts=tuple(parts), turns=turns)


def _leaves_gaps(plan: CudaKernelPlan) -> bool:
    """Whether what a product stores lies in steps along every line."""
    stores = [s for s in statements(plan.body) if isinstance(s, p.StoreTile)]
    return plan.family == "contraction" and all(s.access.strides[-1:] != (ONE,) for s in stores)


FUNCTIONS = 64
"""Functions (exp, tanh and the like) for which a thread of a part has instructions, at most, where blocks take turns."""


def _is_short(plan: CudaKernelPlan) -> bool:
    """Whether a part's instructions are few.

    With turns, and without, an H200 took for transposed convolutions of KernelBench by wgmma 1260 us and 1920 (level 1, 81),
    4488 and 5557 (level 2, 2), 12090 and 13999 (100), 1668 and 1769 (49); by fused multiply-adds, with one function behind,
    4483 and 5111 (60).  But it took by mma.sync, whose loops are unrolled twice, 5451 and 4286 (level 1, 73), and with three
    functions of each of 64 elements 10437 and 7169 (16).  Turns of 256 blocks were slower than both in most of them.
    """
    parts = list(statements(plan.body))
    elements = max((s.place.layout.rows * s.place.layout.cols for s in parts if isinstance(s, p.Dot)), default=0)
    functions = len(COSTLY & frozenset().union(*(p.calls(s) for s in parts)))
    return plan.products != WAYS["bf16x6"] and functions * elements <= FUNCTIONS * plan.threads


def _name(names: Sequence[str]) -> str:
    """What the names begin with in common, then what each of them is: k_pack_a_b of k_pack_a and k_pack_b."""
    words = [x.split("_") for x in names]
    common = len(list(takewhile(lambda same: len(set(same)) == 1, zip(*words, strict=False))))
    return "_".join([*words[0][:common], *("_".join(x[common:]) for x in words)])


def print_side_by_side(printer: Printer, k: SideBySide) -> list[str]:
    """Lines of the kernel; ``printer`` prints the parts' statements."""
    lines = printer.opening(k)
    own = _own_blocks(k)
    if k.turns:
        names, n = CNames({q.name for q in k.params}), len(k.parts)
        which, block = names.fresh("part", "phase"), names.fresh("own_block")
        lines += indented([f"const uint32_t {which} = blockIdx.x % {n};  // neighbours in memory are written at the same time",
                           f"const uint32_t {block} = blockIdx.x / {n};"])
        own = [(f"{which} == {number} && {block} < {part.blocks}", Name(block)) for number, part in enumerate(k.parts)]
    for n, (part, (whose, index)) in enumerate(zip(k.parts, own, strict=True)):
        head = f"{'} else ' if n else ''}if ({whose}) {{" if whose else "} else {"
        printer.plan, printer.names = part, part.free_names()
        body = [*printer.usings(part), *printer.shared(part), "", *printer.statements([_of_block(s, index) for s in part.body])]
        lines += indented([f"{head}  // {part.name}", *indented(body)])
    return [*lines, "    }", "}"]


def _own_blocks(k: SideBySide) -> list[tuple[str, PlanTerm]]:
    """For each part of those after each other, which blocks are its own (empty: all others), and which of them a block is."""
    found: list[tuple[str, PlanTerm]] = []
    begin = 0
    for n, part in enumerate(k.parts):
        assert isinstance(part.blocks, int)
        end = begin + part.blocks
        found.append((f"blockIdx.x < {end}" if n + 1 < len(k.parts) else "", add(BLOCK, whole(-begin)) if begin else BLOCK))
        begin = end
    return found


def _of_block(s: p.Statement, block: PlanTerm) -> p.Statement:
    """``s`` of a part, of which ``block`` is the index of the block."""
    if block == BLOCK or not isinstance(s, p.Scalar):
        return s
    return replace(s, value=s.value.rewritten(lambda x: block if x == BLOCK else x))
