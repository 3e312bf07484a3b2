"""How many faults of machine code the AMD machine catches.

    python benchmarks/amd_mutants.py softmax matmul --targets hip:gfx942 --dtype f32,bf16
    python benchmarks/amd_mutants.py all --targets hip:gfx942,triton:gfx950 --each 40 --json mutants.json

Each kernel is checked as it is, where nothing may be reported, and then with every wait, barrier, mask, bound, select, range,
lane layout, 8-bit format and wait state taken away or loosened in turn (``amd_mutation``, which also says which mutants change
nothing and why).  Caught is a mutant that the machine reports, or whose results are wrong.  ``--each N`` takes N mutants of a
kernel at random.

``equivalent`` are mutants that change nothing that can be seen, by argument.  ``agree`` are mutants of masks for which there is
no such argument, but which put out the kernel's own bits on all inputs of the check and on three times as many others.
``share`` is what was caught of those that were caught or missed; ``strictly`` counts those that agree as missed.  Exit status 1
where something is reported on an unchanged kernel, or the share is below 95%.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context

from amd_mutation import KINDS, Outcome, Trial, judged

from portakern.backends.rocm.amdgcn.execution.simulator import MachineProgram
from portakern.cli import options
from portakern.errors import PortakernError
from portakern.spec.bind import bind
from portakern.study import steps
from portakern.study.work import Work

ASKED = 0.95

RAGGED = {
    "add_relu": [{"M": 37, "N": 1001}],
    "silu_mul": [{"M": 37, "N": 1003}],
    "transpose": [{"M": 129, "N": 255}],
    "row_sum": [{"M": 65, "N": 1001}],
    "softmax": [{"M": 37, "N": 1001}],
    "cross_entropy": [{"M": 37, "N": 1001}],
    "rms_norm": [{"M": 37, "N": 1001}],
    "layer_norm": [{"M": 37, "N": 1001}],
    "cumsum": [{"M": 37, "N": 1001}],
    "matmul": [{"M": 129, "N": 65, "K": 141}],
    "matmul_bias_gelu": [{"M": 129, "N": 65, "K": 141}],
    "attention": [{"B": 1, "H": 1, "G": 2, "SQ": 77, "SK": 205, "D": 40}],
}
"""Sizes of the library's operators at which every axis is ragged and loops over tiles go round three times."""


@dataclass(frozen=True)
class Kernel:
    """What became of the mutants of one kernel."""

    operator: str
    target: str
    dtype: str
    shape: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    error: str = ""
    """What is wrong with the kernel as it is."""

    def __str__(self) -> str:
        return f"{self.operator} {self.target} {self.dtype} {self.shape}"


def measure(work: Work, each: int | None, seed: int) -> Kernel:
    begun = time.process_time()
    where = (
        work.row.operator,
        work.target,
        work.row.dtype or "",
        ",".join(f"{k}={v}" for k, v in (work.row.shape or {}).items()),
    )
    error, outcomes = "", []
    try:
        trial = trial_of(work)
        if trial is not None:
            outcomes = judged(trial, each, seed)
    except PortakernError as problem:
        error = problem.message
    return Kernel(*where, tuple(outcomes), time.process_time() - begun, error)


def trial_of(work: Work) -> Trial | None:
    """``None`` where there is nothing to execute.  Raises what is wrong with the kernel as it is."""
    made = steps.build(work)
    if made.source is None or not made.binary_key:
        raise PortakernError("build", f"it cannot be built: {made.row.error}")
    binary = steps.cached_binary(made.binary_key)
    assert binary is not None
    if not binary.machine_code or 0 in (work.row.shape or {}).values():
        return None
    found = steps.judged(MachineProgram(made.source, binary, threads=1), work, 0, False).verdict
    if not found.correct:
        raise PortakernError("incorrect", found.message)
    bound = bind(work.program, {n: size for n, size in work.sizes.items() if n in work.program.dims})
    return Trial(made.source, binary, bound, dict(work.sizes), work.families, found.stages)


