"""How many known bugs of Pallas kernels the stages catch, and which stage: ``python benchmarks/tpu_bugs.py [WORD ..]``.

Each kernel of ``tests/tpu/bugs.py`` is judged as a kernel from elsewhere against its operator, compiled for TPU v5e and run
through every stage; the correct kernels must pass.  Words choose the bugs whose names hold them.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import portakern as pk
from portakern.study.row import Row
from tests.tpu.bugs import BUGS, SIZES, correct

TARGET = "pallas:v5e"


def stage_of(row: Row) -> str:
    """What caught it; empty where nothing did."""
    if row.error is None:
        return ""
    kind, message = row.error["kind"], row.error["message"]
    if kind == "incorrect":
        return "values"
    found = re.search(r"(\w+) stage: ", message)
    return found[1] if found else kind.partition("-")[0]


def judged(name: str, text: str, base: str, dims: dict[str, int]) -> tuple[str, str]:
    row = pk.evaluate(base, text, TARGET, dtype="f32", timeout_s=240, **dims)
    said = row.error["message"] if row.error else row.method or ""
    return stage_of(row), re.sub(r"^.*?stage: ", "", said).splitlines()[0]


def main(words: list[str]) -> int:
    begun, caught, wrong = time.time(), Counter[str](), 0
    for base in () if words else SIZES:
        stage, said = judged(base, correct(base), base, dict(SIZES[base]))
        wrong += bool(stage)
        print(f"{'-' if not stage else stage + ' ?!':10} {base}, correct: {said[:160]}", flush=True)
    for bug in BUGS:
        if words and not any(w in bug.name for w in words):
            continue
        stage, said = judged(bug.name, bug.text, bug.base, bug.dims)
        caught[stage or "MISSED"] += 1
        wrong += stage != bug.stage
        print(f"{stage or 'MISSED':10} {bug.base}: {bug.name}\n{'':11}{said[:200]}", flush=True)
        if stage != bug.stage:
            print(f"{'':11}expected of {bug.stage}")
    total = sum(caught.values())
    print(f"\n{total - caught['MISSED']} of {total} caught ({', '.join(f'{k} {n}' for k, n in caught.most_common())}), "
          f"{time.time() - begun:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
