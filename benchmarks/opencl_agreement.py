"""Whether the timing core agrees with other timers on OpenCL's CPU device.

    python benchmarks/opencl_agreement.py                    operators, and kernels whose time is known
    taskset -c 1 python benchmarks/opencl_agreement.py       the same on one core

The same program binaries run on the same arrays, in place, through the native core (``portakern.timing.measure``, one call per
sample) and through pyopencl, in short turns, since a machine drifts.  Both lead into the timed call with about 1 ms of
the same calls: caches of a processor that waited are no longer those of one that worked (docs/timing.md).  Three other timers:

- ``events``: START and END in the profile of pyopencl's event;
- ``cycles``: the processor's cycle counter, read by a kernel before and one after the call, less the same around an empty
  kernel.  It asks neither the runtime nor the host for a time;
- ``host``: the host's clock around a batch of 5 ms, per call, less the same of an empty kernel.

Columns are medians over the turns; the last ones are medians of ratios of the same turn.  The known kernels wait until the
cycle counter has moved on so far.  Judged are events, cycles and what is known, from 10 us on; exit status 1 where one differs
by more than 5%.  Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from quiet import Others

from portakern import native
from portakern.backends.sycl.opencl import binaries
from portakern.backends.sycl.opencl.platforms import device, prepare
from portakern.ir.size import evaluate
from portakern.lower import lower_for
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.timing import Contender, Options, measure

CASES: tuple[tuple[str, Mapping[str, int], tuple[str, ...]], ...] = (
    ("softmax", {"M": 64, "N": 1024}, ("MN",)),
    ("softmax", {"M": 512, "N": 1024}, ("MN",)),
    ("row_sum", {"M": 1024, "N": 4096}, ("MN",)),
    ("matmul", {"M": 128, "N": 128, "K": 128}, ("MK", "KN")),
    ("matmul", {"M": 384, "N": 384, "K": 384}, ("MK", "KN")),
    ("softmax", {"M": 4096, "N": 4096}, ("MN",)),
)
SPINS_US = (20, 200, 2000)
TOLERANCE, JUDGED_US = 0.05, 10.0
SAMPLES = 15
"""Of either side in a turn."""

LEAD_US, MOST_LEADS = 1000.0, 64
BATCH_US = 5000.0
OWN = """
__attribute__((noinline)) ulong cycles_now() { return __builtin_readcyclecounter(); }
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void nothing() {}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void stamp(__global ulong *at) { *at = cycles_now(); }
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void spin(ulong cycles)
{
    const ulong begin = cycles_now();
    while (cycles_now() - begin < cycles);
}
"""

Grid = tuple[int, int, int]
Launch = tuple[Any, Grid, Grid]


# ---- pyopencl's side


class Reference:
    """Launches through pyopencl, in a context and a queue of its own."""

    def __init__(self) -> None:
        cl = self.cl = prepare()
        self.context = cl.Context([device()])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.own = cl.Program(self.context, OWN).build()
        self.stamps = np.zeros(2, np.uint64)
        self.before, self.after = (self._own("stamp", cl.SVM(self.stamps[n : n + 1])) for n in range(2))
        self.nothing = self._own("nothing")
        self.cycles_per_us = self._cycles_per_us()

    def _own(self, name: str, *args: Any) -> Launch:
        kernel = self.cl.Kernel(self.own, name)
        kernel.set_args(*args)
        return kernel, (1, 1, 1), (1, 1, 1)

    def spin(self, us: float) -> Launch:
        return self._own("spin", np.uint64(us * self.cycles_per_us))

    def launches(self, source: Any, binary: bytes, arrays: Mapping[str, np.ndarray]) -> list[Launch]:
        program = self.cl.Program(self.context, [device()], [binaries.content(binary)]).build()
        found = []
        for x in source.launches:
            kernel = self.cl.Kernel(program, x.kernel)
            kernel.set_args(*(self.cl.SVM(arrays[name]) for name in x.args))
            grid = tuple(evaluate(n, {}) * b for n, b in zip(x.grid, x.block, strict=True))
            found.append((kernel, grid, x.block))
        return found

    def enqueue(self, launches: Sequence[Launch]) -> list[Any]:
        return [self.cl.enqueue_nd_range_kernel(self.queue, *x) for x in launches]

    def _cycles_per_us(self) -> float:
        """From two readings, a tenth of a second apart."""
        read = []
        for _ in range(2):
            self.enqueue([self.before])
            self.queue.finish()
            read.append((int(self.stamps[0]), time.perf_counter_ns()))
            time.sleep(0.1)
        return 1e3 * (read[1][0] - read[0][0]) / (read[1][1] - read[0][1])

    def once(self, leads: int, call: Sequence[Launch], between: Sequence[Launch]) -> tuple[float, float]:
        """(by the profile, by the cycle counter) of ``between``, right behind ``leads`` calls, in microseconds."""
        for _ in range(leads):
            self.enqueue(call)
        self.enqueue([self.before])
        events = self.enqueue(between)
        self.enqueue([self.after])
        self.queue.finish()
        profile = (events[-1].profile.end - events[0].profile.start) / 1e3
        return profile, int(self.stamps[1] - self.stamps[0]) / self.cycles_per_us

    def batch(self, call: Sequence[Launch], count: int) -> float:
        """Microseconds per call, by the host's clock."""
        begin = time.perf_counter_ns()
        for _ in range(count):
            self.enqueue(call)
        self.queue.finish()
        return (time.perf_counter_ns() - begin) / 1e3 / count

    def turn(self, call: Sequence[Launch]) -> tuple[float, float, float]:
        """(events, cycles, host) in microseconds."""
        alone = median([self.batch(call, 1) for _ in range(3)])
        leads = max(1, min(MOST_LEADS, math.ceil(LEAD_US / alone)))
        found = [self.once(leads, call, call) for _ in range(SAMPLES)]
        empty = [self.once(leads, call, [self.nothing])[1] for _ in range(SAMPLES)]
        count = max(4, int(BATCH_US / alone))
        host, alone = (median([self.batch(x, count) for _ in range(3)]) for x in (call, [self.nothing]))
        return median([p for p, _ in found]), median([c for _, c in found]) - median(empty), host - alone


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


