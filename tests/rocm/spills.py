"""Spills and scratch of every kernel that the HIP backend ships: ``python -m tests.rocm.spills [--schedules] [OPERATOR ...]``.

The default schedule of every operator, case, dtype and instruction set is compiled; with ``--schedules`` also every other
schedule that the backend lists for the typical case and for the large sizes below.  Prints what spills and exits with 1
where anything does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.toolchain import HipToolchain
from portakern.errors import PortakernError
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import lower_for
from portakern.registry import registry
from portakern.spec.load import library
from portakern.spec.operator import Operator
from portakern.study.work import Problem, Work, of_case, works

ISAS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
LARGE = {
    "matmul": ({"M": 8192, "N": 8192, "K": 8192}, {"M": 4096, "N": 4096, "K": 4096}),
    "matmul_bias_gelu": ({"M": 4096, "N": 4096, "K": 4096},),
    "attention": ({"B": 4, "H": 8, "G": 4, "SQ": 4096, "SK": 4096, "D": 128},),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel to compile: schedule number ``nth`` of the backend's list (0: the default)."""

    work: Work
    what: str
    nth: int = 0


def kernels(operators: list[Operator], schedules: bool, isas: Sequence[str] = ISAS) -> Iterator[Kernel]:
    targets = [registry().target(f"hip:{isa}") for isa in isas]
    for op in operators:
        asks = [(case, of_case(op, case)) for case in op.cases]
        for case, ask in asks:
            for work in works(ask, targets, op.dtypes, "default"):
                yield Kernel(work, f"{op.name} {case.name} {work.row.dtype} {work.target}")
        large = [Problem(op, {n: s for n, s in sizes.items() if n in dims_of(op)}, {}) for sizes in LARGE.get(op.name, ())]
        for ask in [*large, *([asks[0][1]] if schedules else [])]:
            for work in works(ask, targets, op.dtypes, "default"):
                for nth in range(count(work) if schedules else 1):
                    yield Kernel(work, f"{op.name} {work.row.shape} {work.row.dtype} {work.target} schedule {nth}", nth)


def dims_of(op: Operator) -> set[str]:
    return set(op.cases[0].dims)


def count(work: Work) -> int:
    """How many schedules the backend lists for the longest of the work's kernels' lists."""
    found = [0]

    def pick(nest: Nest, space: object) -> Schedule:
        found[0] = max(found[0], len(space))  # type: ignore[arg-type]
        return space[0]  # type: ignore[index]

    try:
        program(replace(work), pick)
    except PortakernError:
        return 1
    return found[0]


def program(work: Work, pick: object) -> Program:
    target = registry().target(work.target)
    language = registry().language(target.language)
    return lower_for(work.program, target, language, {}, dict(work.names), dict(work.facts), pick)  # type: ignore


def spilling(kernel: Kernel) -> str:
    """What is wrong with it: empty where nothing is."""
    target = registry().target(kernel.work.target)
    try:
        made = program(kernel.work, lambda nest, space: space[min(kernel.nth, len(space) - 1)])
        source = HipEmitter().emit(made, target)
        found = [r for r in HipToolchain().compile(source).resources if r.spills or r.scratch_bytes]
    except PortakernError as error:
        return f"{kernel.what}: {type(error).__name__} {error}"
    schedules = "; ".join(str(k.schedule) for k in made.kernels)
    return "\n".join(f"{kernel.what} [{schedules}]: {r.spills} spills, {r.scratch_bytes} B of scratch" for r in found)


def main() -> int:
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    chosen = [op for op in library() if not names or op.name in names]
    todo = list(kernels(chosen, "--schedules" in sys.argv))
    bad = 0
    with ProcessPoolExecutor(2) as pool:
        for n, message in enumerate(pool.map(spilling, todo, chunksize=8)):
            if message:
                bad += 1
                print(message, flush=True)
            if n % 200 == 199:
                print(f"{n + 1} of {len(todo)}", file=sys.stderr, flush=True)
    print(f"{len(todo)} compiled, {bad} with spills, scratch or an error")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
