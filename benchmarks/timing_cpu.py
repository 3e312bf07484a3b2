"""Timing on this machine's processor against an independent timer.

    python benchmarks/timing_cpu.py [--targets cpp:cpu,numba:cpu,opencl:cpu] [--operators rms_norm,matmul] [--rounds 15]

The independent timer is Python's: the median of many short loops of calls between two readings of time.perf_counter_ns; what
Python adds to a prepared call is that of another native method, len(), and taken off.  Both timers take short turns, since a
machine drifts; the column `differs` is the median of the turns' own ratios, and should be within 5% on a quiet core.
Caches are warm in both.  Where calls are queued, Python's timer sees launching and waiting too, so that only calls of half a
millisecond and more are judged there; benchmarks/opencl_agreement.py looks closer.  Kernels of C++ and numba run on one
thread: how fast helping threads wake depends on the pause between calls, which is the timers' own.  Exit status 1 if judged
times differ by more.
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
from quiet import Others

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
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    print(f"{'operator':10s} {'target':11s} {'median us':>10s} {'python us':>10s} {'differs':>8s} {'overhead':>9s}  mode")
    worst, others = 0.0, Others()
    for target in args.targets.split(","):
        for operator in args.operators.split(","):
            try:
                worst = max(worst, compare(operator, target, args.rounds))
            except PortakernError as error:
                print(f"{operator:10s} {target:11s} {error}")
    print(f"largest difference {worst:.1%}; {others}")
    return 0 if worst <= 0.05 else 1


def compare(operator: str, target: str, rounds: int) -> float:
    device, call, wait = prepared(operator, target, SHAPES[operator])
    alone = python_timer(call.__len__, wait) if isinstance(call, native.Call) else 0.0
    turns = [turn(operator, device, call, wait, alone, seed) for seed in range(rounds)]
    found, other = median([t.median_us for t, _ in turns]), median([p for _, p in turns])
    differs = median([t.median_us / p for t, p in turns]) - 1
    judged = device.facts.blocking or found > 500
    overhead, last = median([t.overhead_us for t, _ in turns]), turns[-1][0]
    print(f"{operator:10s} {target:11s} {found:10.2f} {other:10.2f} {differs:+8.1%} {overhead:9.1f}  "
          f"{last.mode}{'' if judged else ' (not judged)'}", flush=True)  # fmt: skip
    return abs(differs) if judged else 0.0


def turn(operator: str, device: native.Device, call: Any, wait: Callable[[], None] | None, alone: float,
         seed: int) -> tuple[Timing, float]:  # fmt: skip
    """(ours, Python's microseconds); every other turn Python's timer goes first."""
    options = Options(cache="warm", budget_s=0.1, warm_up_s=0.01, seed=seed)
    plain = call if isinstance(call, native.Call) else lambda: call(0)
    other = python_timer(plain, wait) if seed % 2 else 0.0
    ours = measure(device, [Contender(operator, call)], options).timings[0]
    return ours, (other or python_timer(plain, wait)) - alone


def prepared(operator: str, target: str, dims: dict[str, Any]) -> tuple[native.Device, Any, Callable[[], None] | None]:
    built = pk.build(operator, target=target, dtype="f32", **dims)
    draw = np.random.default_rng(0)
    inputs = [draw.random(a.shape, dtype=np.float32) for a in arrays(operator, dims)]
    call = built.prepare(*inputs)
    if call.call is not None:
        device = call.call.device
        call.call.keep(call, inputs)
        return device, call.call, None if device.facts.blocking else device.synchronize
    return native.open_device("host"), lambda i: call(), None


def arrays(operator: str, dims: dict[str, Any]) -> list[np.ndarray]:
    """Arrays of the shapes that the operator takes."""
    shapes = {"rms_norm": [("M", "N"), ("N",)], "matmul": [("M", "K"), ("K", "N")], "add_relu": [("M", "N"), ("M", "N")]}
    return [np.empty([dims[axis] for axis in axes]) for axes in shapes.get(operator, [("M", "N")])]


def python_timer(call: Callable[[], Any], wait: Callable[[], None] | None) -> float:
    """Microseconds per call: the median of loops that take at least 50 us, so that reading the clock does not count."""
    count = 1
    while (taken := loop(call, wait, count) / 1e3) < 50:
        count = max(count + 1, int(count * 60 / max(taken, 0.001)))
    return median([loop(call, wait, count) / count / 1e3 for _ in range(max(20, min(1000, int(1e5 / taken))))])


def loop(call: Callable[[], Any], wait: Callable[[], None] | None, count: int) -> int:
    begun = time.perf_counter_ns()
    for _ in range(count):
        call()
        if wait is not None:
            wait()
    return time.perf_counter_ns() - begun


if __name__ == "__main__":
    sys.exit(main())
