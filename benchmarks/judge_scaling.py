"""How many candidates a second a judge has with one worker, and how many times as many with more.

    python benchmarks/judge_scaling.py [--targets T,..] [--workers 1,2,4] [--level full] [--count 48] [--rounds 5]

A judge for each number of workers is warm before anything is measured.  In every round each of them judges ``count`` texts
that nobody has compiled, in an order that is drawn, so that what else the machine does falls on all of them alike.  Printed are
the median of the rounds, and the speed-up as the median over rounds of the ratio to one worker, with the range that a bootstrap
gives it (95%).  Wanted are 3 times with four workers on four processors: exit status 1 where that interval lies below.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

import portakern as pk
from portakern.errors import PortakernError
from portakern.study.candidate import LEVELS
from portakern.study.judging import Judge
from portakern.study.task import Task

try:
    from benchmarks.judge_rate import correct, texts
except ImportError:  # run as a file
    from judge_rate import correct, texts

TARGETS = "cpp:cpu,numba:cpu,opencl:cpu,hip:gfx942,triton:sm_90,pallas:v6e"
WANTED = {4: 3.0}
"""How many times as many with so many workers."""


def rate(judge: Judge, task: Task, count: int, level: str) -> float:
    """Candidates a second."""
    begun = time.perf_counter()
    correct(list(judge.map(itertools.islice(texts(task), count), level)))
    return count / (time.perf_counter() - begun)


def rates(task: Task, workers: Sequence[int], count: int, rounds: int, level: str) -> dict[int, list[float]]:
    """By number of workers, one for each round."""
    found: dict[int, list[float]] = {n: [] for n in workers}
    with ExitStack() as open_judges:
        judges = {n: open_judges.enter_context(pk.judge(task, workers=n)) for n in workers}
        for n, judge in judges.items():
            rate(judge, task, 3 * n, level)
        for _ in range(rounds):
            for n in random.sample(list(workers), len(workers)):
                found[n].append(rate(judges[n], task, count, level))
    return found


def interval(values: Sequence[float], resamples: int = 2000) -> tuple[float, float]:
    """Of their median."""
    drawn = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(resamples))
    return drawn[int(0.025 * resamples)], drawn[int(0.975 * resamples)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--operator", default="softmax")
    parser.add_argument("--shape", default="M=32,N=300")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--level", default="full", choices=LEVELS[:3])
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    shape = {n: int(s) for n, s in (part.split("=") for part in args.shape.split(","))}
    workers = sorted({1, *map(int, args.workers.split(","))})
    print(f"{args.operator} {args.shape} f32, {args.level}: {args.rounds} rounds of {args.count} candidates on "
          f"{len(os.sched_getaffinity(0))} processors")  # fmt: skip
    print(f"{'target':<14}{'workers':>8}{'a second':>10}{'seconds each':>14}{'times one':>11}  95%              load")
    missed = False
    for target in args.targets.split(","):
        try:
            task = pk.task(args.operator, target, dtype="f32", **shape)
            found = rates(task, workers, args.count, args.rounds, args.level)
        except PortakernError as error:
            print(f"{target:<14}  {error.kind}: {error.message.splitlines()[0][:100]}")
            continue
        for n in workers:
            median = statistics.median(found[n])
            ratios = [a / b for a, b in zip(found[n], found[1], strict=True)]
            low, high = interval(ratios)
            missed |= n in WANTED and high < WANTED[n]
            print(f"{target:<14}{n:>8}{median:>10.2f}{1 / median:>14.3f}{statistics.median(ratios):>11.2f}"
                  f"  [{low:.2f}, {high:.2f}]{os.getloadavg()[0]:>9.1f}", flush=True)  # fmt: skip
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
