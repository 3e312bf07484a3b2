"""Whether a kernel takes the same time through the jail: the same machine code, timed in three ways.

    python benchmarks/jail_timing.py [--targets cpp:cpu,numba:cpu] [--rounds 12] [--budget 0.4] [--cache cold|warm]

``own`` is how our own kernels are timed, in this process; ``bare`` as a stranger's, in a process of its own without a jail;
``jailed`` with all parts of the jail that this machine has.  Every round times all three, in an order that is drawn, so that
what else the machine does falls on them alike.  Printed are medians over rounds of their medians, and ratios as medians over
rounds with the range that a bootstrap gives them (95%).  Exit status 1 where an interval of jailed over bare lies beyond 2%.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import portakern as pk
from portakern.errors import PortakernError
from portakern.referee.process import KernelProcess
from portakern.study import steps, timing
from portakern.study.task import Task
from portakern.study.work import Foreign, Work

try:
    from benchmarks.judge_scaling import interval
except ImportError:  # run as a file
    from judge_scaling import interval

CASES: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("softmax", {"M": 512, "N": 1024}), ("rms_norm", {"M": 512, "N": 1024}), ("matmul", {"M": 256, "N": 256, "K": 256}))
WAYS = ("own", "bare", "jailed")
WITHIN = 0.02
TRIES = 5


def work_of(task: Task, way: str) -> Work:
    if way == "own":
        return task.work
    foreign = Foreign(task.starting_kernel, jail="auto" if way == "jailed" else "off", memory_bytes=8 << 30)
    return replace(task.work, foreign=foreign, chosen=None)


def median_of(work: Work, options: Mapping[str, object]) -> float:
    """Microseconds.  Compiled once: later calls find it in the cache.  Where others use the machine, a time may be refused,
    since too much of the clock passed beside it; then it is taken again."""
    made = steps.build(work)
    for _ in range(TRIES):
        row = made.row if made.row.error else timing.time(work, made, options=dict(options))
        if row.time is not None and row.error is None:
            return float(row.time["median_us"])
        error = row.error or {"kind": "not-timed", "message": "no time"}
        if error["kind"] != "implausible-timing":
            break
    raise PortakernError(error["kind"], error["message"])


def compared(task: Task, rounds: int, options: Mapping[str, object]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in random.sample(WAYS, len(WAYS)):
            found[way].append(median_of(work_of(task, way), options))
    return found


def ratio(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    return (statistics.median(ratios), *interval(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cpp:cpu,numba:cpu")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--budget", type=float, default=0.4, help="seconds of sampling each time")
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold")
    args = parser.parse_args()
    options = {"budget_s": args.budget, "warm_up_s": 0.05, "cache": args.cache}
    with KernelProcess() as process:
        print(f"{args.rounds} rounds on {os.cpu_count()} processors, {args.cache} caches; {process.method}")
    print(f"{'target':<11}{'operator':<24}" + "".join(f"{w + ' us':>11}" for w in WAYS)
          + f"{'jailed / bare':>15}  95%{'':>16}{'jailed / own':>12}  95%              load")  # fmt: skip
    missed = False
    for target in args.targets.split(","):
        for name, shape in CASES:
            label = f"{name} {'x'.join(map(str, shape.values()))}"
            try:
                found = compared(pk.task(name, target, dtype="f32", **shape), args.rounds, options)
            except PortakernError as error:
                print(f"{target:<11}{label:<24}  {error.kind}: {error.message.splitlines()[0][:90]}")
                continue
            jail, low, high = ratio(found["jailed"], found["bare"])
            own, own_low, own_high = ratio(found["jailed"], found["own"])
            missed |= low > 1 + WITHIN or high < 1 - WITHIN
            print(f"{target:<11}{label:<24}" + "".join(f"{statistics.median(found[w]):>11.1f}" for w in WAYS)
                  + f"{jail:>15.3f}  [{low:.3f}, {high:.3f}]{own:>14.3f}  [{own_low:.3f}, {own_high:.3f}]"
                  f"{os.getloadavg()[0]:>6.1f}", flush=True)  # fmt: skip
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