# ---- what is shown -----------------------------------------------------------------------------------------------------


def row(outcomes: list[Outcome]) -> str:
    count = Counter(o.result for o in outcomes)
    considered = count["caught"] + count["missed"], len(outcomes) - count["equivalent"]
    shares = "".join(f"{count['caught'] / n:>9.1%}" if n else f"{'-':>9}" for n in considered)
    found = "".join(
        f"{count[result]:>{width}}" for result, width in (("equivalent", 12), ("agrees", 8), ("missed", 8), ("caught", 8))
    )
    return f"{len(outcomes):>8}{found}{shares}"


def tables(kernels: list[Kernel]) -> Iterator[str]:
    head = f"{'mutants':>8}{'equivalent':>12}{'agree':>8}{'missed':>8}{'caught':>8}{'share':>9}{'strictly':>9}"
    everything = [o for k in kernels for o in k.outcomes]
    yield f"{'kind':<32}{head}"
    for kind in KINDS:
        if some := [o for o in everything if o.kind == kind]:
            yield f"{kind:<32}{row(some)}"
    yield f"\n{'target':<32}{head}"
    for target in dict.fromkeys(k.target for k in kernels):
        yield f"{target:<32}{row([o for k in kernels if k.target == target for o in k.outcomes])}"
    yield f"\n{'operator':<32}{head}"
    for operator in dict.fromkeys(k.operator for k in kernels):
        yield f"{operator:<32}{row([o for k in kernels if k.operator == operator for o in k.outcomes])}"
    yield f"\n{'all':<32}{row(everything)}"
    for result in ("equivalent", "agrees"):
        for why, n in Counter(o.why for o in everything if o.result == result).most_common():
            yield f"{n:>8}  {result}: {why}"


def works(args: argparse.Namespace) -> list[Work]:
    found: list[Work] = []
    names = list(RAGGED) if args.operators == ["all"] else args.operators
    for name in names:
        for shape in [args.shape] if args.shape else [[f"{k}={v}" for k, v in case.items()] for case in RAGGED.get(name, [{}])]:
            asked = argparse.Namespace(operator=name, targets=args.targets, dtype=args.dtype, shape=shape, param=args.param,
                                       schedule=args.schedule)  # fmt: skip
            found += options.asked(asked).works
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="+", metavar="OP", help="library names or FILE:NAME, or all")
    options.add_targets(parser)
    parser.add_argument("--dtype", metavar="D,..", default="f32,bf16")
    parser.add_argument("--shape", action="append", metavar="D=N,..", default=[], help="in place of our ragged ones")
    parser.add_argument("--param", action="append", metavar="P=V,..", default=[])
    parser.add_argument("--schedule", action="append", metavar="K=V,..", default=[])
    parser.add_argument("--each", type=int, help="at most so many mutants of a kernel, at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="kernels at a time (default 2)")
    parser.add_argument("--json", metavar="FILE", help="every outcome")
    args = parser.parse_args()
    kernels: list[Kernel] = []
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(measure, work, args.each, args.seed) for work in works(args)]
        for done in as_completed(running):
            k = done.result()
            kernels.append(k)
            count = dict(Counter(o.result for o in k.outcomes))
            print(f"{k}: {k.error or count} {k.seconds:.0f} s", flush=True)
            for o in k.outcomes:
                if o.result == "missed":
                    print(f"  missed: {o.kind} in line {o.line}: {o.what}", flush=True)
            if args.json:
                with open(args.json, "w", encoding="utf-8") as file:
                    json.dump([asdict(k) for k in kernels], file, indent=1)
    print("\n" + "\n".join(tables(kernels)))
    count = Counter(o.result for k in kernels for o in k.outcomes)
    judged = count["caught"] + count["missed"]
    return 1 if any(k.error for k in kernels) or (judged and count["caught"] < ASKED * judged) else 0


if __name__ == "__main__":
    sys.exit(main())
