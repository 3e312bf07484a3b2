"""How many known bugs of Pallas kernels are caught, and by which stage: ``python benchmarks/tpu_bugs.py [WORD ..]``.

Each kernel of ``tests/tpu/bugs.py`` is judged as a kernel from elsewhere against its operator: compiled for TPU v5e and run
through every stage.  The correct kernels must pass.  Words choose the bugs whose names hold them.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.row import Row
from portakern.study.study import Runner
from portakern.study.work import Foreign, Problem, Work, works
from tests.tpu.bugs import BUGS, SIZES, Bug, correct

TARGET = "pallas:v5e"


def work(base: str, text: str, dims: Mapping[str, int]) -> Work:
    (asked,) = works(Problem(load_operator(base), dims, {}), [registry().target(TARGET)], ["f32"])
    return replace(asked, foreign=Foreign(text, None))


def stage_of(row: Row) -> str:
    """What caught it; empty where nothing did."""
    if row.error is None:
        return ""
    if row.error["kind"] == "incorrect":
        return "values"
    found = re.search(r"(\w+) stage: ", row.error["message"])
    return found[1] if found else row.error["kind"].partition("-")[0]


def said(row: Row) -> str:
    text = row.error["message"] if row.error else str(row.method).partition("on the CPU: ")[2]
    return re.sub(r"^.*?stage: ", "", text).splitlines()[0][:150]


def main(words: list[str]) -> int:
    begun = time.time()
    bugs: list[Bug] = [b for b in BUGS if not words or any(w in b.name for w in words)]
    right = [] if words else list(SIZES)
    asked = [*(work(b, correct(b), SIZES[b]) for b in right), *(work(b.base, b.text, b.dims) for b in bugs)]
    rows = Runner("checked", 2).run(asked).rows
    wrong = 0
    for base, row in zip(right, rows, strict=False):
        wrong += row.error is not None
        print(f"{'passes' if row.error is None else 'REFUSED':8} {base}, correct: {said(row)}")
    caught = Counter[str]()
    for bug, row in zip(bugs, rows[len(right) :], strict=True):
        stage = stage_of(row) or "MISSED"
        caught[stage] += 1
        wrong += stage != bug.stage
        note = "" if stage == bug.stage else f" (expected of {bug.stage})"
        print(f"{stage:8} {bug.base}: {bug.name}{note}\n{'':9}{said(row)}")
    total = len(bugs)
    counts = ", ".join(f"{k} {n}" for k, n in caught.most_common())
    print(f"\n{total - caught['MISSED']} of {total} caught ({counts}), {time.time() - begun:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