# ---- both sides


@dataclass(frozen=True)
class Case:
    name: str
    call: native.Call
    launches: list[Launch]
    known_us: float | None = None


def operator(reference: Reference, name: str, dims: Mapping[str, int], shapes: tuple[str, ...]) -> Case:
    language, target = registry().languages["opencl"], registry().target("opencl:cpu")
    assert language.toolchain is not None and language.runtime is not None
    program = lower_for(load_operator(name).program(dims, params={}, dtype="f32"), target, language)
    source = language.emitter.emit(program, target)
    binary = language.toolchain.compile(source)
    executable: Any = language.runtime.load(source, binary)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal([dims[n] for n in s]).astype(np.float32) for s in shapes]
    prepared = executable.prepare(inputs, {})
    names = [a.name for a in (*source.by_role("input"), *source.by_role("output"))]
    arrays = dict(zip(names, (*inputs, *prepared.outputs), strict=True))
    prepared.call.keep(prepared, inputs)
    return Case(f"{name} {'x'.join(map(str, dims.values()))}", prepared.call, reference.launches(source, binary.data, arrays))


def known(reference: Reference, us: int) -> Case:
    opened = native.open_device("opencl")
    (binary,) = reference.own.binaries
    kernel = opened.load(binary).kernel("spin")
    cycles = native.scalar("u64", int(us * reference.cycles_per_us))
    call = opened.call([native.LaunchSpec(kernel, (1, 1, 1), (1, 1, 1), (cycles,))])
    return Case(f"known {us} us", call, [reference.spin(us)], float(us))


def turns(reference: Reference, case: Case, rounds: int) -> np.ndarray:
    """A row per turn: ours, events, cycles, host, and our overhead per sample, in microseconds."""
    options = Options(budget_s=0.5, cache="warm", mode="single", warm_up_s=0.01, min_samples=SAMPLES, max_samples=SAMPLES)
    rows = []
    for seed in range(rounds):
        sides: list[Callable[[], Sequence[float]]] = [lambda: _ours(case, options), lambda: reference.turn(case.launches)]
        found = [sides[n]() for n in ((0, 1) if seed % 2 else (1, 0))]
        ours, theirs = found if seed % 2 else found[::-1]
        rows.append((ours[0], *theirs, ours[1]))
    return np.array(rows)


def _ours(case: Case, options: Options) -> tuple[float, float]:
    timing = measure(case.call.device, [Contender(case.name, [case.call])], options).timings[0]
    return timing.median_us, timing.overhead_us


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="turns of either side")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    reference = Reference()
    makers: list[tuple[str, Callable[[], Case]]] = [(f"known {us}", lambda us=us: known(reference, us)) for us in SPINS_US]
    makers += [(x[0], lambda x=x: operator(reference, *x)) for x in CASES]
    heads = ("ours", "events", "cycles", "host", "/events", "/cycles", "/host", "80% of", "overhead")
    print(f"{'microseconds':22}" + "".join(f"{h:>10}" for h in heads))
    worst, others = 0.0, Others()
    for name, make in makers:
        if given.only not in name:
            continue
        case = make()
        rows = turns(reference, case, given.rounds)
        ours, *theirs, overhead = np.median(rows, axis=0)
        each = rows[:, :1] / rows[:, 1:4]
        ratios, low, high = np.median(each, axis=0), *np.quantile(each[:, 0], (0.1, 0.9))
        line = "".join(f"{v:10.2f}" for v in (ours, *theirs)) + "".join(f"{v:10.3f}" for v in ratios)
        line += f"  {low:.2f}-{high:.2f}{overhead:10.0f}"
        print(f"{case.name:22}{line}{f'  of known {ours / case.known_us:.4f}' if case.known_us else ''}", flush=True)
        judged = [*ratios[:2], *([ours / case.known_us] if case.known_us else [])] if ours >= JUDGED_US else []
        worst = max([worst, *(abs(r - 1) for r in judged)])
    print(f"largest difference {worst:.1%} ({'within' if worst <= TOLERANCE else 'beyond'} {TOLERANCE:.0%}); {others}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
