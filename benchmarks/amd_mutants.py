"""How many faults of machine code the AMD machine catches.

    python benchmarks/amd_mutants.py softmax matmul --targets hip:gfx942 --dtype f32,bf16
    python benchmarks/amd_mutants.py all --targets hip:gfx942 --each 40 --json mutants.json

Each kernel is checked as it is, where nothing may be reported, and then with every wait, barrier, mask, bound and lane pattern
taken away or loosened in turn (``portakern.backends.rocm.machine.mutants``, which also says which mutants change nothing and
why).  Caught is a mutant that the machine reports, or whose results are wrong.  ``--each N`` takes N mutants of a kernel at
random.  Exit status 1 where something is reported on an unchanged kernel, or less than 95% is caught.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from portakern.backends.rocm.machine.arguments import parameters
from portakern.backends.rocm.machine.mutants import Edge, Mutant, covered, edges, mutants
from portakern.backends.rocm.machine.program import load
from portakern.backends.rocm.machine.simulator import MachineProgram, Translated

from portakern.backend import Binary, HostBuffer, Source
from portakern.cli import options
from portakern.errors import PortakernError
from portakern.study import steps
from portakern.study.work import Work
from portakern.tools.cache import digest

KINDS = ("wait", "barrier", "mask", "bound", "layout", "format")
ASKED = 0.95


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant: ``caught``, ``equivalent`` or ``missed``, and by what."""

    operator: str
    target: str
    dtype: str
    shape: str
    kind: str
    line: int
    what: str
    result: str
    why: str


@dataclass
class Recorded(MachineProgram):
    """A program that remembers the bits of what it put out."""

    outputs: list[str] = field(default_factory=list)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        super().run(buffers, sizes)
        self.outputs.append(digest(*(buffers[a.name].array.tobytes() for a in self.source.by_role("output"))))


def executable(source: Source, binary: Binary, text: str, budget: int) -> Recorded:
    """``text`` in place of the binary's assembly, translated without the cache."""
    found = Recorded(source, replace(binary, assembly=text), budget=budget)
    for kernel in {launch.kernel for launch in source.launches}:
        found._translated[text, kernel] = Translated(load(text, kernel), parameters(text).get(kernel, ()))
    return found


def verdict(source: Source, binary: Binary, text: str, work: Work, budget: int, outputs: list[str] | None = None) -> str:
    """What is wrong with ``text``; empty where nothing is.  ``outputs`` gets what it put out."""
    try:
        program = executable(source, binary, text, budget)
        found, _ = steps.judged(program, work, 0, False)
        if outputs is not None:
            outputs += program.outputs
    except PortakernError as error:
        return error.message
    return "" if found.correct else f"wrong: {found.message}"


def judge(m: Mutant, source: Source, binary: Binary, work: Work, budget: int, expected: list[str],
          never: Callable[[], frozenset[Edge]]) -> tuple[str, str]:  # fmt: skip
    """``caught``, ``equivalent`` or ``missed``, and why.

    ``expected`` is what the unchanged kernel put out, ``never`` the ways out of its branches that it never takes.
    """
    outputs: list[str] = []
    problem = verdict(source, binary, m.text, work, budget, outputs)
    if problem:
        return "caught", problem
    if m.kind == "wait":
        if all(covered(m.text, launch.kernel) for launch in source.launches):
            return "equivalent", "on no path is anything touched that it covered before a later wait covers it"
        if all(covered(m.text, launch.kernel, never()) for launch in source.launches):
            return "equivalent", "on no path that these shapes take is anything touched before a later wait covers it"
    if m.kind == "barrier" and all(one_wave(source, n) for n in range(len(source.launches))):
        return "equivalent", "the workgroup is one wave"
    if m.witness and not verdict(source, binary, m.witness, work, budget):
        return "equivalent", "no lane was ever let through that was not before"
    if m.poisoned and not verdict(source, binary, m.poisoned, work, budget):
        return "equivalent", "nothing that can be seen depends on the lanes that it lets through"
    if m.sides and outputs == expected:
        return "equivalent", "both sides of the if and else put out the same bits on all inputs"
    if not verdict(source, binary, m.reached, work, budget):
        return "equivalent", "the line is never reached"
    return "missed", ""


def one_wave(source: Source, launch: int) -> bool:
    x, y, z = source.launches[launch].block
    return x * y * z <= (64 if source.target.device.isa.startswith("gfx9") else 32)


