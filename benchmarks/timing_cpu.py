"""Timing on this machine's processor against an independent timer.

    python benchmarks/timing_cpu.py [--targets cpp:cpu,numba:cpu,opencl:cpu] [--operators rms_norm,matmul] [--rounds 5]

The independent timer is Python's: the median of many short loops of calls between two readings of time.perf_counter_ns.
Both take their turns; the medians over the rounds are compared, and should agree within 5% on a quiet core.  Caches are warm
in both.  Where calls are queued, Python's timer sees launching and waiting too, so that only calls of half a millisecond and
more are judged there.  Kernels of C++ and numba run on one thread: how fast helping threads wake depends on the pause between
calls, which is the timers' own.  Exit status 1 if judged times differ by more.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PORTAKERN_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import portakern as pk
from portakern import native
from portakern.errors import PortakernError
from portakern.timing import Contender, Options, Timing, measure, median

SHAPES: dict[str, dict[str, Any]] = {
    "rms_norm": {"M": 1024, "N": 4096}, "softmax": {"M": 512, "N": 1024}, "matmul": {"M": 256, "N": 256, "K": 256},
    "add_relu": {"M": 64, "N": 256}, "row_sum": {"M": 128, "N": 512}, "transpose": {"M": 256, "N": 256},
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cpp:cpu,numba:cpu,opencl:cpu")
    parser.add_argument("--operators", default=",".join(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"{'operator':10s} {'target':11s} {'median us':>10s} {'interval':>17s} {'python us':>10s} {'differs':>8s} "
          f"{'overhead':>9s}  mode")  # fmt: skip
    worst = 0.0
    for target in args.targets.split(","):
        for operator in args.operators.split(","):
            try:
                worst = max(worst, compare(operator, target, args.rounds))
            except PortakernError as error:
                print(f"{operator:10s} {target:11s} {error}")
    print(f"largest difference {worst:.1%}")
    return 0 if worst <= 0.05 else 1


def compare(operator: str, target: str, rounds: int) -> float:
    device, call, wait = prepared(operator, target)
    ours: list[Timing] = []
    independent: list[float] = []
    for seed in range(rounds):
        options = Options(cache="warm", budget_s=0.3, warm_up_s=0.05, seed=seed)
        ours.append(measure(device, [Contender(operator, call)], options).timings[0])
        independent.append(python_timer(call if isinstance(call, native.Call) else lambda: call(0), wait))
    found, other = median([t.median_us for t in ours]), median(independent)
    last = ours[-1]
    judged = device.facts.blocking or found > 500
    print(f"{operator:10s} {target:11s} {found:10.2f} {last.ci_low_us:8.2f}-{last.ci_high_us:8.2f} {other:10.2f} "
          f"{found / other - 1:+8.1%} {last.overhead_us:6.1f} us  {last.mode}{'' if judged else ' (not judged)'}",
          flush=True)  # fmt: skip
    return abs(found / other - 1) if judged else 0.0


def prepared(operator: str, target: str) -> tuple[native.Device, Any, Callable[[], None] | None]:
    built = pk.build(operator, target=target, dtype="f32", **SHAPES[operator])
    draw = np.random.default_rng(0)
    inputs = [draw.random(a.shape, dtype=np.float32) for a in arrays(operator)]
    call = built.prepare(*inputs)
    if call.call is not None:
        device = call.call.device
        call.call.keep(call, inputs)
        return device, call.call, None if device.facts.blocking else device.synchronize
    return native.open_device("host"), lambda i: call(), None


def arrays(operator: str) -> list[np.ndarray]:
    """Arrays of the shapes that the operator takes."""
    n = SHAPES[operator]
    shapes = {"rms_norm": [("M", "N"), ("N",)], "matmul": [("M", "K"), ("K", "N")], "add_relu": [("M", "N"), ("M", "N")]}
    return [np.empty([n[axis] for axis in axes]) for axes in shapes.get(operator, [("M", "N")])]


def python_timer(call: Callable[[], Any], wait: Callable[[], None] | None) -> float:
    """Microseconds per call: the median of loops that take at least 50 us, so that reading the clock does not count."""
    count = 1
    while (taken := loop(call, wait, count) / 1e3) < 50:
        count = max(count + 1, int(count * 60 / max(taken, 0.001)))
    return median([loop(call, wait, count) / count / 1e3 for _ in range(max(20, min(1000, int(3e5 / taken))))])


def loop(call: Callable[[], Any], wait: Callable[[], None] | None, count: int) -> int:
    begun = time.perf_counter_ns()
    for _ in range(count):
        call()
        if wait is not None:
            wait()
    return time.perf_counter_ns() - begun


if __name__ == "__main__":
    sys.exit(main())
