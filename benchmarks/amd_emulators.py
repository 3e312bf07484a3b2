"""Whether an emulator that is not of this project agrees with the AMD machine, on the same code objects.

    python benchmarks/amd_emulators.py all --tinygrad CHECKOUT --targets hip:gfx1100,hip:gfx1201 --dtype f32,bf16
    python benchmarks/amd_emulators.py matmul --tinygrad CHECKOUT --targets hip:gfx942 --repaired --most 100000

``CHECKOUT`` is one of github.com/tinygrad/tinygrad with what that needs (clang, or ``CC`` naming another, which takes clang's
arguments), used as it is, or with what emulator_repairs.py does for it (``--repaired``).  Every case of an operator that takes
at most ``--most`` instructions of waves is compiled as always, and its code objects run in both, with the check's inputs:
normal numbers, and then ``--stages`` (portakern.check.adversarial).  The outputs of both are compared bit by bit (any NaN is
like another), and the emulator's with the float64 oracle, as ``portakern check`` does with ours.  A run is

    same      all bits of all outputs are the same
    rounding  bits differ, and the emulator's outputs are within the oracle's bounds too
    differs   the emulator's outputs are not within the bounds
    cannot    the emulator raised: an instruction that it lacks, say; the row's later runs are left out
    ours      ours is not correct, or reports a fault

Exit status 1 where a run is one of ``ours`` or ``differs``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from emulator_tinygrad import Launch, Pattern, commit, unfit

from portakern.backend import CompiledBinary, Dispatch, HostBuffer, Source
from portakern.backends.rocm.amdgcn.code_objects.arguments import dispatch_packet, pack
from portakern.backends.rocm.amdgcn.execution.simulator import MachineProgram, translate
from portakern.check import Verdict, check_executable
from portakern.check.adversarial import KINDS
from portakern.cli import options
from portakern.errors import PortakernError, SimulatorError
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.study import steps
from portakern.study.work import Work
from portakern.tools.workers import WorkerFault, WorkerPool

STAGES = ("integers", "nonfinite", "steep")
MOST = 20_000
LIMIT_S = 600.0
MEMORY = 8 << 30


@dataclass
class Compared:
    """Of the outputs of one run: how many elements, how many of them had other bits, and by how much at most."""

    elements: int = 0
    other: int = 0
    steps: int = 0
    """Units in the last place between the two, at most; where one is NaN alone, a large number."""

    def add(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        size = ours.dtype.itemsize
        a, b = (np.ascontiguousarray(x).view(f"u{size}").astype(np.int64).reshape(-1) for x in (ours, theirs))
        differ = a != b
        if ours.dtype.kind not in "iub":
            nan = [np.isnan(x.astype(np.float64)).reshape(-1) for x in (ours, theirs)]
            differ &= ~(nan[0] & nan[1])
            sign = 1 << (8 * size - 1)
            a, b = (np.where(x >= sign, sign - x, x) for x in (a, b))
        self.elements += a.size
        self.other += int(differ.sum())
        self.steps = max(self.steps, int(abs(a - b)[differ].max(initial=0)))


@dataclass
class Emulated:
    """A program that runs in the emulator, and in the machine beside it for comparing."""

    source: Source
    binary: CompiledBinary
    pool: WorkerPool
    checkout: str
    repaired: bool
    guards: bool = True
    compared: list[Compared] = field(default_factory=list)
    """A run each."""

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        ours = {name: HostBuffer(b.name, b.storage.copy(), b.offset, b.shape, b.dtype) for name, b in buffers.items()}
        MachineProgram(self.source, self.binary).run(ours, sizes)
        arrays, launches = self.job(buffers, sizes)
        found = self.pool.call("emulator_tinygrad:execute", self.checkout, self.repaired, arrays, launches, timeout_s=LIMIT_S)
        for name, b in buffers.items():
            b.storage[...] = np.frombuffer(found[name], np.uint8)
        self.compared.append(Compared())
        for a in (*self.source.by_role("output"), *self.source.by_role("inout")):
            self.compared[-1].add(ours[a.name].array, buffers[a.name].array)

    def job(
        self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]
    ) -> tuple[dict[str, bytes], list[Launch | Pattern]]:
        """The arrays with their guard bands, and the launches."""
        scalars = {a.name: buffers[a.name].array for a in self.source.by_role("scalar")}
        sequence = dispatch_sequence_of(self.source, self.binary, sizes, scalars)
        arrays = {name: b.storage.tobytes() for name, b in buffers.items()}
        arrays |= {name: b"\xff" * size for name, size in sequence.temporaries}
        begins = {name: b.offset for name, b in buffers.items()}
        ends = {name: b.offset + b.array.nbytes for name, b in buffers.items()} | dict(sequence.temporaries)
        found: list[Launch | Pattern] = []
        for step in sequence.steps:
            if isinstance(step, Dispatch):
                found.append(launch(step, begins, self.source.target.device.isa))
            else:
                found.append(Pattern(step.array, step.pattern, begins.get(step.array, 0), ends[step.array]))
        return arrays, found


def launch(d: Dispatch, begins: Mapping[str, int], isa: str) -> Launch:
    made = translate(d.assembly, d.kernel)
    values = [x.value or bytes(8) for x in d.args]
    segment, _ = pack(d.kernel, made.parameters, values, made.code.argument_bytes, d.grid, d.block, d.shared_bytes)
    shown = [p for p in made.parameters if not p.kind.startswith("hidden_")]
    places = tuple(
        (p.offset, x.array, begins.get(x.array, 0) + x.offset) for p, x in zip(shown, d.args, strict=True) if x.array
    )
    packet = dispatch_packet(d.grid, d.block, made.code.scratch_bytes, d.shared_bytes + made.code.shared_bytes)
    return Launch(d.code, d.kernel, isa, d.grid, d.block, bytes(segment), places, packet, d.shared_bytes)


@dataclass(frozen=True)
class Row:
    """One run of an operator, or one that was not reached: ``stage`` says with which inputs."""

    operator: str
    target: str
    dtype: str
    shape: str
    stage: str
    result: str
    elements: int = 0
    other: int = 0
    steps: int = 0
    why: str = ""


def compare(work: Work, pool: WorkerPool, checkout: str, repaired: bool, stages: tuple[str, ...], most: int) -> list[Row]:
    """Nothing where there is nothing to run, or more than is wanted."""
    where = (work.row.operator, work.target, work.row.dtype or "", shape_text(work))
    made = steps.build(work)
    if made.source is None or not made.binary_key:
        raise SystemExit(f"{where[0]} for {work.target} cannot be built: {made.row.error}")
    binary = steps.cached_binary(made.binary_key)
    assert binary is not None

    def check(executable: Any, kinds: tuple[str, ...]) -> Verdict:
        return check_executable(executable, work.program, dict(work.sizes), families=work.families, adversarial=kinds)

    try:
        first = MachineProgram(made.source, binary)
        check(first, stages[:1])
        if not 0 < first.executed <= 3 * most:
            return []
        verdict = check(MachineProgram(made.source, binary), stages)
    except SimulatorError as error:
        return [Row(*where, "values", "ours", why=error.message)]
    if not verdict.correct:
        return [Row(*where, "values", "ours", why=verdict.message)]
    both, names = Emulated(made.source, binary, pool, checkout, repaired), ("values", "repeat", *stages)
    try:
        verdict = check(both, stages)
    except WorkerFault as fault:
        return [Row(*where, names[len(both.compared)], "cannot", why=reason(fault))]
    wrong = {f.stage: f.message for f in verdict.failures}
    found = []
    for name, c in zip(names, both.compared, strict=True):
        result = "differs" if name in wrong else "rounding" if c.other else "same"
        found.append(Row(*where, name, result, c.elements, c.other, c.steps, wrong.get(name, "")))
    return found


def shape_text(work: Work) -> str:
    return ",".join(f"{k}={v}" for k, v in (work.row.shape or {}).items())


def reason(fault: WorkerFault) -> str:
    """The line that says what was wrong, without addresses."""
    return re.sub(r"^\S+ raised ", "", fault.message.strip().splitlines()[0])[:200]


def works(args: argparse.Namespace) -> Iterator[Work]:
    """Target by target, so that the emulator's translations serve many."""
    for target in args.targets.split(","):
        for name in args.operators:
            asked = argparse.Namespace(
                operator=name, targets=target, dtype=args.dtype, shape=[], param=[], schedule=args.schedule
            )
            yield from options.asked(asked, every_case=True).works


