"""A process that writes results, for the test of many at once."""

from __future__ import annotations

import sys

from portakern.study.row import Row
from portakern.study.store import ResultStore


def timed(operator: str, number: int, samples: int = 20) -> Row:
    """A row with a time, different for each number."""
    time = {
        "median_us": 10.0 + number, "ci_low_us": 9.5 + number, "ci_high_us": 10.5 + number, "samples": samples,
        "launch_us": 2.0, "end_to_end_us": 14.0, "mode": "single, cold", "roofline": {"share_of_measured_copy": 0.9},
        "peers": [{"name": "numpy", "median_us": 20.0, "ratio": 2.0, "ci_low": 1.9, "ci_high": 2.1, "verdict": "FASTER",
                   "samples_us": [20.0, 20.5]}],
        "provenance": {"taken": f"2026-11-20T12:{number // 60:02}:{number % 60:02}.000+00:00", "device": {"version": "1.2"}},
        "samples_us": [10.0 + number + i / 1e6 for i in range(samples)], "flags": [0] * (samples - 1) + [3],
    }  # fmt: skip
    environment = {"machine_id": "abcdefabcdef", "commit": "0123456789abcdef", "dirty": False}
    return Row(operator, "cuda:sm_90a", device="NVIDIA H200", shape={"M": number, "B": [2, 3]}, dtype="bf16", params={},
               evidence="timed", correct=True, time=time, environment=environment)  # fmt: skip


def main(file: str, writer: int, rows: int) -> None:
    store = ResultStore(file)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(rows):
        store.add([timed(f"op{writer}", n)])
        print(n, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
