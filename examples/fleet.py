"""Candidates for a fleet: several machines judge them together, and every row is kept once.

    python examples/fleet.py [DIR] [--count N]

Run it on the machine of the head, after `portakern fleet up` there and `portakern fleet join` on the others (docs/fleet.md).
DIR is the folder that was given to `up`.  A second run prints the same rows at once, for they are in the fleet's store.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import portakern as pk
from portakern.fleet.fleet import Fleet
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.search import Candidate

SIZES = {"M": 32, "N": 300}
TARGETS = ("cpp:cpu", "hip:gfx942")


def jobs(target: str, count: int) -> list[Job]:
    """A right kernel under as many names, and a wrong one, where a generator would propose its own."""
    task = TaskSpec(target, operator="softmax", dtype="f32", values=SIZES)
    kernel = pk.task("softmax", target, dtype="f32", **SIZES).starting_kernel
    texts = [f"{kernel}\n// candidate {n}\n" for n in range(count)]
    return [Job(task, Candidate(text), "quick") for text in (*texts, kernel.replace("exp(", "sin("))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", nargs="?", help="the head's folder (default: that of `portakern fleet up` without --dir)")
    parser.add_argument("--count", type=int, default=10, help="candidates for each target (default 10)")
    args = parser.parse_args()

    fleet = Fleet(args.dir)
    if not fleet.status()["up"]:
        print(f"no fleet is up in {fleet.folder.path}: portakern fleet up", file=sys.stderr)
        return 1
    digests = fleet.submit(job for target in TARGETS for job in jobs(target, args.count))
    right: Counter[str] = Counter()
    for _, row in fleet.rows(digests, timeout_s=300):
        right[f"{row.target} {'right' if row.correct else (row.error or {}).get('kind', 'wrong')}"] += 1
    for found, count in sorted(right.items()):
        print(f"{found}: {count}")
    places = Counter(kept.place or "nobody" for kept in fleet.store.kept(digests).values())
    print("judged by " + ", ".join(f"{place} ({count})" for place, count in sorted(places.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
