"""How long a candidate takes to be judged: in fresh processes, as ``pk.evaluate`` does it, and by a warm judge.

    python benchmarks/judge_rate.py [--targets T,..] [--workers N] [--count N] [--fresh N] [--scale 1,2,4] [--operator OP]

Every candidate is a text of its own (the starting kernel with another comment), so that nothing is answered from a cache.
Seconds a candidate are wall time over all candidates with so many at once, after the judge is warm; ``fresh`` checks without
timing, so that the columns say the same.  Nothing but this should run: the load of the machine
is printed beside.  ``cpu`` are seconds of processors, by a cgroup where one may be made, which others disturb less: two
processors take half of that.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import portakern as pk
from portakern.errors import PortakernError
from portakern.study.candidate import LEVELS
from portakern.study.row import Row
from portakern.study.study import Runner
from portakern.study.task import Task
from portakern.study.work import Foreign

TARGETS = "cpp:cpu,numba:cpu,opencl:cpu,hip:gfx942,triton:gfx942,triton:sm_90,pallas:v6e,cuda:sm_90a,sycl:cpu"
COMMENTS = {".py": "#"}
_numbers = itertools.count()


def texts(task: Task) -> Iterator[str]:
    """Kernels that nobody has compiled."""
    while True:
        yield f"{task.starting_kernel}\n{COMMENTS.get(task.suffix, '//')} {os.getpid()} {time.time_ns()} {next(_numbers)}\n"


class Group:
    """A cgroup of this process and all that it starts from now on, whose processor time is counted whoever ends whom; without
    the right to make one nothing is counted."""

    PLACES = (("cpuacct", "cpuacct.usage", 1e9), ("", "cpu.stat", 1e6))

    def __init__(self) -> None:
        self.file, self.unit = None, 1.0
        for place, name, unit in self.PLACES:
            folder = Path("/sys/fs/cgroup", place, f"judge-rate-{os.getpid()}")
            if not (folder.parent / "cgroup.procs").exists():
                continue
            try:
                folder.mkdir()
                (folder / "cgroup.procs").write_text(str(os.getpid()))
                self.file, self.unit = folder / name, unit
                atexit.register(self.close, folder)
                return
            except OSError:
                continue

    def close(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            (folder.parent / "cgroup.procs").write_text(str(os.getpid()))
            folder.rmdir()

    def seconds(self) -> float:
        if self.file is None:
            return float("nan")
        return int(self.file.read_text().replace("usage_usec", "").split()[0]) / self.unit


def correct(rows: list[Row]) -> None:
    for row in rows:
        if row.error is not None:
            raise PortakernError(row.error["kind"], row.error["message"])


def fresh(task: Task, count: int) -> float:
    """Seconds a candidate without a judge: compiled and checked, one at a time."""
    begun = time.perf_counter()
    for text in itertools.islice(texts(task), count):
        work = replace(task.work, foreign=Foreign(text, memory_bytes=16 << 30), chosen=None)
        correct(list(Runner("checked", 1, memory_bytes=16 << 30).run([work]).rows))
    return (time.perf_counter() - begun) / count


def warm(task: Task, workers: int, count: int, levels: tuple[str, ...], group: Group) -> tuple[float, dict[str, float]]:
    """Seconds until the judge is warm, and by level seconds a candidate: on the clock, and of processors."""
    begun = time.perf_counter()
    found: dict[str, float] = {}
    with pk.judge(task, workers=workers) as judge:
        correct(list(judge.map(itertools.islice(texts(task), 2 * workers), "quick")))
        started = time.perf_counter() - begun
        for level in levels:
            begun, used = time.perf_counter(), group.seconds()
            correct(list(judge.map(itertools.islice(texts(task), count), level)))
            found[level] = (time.perf_counter() - begun) / count
            found[f"{level} cpu"] = (group.seconds() - used) / count
    return started, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--operator", default="softmax")
    parser.add_argument("--shape", default="M=32,N=300")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--fresh", type=int, default=2, help="candidates without a judge (0: none)")
    parser.add_argument("--scale", default="", help="numbers of workers to compare, such as 1,2,4")
    args = parser.parse_args()
    shape = {n: int(s) for n, s in (part.split("=") for part in args.shape.split(","))}
    scale = [int(n) for n in args.scale.split(",") if n]
    levels, group = LEVELS[:3], Group()
    print(f"{args.operator} {args.shape} f32, {args.workers} workers on {os.cpu_count()} processors, seconds a candidate")
    names = [name for level in levels for name in (level, f"{level} cpu")]
    columns = ["fresh", *names, "warm after", *(f"full, {n} at once" for n in scale), "load"]
    print(f"{'target':<16}" + "".join(f"{c:>14}" for c in columns))
    for target in args.targets.split(","):
        try:
            task = pk.task(args.operator, target, dtype="f32", **shape)
            alone = fresh(task, args.fresh) if args.fresh else float("nan")
            started, found = warm(task, args.workers, args.count, levels, group)
            more = [warm(task, n, args.count, ("full",), group)[1]["full"] for n in scale]
        except PortakernError as error:
            print(f"{target:<16}  {error.kind}: {error.message.splitlines()[0][:100]}")
            continue
        figures = [alone, *(found[n] for n in names), started, *more, os.getloadavg()[0]]
        print(f"{target:<16}" + "".join(f"{f:>14.2f}" for f in figures), flush=True)


if __name__ == "__main__":
    main()