def table(rows: list[Row], *by: str) -> str:
    """Counts of runs by some of a row's fields."""
    kinds = ("same", "rounding", "differs", "cannot", "ours")
    heads = "".join(f"{k:>10}" for k in kinds)
    lines = [f"{' '.join(by):<24}{'runs':>7}{heads}{'elements':>11}{'other bits':>12}"]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for r in rows:
        groups.setdefault(tuple(getattr(r, name) for name in by), []).append(r)
    for name, of in groups.items():
        counted = Counter(r.result for r in of)
        counts = "".join(f"{counted[k]:>10}" for k in kinds)
        lines.append(f"{' '.join(name):<24}{len(of):>7}{counts}{sum(r.elements for r in of):>11}{sum(r.other for r in of):>12}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="+", metavar="OP", help="library names, or all")
    options.add_targets(parser)
    parser.add_argument("--tinygrad", required=True, metavar="CHECKOUT", help="a checkout of tinygrad")
    parser.add_argument("--repaired", action="store_true", help="with what emulator_repairs.py does for it")
    parser.add_argument("--dtype", metavar="D,..", default="f32,f16,bf16")
    parser.add_argument("--schedule", metavar="K=V", action="append", default=[], help="as for portakern check")
    parser.add_argument(
        "--stages", metavar="S,..", default=",".join(STAGES), help=f"of {', '.join(KINDS)} (default {','.join(STAGES)})"
    )
    parser.add_argument("--most", type=int, default=MOST, help=f"instructions of waves in a run, at most (default {MOST})")
    parser.add_argument("--json", metavar="FILE", help="every row")
    args = parser.parse_args()
    stages, checkout = tuple(args.stages.split(",")), str(Path(args.tinygrad).resolve())
    if problem := unfit(checkout):
        raise SystemExit(problem)
    rows: list[Row] = []
    print(f"tinygrad {commit(checkout) or checkout}", flush=True)
    with WorkerPool(1, env={"PROFILE": "0", "DEBUG": "0"}, memory_bytes=MEMORY) as pool:
        for work in works(args):
            try:
                found = compare(work, pool, checkout, args.repaired, stages, args.most)
            except PortakernError as error:
                raise SystemExit(f"{work.row.operator} for {work.target}: {error}") from None
            rows += found
            for r in found:
                more = f" {r.other} of {r.elements} elements, up to {r.steps} ulp" if r.other else ""
                if r.result != "same":
                    print(
                        f"{r.operator} {r.target} {r.dtype} {r.shape} {r.stage}: {r.result}{more} {r.why}".rstrip(), flush=True
                    )
            if args.json:
                with open(args.json, "w", encoding="utf-8") as file:
                    json.dump([asdict(r) for r in rows], file, indent=1)
    print(table(rows, "target", "dtype"))
    print(table(rows, "stage"))
    return 1 if any(r.result in ("ours", "differs") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
