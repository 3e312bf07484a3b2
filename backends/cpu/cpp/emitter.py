"""C++ for CPUs: blocks of the grid over the cores, tiles on the stack of a core, one host function per operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from portakern.backend import Source, Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import CLikeEmitter, Dialect, Printer, reached
from portakern.emit.clike import plan as p
from portakern.emit.clike.names import CNames, identifier, means_something, size_name
from portakern.emit.clike.terms import Name, PlanTerm, size_term
from portakern.errors import ScheduleError
from portakern.ir.program import Array, Nested, Program, nested
from portakern.ir.size import product
from portakern.ir.tile import BufferType

from .sums import set_by_products

DIALECT = Dialect(
    "C++",
    subgroup=1,
    rows="pk::Dense<{rows}, {cols}>",
    accumulator="pk::Dense<{rows}, {cols}>",
    plain_vectors=True,
    kernel="static void {name}_block(int64_t block, {params})",
    block="block",
    pointer="{type}* __restrict {name}",
    const_pointer="const {type}* __restrict {name}",
    shared="pk::Panel{role}<{element}, {rows}, {cols}, {transposed}>",
    declare_shared="{type} {name};",
    operand="{base}_panel",
    role_matters=True,
    pipelined=False,
    synchronised=False,
    sorts=True,
    takes_pixels=True,
    takes_planes=True,
)


HOME = {"reduce_cols": "reduce", "reduce_rows": "reduce", "scan_cols": "scan", "dot": "dot", "sums": "dot",
        "sorted_order": "sort", "in_order": "sort",
        "gather": "gather", "along": "gather", "part": "pixels", "wide_part": "pixels", "columns": "pixels",
        "cross": "planes", "listed": "pixels"}  # fmt: skip
"""Words of the vocabulary -> the header that holds them, beside what every text includes."""


class CppPrinter(Printer):
    """The words of the tile vocabulary, without threads; what one statement alone reads is computed where it is read."""

    set_by_products: frozenset[str] = frozenset()

    def kernel(self, k: p.KernelPlan) -> list[str]:
        self.set_by_products = set_by_products(k.body)
        return super().kernel(k)

    def on_Fill(self, s: p.Fill) -> list[str]:
        if s.name not in self.set_by_products:
            return super().on_Fill(s)
        return self.define(s.name, s.define, self.word("sums", f"{self.dialect.type(s.dtype)}, {self.place(s.place)}"))

    def mapping(self, s: p.Map) -> str:
        reader = self.following
        read_next = isinstance(reader, p.StoreTile | p.Reduce | p.Scan) and reader.value == Name(s.name)
        return "lazy" if s.once and read_next else "map"

    def on_Relayout(self, s: p.Relayout) -> list[str]:
        if s.word == "copy":  # loads may be views, and this one is written to
            return self.define(s.name, s.define, self.word("copy", "", s.value))
        return super().on_Relayout(s)

    def on_CopyToShared(self, s: p.CopyToShared) -> list[str]:
        return self.picking(s.picks, super().on_CopyToShared(s))

    def on_StoreTile(self, s: p.StoreTile) -> list[str]:
        return self.picking(s.picks, super().on_StoreTile(s))

    def picking(self, picks: Sequence[PlanTerm], lines: list[str]) -> list[str]:
        if picks:  # words of their own header, also where no coordinate is taken apart
            self.words.add("part")
        return lines

    def only(self, s: p.Shared) -> str:
        return s.name


class CppEmitter(CLikeEmitter):
    suffix = ".cpp"
    headers = Path(__file__).parent / "include" / "pk"
    printer = CppPrinter

    def dialect(self, target: Target) -> Dialect:
        return DIALECT

    def includes(self, words: Collection[str]) -> list[str]:
        return [f"pk/{x}.hpp" for x in sorted({"parallel", "tile", *(HOME[word] for word in words if word in HOME)})]

    def emit(self, program: Program, target: Target) -> Source:
        plan = self.plan(program, target)
        for k in plan.kernels:
            _fits_the_stack(k)
        printer = self.printer(DIALECT)
        body = [line for k in plan.kernels for line in ("", *printer.kernel(k))]
        entry, included = entry_name(program), self.includes(printer.words)
        lines = [self.title(program, target), *(f'#include "{name}"' for name in included), *body,
                 "", *_host(program, plan, entry)]  # fmt: skip
        return Source(
            target, program.name, entry, "\n".join(lines) + "\n", self.suffix, program.arrays, program.sizes, (),
            reached(included, self.library()), tuple(k.schedule for k in program.kernels),
        )  # fmt: skip


STACK = 4 << 20
"""Bytes of tiles that a block may have: half of the stack that Linux gives a thread by default (getrlimit(2), RLIMIT_STACK)."""


def _fits_the_stack(k: p.KernelPlan) -> None:
    """Raises :class:`ScheduleError` where the tiles of a block are more than a thread's stack holds."""
    made = [s for s in p.statements(k.body) if isinstance(s, p.Fill | p.Map | p.Relayout) and s.define]
    kept = [s for s in made if not (isinstance(s, p.Map) and s.once)]  # the others are computed where they are read
    tiles = sum(s.place.size * DTYPES[s.dtype].bytes for s in kept)
    tiles += sum(s.rows * s.cols * s.slots * DTYPES[s.dtype].bytes for s in k.shared)
    if tiles > STACK:
        raise ScheduleError(f"the tiles of a block of {k.name} take {tiles >> 10} KB of a thread's stack, which has room for "
                            f"{STACK >> 10}", hint="take smaller tiles")  # fmt: skip