def measure(work: Work, each: int | None, rng: random.Random) -> list[Outcome]:
    made = steps.build(work)
    if made.source is None or not made.binary_key:
        raise SystemExit(f"{work.row.operator} for {work.target} cannot be built: {made.row.error}")
    binary = steps.cached_binary(made.binary_key)
    assert binary is not None
    if not binary.assembly or not made.source.launches:
        return []
    original = executable(made.source, binary, binary.assembly, 10**8)
    found, _ = steps.judged(original, work, 0, False)
    where: dict[str, Any] = {
        "operator": work.row.operator,
        "target": work.target,
        "dtype": work.row.dtype or "",
        "shape": str(work.row.shape),
    }
    if not found.correct:
        return [Outcome(**where, kind="none", line=0, what="unchanged", result="reported", why=found.message)]
    budget = max(100_000, 2 * original.executed)
    assembly, source = binary.assembly, made.source

    @functools.cache
    def never() -> frozenset[Edge]:
        return frozenset(edge for edge, text in edges(assembly) if not verdict(source, binary, text, work, budget))

    chosen = list(mutants(assembly))
    if each is not None and len(chosen) > each:
        chosen = sorted(rng.sample(chosen, each), key=lambda m: m.line)
    outcomes = []
    for m in chosen:
        result, why = judge(m, source, binary, work, budget, original.outputs, never)
        outcomes.append(Outcome(**where, kind=m.kind, line=m.line, what=m.what, result=result, why=why))
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    lines = [f"{'kind':<10}{'mutants':>9}{'equivalent':>12}{'caught':>8}{'missed':>8}{'share':>8}"]
    for kind in (*KINDS, "all"):
        count = Counter(o.result for o in outcomes if kind in ("all", o.kind) and o.kind != "none")
        judged = count["caught"] + count["missed"]
        share = f"{count['caught'] / judged:.1%}" if judged else "-"
        lines.append(
            f"{kind:<10}{sum(count.values()):>9}{count['equivalent']:>12}{count['caught']:>8}{count['missed']:>8}{share:>8}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="+", metavar="OP", help="library names, or all")
    options.add_targets(parser)
    parser.add_argument("--dtype", metavar="D,..", default="f32,bf16")
    parser.add_argument(
        "--cases", type=int, default=1, help="how many of an operator's cases, from the one of middle size on (default 1)"
    )
    parser.add_argument("--each", type=int, help="at most so many mutants of a kernel, at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no kernel after so long")
    parser.add_argument("--json", metavar="FILE", help="every outcome")
    args = parser.parse_args()
    rng, begun = random.Random(args.seed), time.monotonic()
    outcomes: list[Outcome] = []
    for work in works(args):
        if time.monotonic() - begun > args.seconds:
            print(f"stopped before {work.row.operator} {work.target} {work.row.dtype}")
            break
        new = measure(work, args.each, rng)
        outcomes += new
        count = Counter(o.result for o in new)
        print(f"{work.row.operator} {work.target} {work.row.dtype} {work.row.shape}: {dict(count)}", flush=True)
    for o in outcomes:
        if o.result in ("missed", "reported"):
            print(f"{o.result}: {o.operator} {o.target} {o.dtype} {o.shape} line {o.line}: {o.what} {o.why}")
    print(table(outcomes))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump([asdict(o) for o in outcomes], file, indent=1)
    count = Counter(o.result for o in outcomes)
    judged = count["caught"] + count["missed"]
    return 0 if not count["reported"] and (not judged or count["caught"] >= ASKED * judged) else 1


def works(args: argparse.Namespace) -> list[Work]:
    """Cases of each operator, from that of middle size on: the smallest often fill no wave."""
    found: list[Work] = []
    for name in args.operators:
        asked = argparse.Namespace(operator=name, targets=args.targets, dtype=args.dtype, shape=[], param=[], schedule=[])
        groups: dict[tuple[Any, ...], list[Work]] = {}
        for work in options.asked(asked, every_case=True).works:
            groups.setdefault((work.row.operator, work.target, work.row.dtype), []).append(work)
        for group in groups.values():
            found += sorted(group, key=_size)[len(group) // 2 :][: args.cases]
    return found


def _size(work: Work) -> int:
    total = 1
    for n in (work.row.shape or {}).values():
        total *= n if isinstance(n, int) else 1
    return total


if __name__ == "__main__":
    sys.exit(main())
