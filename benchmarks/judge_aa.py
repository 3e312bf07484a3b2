"""Whether a kernel takes the same time in the jail: the same machine code in two processes that stay, one of them jailed.

    python benchmarks/judge_aa.py [--targets cpp:cpu,numba:cpu] [--pairs 60] [--budget 0.05] [--cache warm|cold] [--processes 3]

Both are asked for short blocks in turns, in an order that is drawn for each pair, while the other one waits.  A pair gives a
ratio of jailed to bare: of medians by the timing core, and of processor time, which what else the machine does disturbs less.
Printed are medians over pairs with the range that a bootstrap gives them (95%).  Where code and data come to lie differs from
process to process, so ``--processes`` pairs of them are made and pooled; ``again`` compares two processes without a jail in the
same way, which says what this can see.  Exit status 1 where an interval of processor time lies beyond 2%.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import portakern as pk
from portakern.referee import process as referee_process
from portakern.referee.process import KernelProcess
from portakern.study import steps
from portakern.study.task import Task

try:
    from benchmarks.judge_scaling import interval
except ImportError:  # run as a file
    from judge_scaling import interval

CASES = (("softmax", {"M": 128, "N": 1024}), ("rms_norm", {"M": 256, "N": 1024}), ("matmul", {"M": 128, "N": 128, "K": 128}))
INSIDE = "judge_aa_inside"
WITHIN = 0.02


def readable_with_this() -> None:
    """A jailed process may import what stands beside this file."""
    folder, readable = str(Path(__file__).parent), referee_process.readable
    sys.path[:] = [folder, *(p for p in sys.path if p != folder)]
    referee_process.readable = lambda: (*readable(), folder)


def begun(task: Task, jail: str) -> KernelProcess:
    made = steps.build(task.work)
    assert made.source is not None
    process = KernelProcess(jail, 8 << 30)
    shapes = [tuple(map(int, a.shape)) for a in task.arrays if a.role == "input"]
    process.call(f"{INSIDE}:begin", (made.source, steps.cached_binary(made.binary_key), shapes))
    return process


def ratios(task: Task, jails: tuple[str, str], pairs: int, budget_s: float, cache: str) -> list[dict[str, float]]:
    """Of the first to the second, pair by pair."""
    with begun(task, jails[0]) as one, begun(task, jails[1]) as other:
        found = []
        for _ in range(pairs):
            took = {}
            for process in random.sample((one, other), 2):
                took[id(process)] = process.call(f"{INSIDE}:block", (budget_s, cache))
            found.append({n: took[id(one)][n] / took[id(other)][n] for n in ("median_us", "cpu_us")})
    return found


def said(values: Sequence[float]) -> tuple[str, float, float]:
    low, high = interval(values)
    return f"{statistics.median(values):.4f} [{low:.4f}, {high:.4f}]", low, high


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cpp:cpu,numba:cpu")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.05, help="seconds of sampling in each block")
    parser.add_argument("--cache", choices=("cold", "warm"), default="warm")
    args = parser.parse_args()
    readable_with_this()
    with KernelProcess() as process:
        jail = process.method
    print(f"{args.processes} times {args.pairs} pairs on {os.cpu_count()} processors, {args.cache} caches; {jail}")
    missed, every = False, dict[str, list[float]]()
    for target in args.targets.split(","):
        for name, shape in CASES:
            task = pk.task(name, target, dtype="f32", **shape)
            for label, jails in (("jailed / bare", ("auto", "off")), ("bare / bare, again", ("off", "off"))):
                found = [r for _ in range(args.processes) for r in ratios(task, jails, args.pairs, args.budget, args.cache)]
                clock, cpu = ([r[n] for r in found] for n in ("median_us", "cpu_us"))
                every.setdefault(label, []).append(math.log(statistics.median(cpu)))
                words, low, high = said(cpu)
                missed |= label.startswith("jailed") and (low > 1 + WITHIN or high < 1 - WITHIN)
                print(f"{target:<10}{name:<10}{label:<20} by the core {said(clock)[0]}  of processors {words}"
                      f"  load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
    for label, logs in every.items():
        print(f"{label}, of processors, geometric mean: {math.exp(statistics.mean(logs)):.4f}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