def entry_name(program: Program) -> str:
    """The name of the host function: the operator's, unless C++ or the C library has taken it."""
    name = identifier(program.name)
    return f"{name}_op" if means_something(name) else name


def parameters(program: Program) -> list[tuple[str, str, str]]:
    """(array or size, C++ type, role) of the host function: arrays in program order, then scalars, then open dims."""
    found: list[tuple[str, str, str]] = []
    for a in program.by_role("input", "output"):
        const = "const " if a.role == "input" else ""
        found.append((a.name, f"{const}{DIALECT.type(a.dtype)}*", a.role))
    found += [(a.name, DIALECT.type(a.dtype), "scalar") for a in program.by_role("scalar")]
    return [*found, *((size, "int64_t", "size") for size in program.sizes)]


def _host(program: Program, plan: p.ProgramPlan, entry: str) -> list[str]:
    """The function that callers see: temporaries, initial values, and the kernels in order."""
    names = CNames({entry})
    called = {s: size_name(s) for s in (*program.sizes, *(r.step for r in program.repeats))}
    names.taken |= set(called.values())
    for a in program.arrays:
        called[a.name] = names.fresh(a.name, a.name + "_")
    params = ", ".join(f"{kind} {called[name]}" for name, kind, _ in parameters(program))
    lines = [f'extern "C" void {entry}({params}) {{']
    for a in program.arrays:
        if (made := _allocate(a, called)) is not None:
            lines.append("    " + made)

    def run(k: p.KernelPlan) -> str:
        args = ", ".join(called[q.source] + (".data" if _temporary(program, q.source) else "") for q in k.params)
        capture = "[&]" if program.by_role("temporary") else "[=]"
        return f"pk::parallel({size_term(k.blocks)}, {capture}(int64_t block) {{ {k.name}_block(block, {args}); }});"

    return [*lines, *_in_order(nested(len(plan.kernels), plan.repeats), lambda n: run(plan.kernels[n]), called, "    "), "}"]


def _in_order(items: Sequence[int | Nested], run: Callable[[int], str], called: Mapping[str, str], pad: str) -> list[str]:
    """A line for every kernel, in loops where they are repeated."""
    lines: list[str] = []
    for item in items:
        if isinstance(item, int):
            lines.append(pad + run(item))
            continue
        r, step = item.repeat, called[item.repeat.step]
        lines += [f"{pad}for (int64_t {step} = 0; {step} < {size_term(r.count)}; ++{step}) {{",
                  *_in_order(item.inside, run, called, pad + "    "),
                  *(f"{pad}    {called[a]}.trade({called[b]});" for a, b in r.swaps), f"{pad}}}"]  # fmt: skip
    return lines


def _temporary(program: Program, name: str) -> bool:
    return any(a.name == name for a in program.by_role("temporary"))


def _allocate(a: Array, called: dict[str, str]) -> str | None:
    """The line that makes a temporary, or fills an output that kernels add into."""
    if not isinstance(a.type, BufferType):
        return None
    kind, count = DIALECT.type(a.dtype), size_term(product(a.type.shape))
    if a.role == "temporary":
        init = "" if a.init is None else f", {kind}({_number(a.init)})"
        return f"pk::Buffer<{kind}> {called[a.name]}({count}{init});"
    if a.role == "output" and a.init is not None:
        return f"pk::Buffer<{kind}>::fill_array({called[a.name]}, {count}, {kind}({_number(a.init)}));"
    return None


def _number(value: float) -> str:
    from portakern.emit.clike.expressions import constant

    return str(constant(value, "f64"))
