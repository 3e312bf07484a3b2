"""What a suite's rows say: how many tasks are imported and correct, by target and level, and the cause of every failure."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from portakern.suite import speed
from portakern.suite.results import NOWHERE, TaskRow, by_task

STAGES = {"task": "its own code", "import": "import", "agreement": "differs from PyTorch", "build": "lowering or compiling",
          "check": "wrong, or not run to the end", "time": "correct, but not timed"}  # fmt: skip


REFUSALS = ("missing-rule", "unsupported-dtype", "usage", "spec")
"""Kinds of errors by which a rule says, before anything is compiled, that something is not done."""


def summary(rows: Sequence[TaskRow]) -> dict[str, Any]:
    """Figures by target; a task is correct where all of its samples are, and whole where none of them is refused by a rule."""
    times = [r.import_s for r in rows if r.import_s is not None]
    targets: dict[str, dict[str, Any]] = {}
    for (_, target), samples in by_task(rows):
        of = targets.setdefault(target, {"tasks": 0, "imported": 0, "correct": 0, "refused": 0, "whole": 0,
                                          "samples": {"right": 0, "refused": 0, "other": 0}, "levels": {}})  # fmt: skip
        level = of["levels"].setdefault(samples[0].level, {"tasks": 0, "imported": 0, "correct": 0})
        imported, correct = all(s.imported for s in samples), all(s.correct for s in samples)
        for counted in (of, level):
            counted["tasks"] += 1
            counted["imported"] += imported
            counted["correct"] += correct
        said = [_said(s) for s in samples]
        of["whole"] += "refused" not in said
        for word in said:
            of["samples"][word] += 1
        of["refused"] += any(not s.imported and s.stage == "import" for s in samples)
    for target, of in targets.items():
        of["speed"] = speed.summary(speed.speeds(rows, target))
    return {"targets": targets, "import_median_s": statistics.median(times) if times else None}


def _said(row: TaskRow) -> str:
    """What came of a sample, in a word."""
    if row.error is None and (row.correct or row.target == NOWHERE):
        return "right"
    return "refused" if row.error is not None and row.error["kind"] in REFUSALS else "other"


def text(rows: Sequence[TaskRow]) -> str:
    """The summary and the failures by cause, as plain text."""
    found = summary(rows)
    lines = []
    for target, of in found["targets"].items():
        where = "" if target == NOWHERE else f"{target}: "
        lines.append(f"{where}{of['correct']} of {of['tasks']} tasks correct, {of['imported']} imported"
                     if where else f"{of['imported']} of {of['tasks']} tasks imported")
        counts = of["samples"]
        if counts["right"] < sum(counts.values()):
            lines.append(f"  samples: {', '.join(f'{n} {word}' for word, n in counts.items())}; "
                         f"{of['whole']} tasks of which none is refused")  # fmt: skip
        lines += [f"  {level}: {n['correct']} of {n['tasks']} correct, {n['imported']} imported"
                  for level, n in of["levels"].items() if len(of["levels"]) > 1]  # fmt: skip
        lines += [f"  {line}" for line in (speed.text(of["speed"]) if of["speed"] else ())]
    if found["import_median_s"] is not None:
        lines.append(f"import: {found['import_median_s']:.2f} s a task in the median")
    launches = [r.launches for r in rows if r.launches]
    if launches:
        lines.append(f"launches: {statistics.mean(launches):.2f} a task in the mean, {max(launches)} at most")
    lines += _beside(rows) + _absent(rows)
    failed = [r for r in rows if r.error is not None or r.correct is False]
    for (stage, cause), count in Counter((r.stage, cause_of(r)) for r in failed).most_common():
        shown = _named([r.task for r in failed if (r.stage, cause_of(r)) == (stage, cause)])
        lines.append(f"{count:4} {STAGES.get(stage, stage)}: {cause}\n       {shown}")
    return "\n".join(lines)


def _beside(rows: Sequence[TaskRow]) -> list[str]:
    """Launches of each task beside torch.compile's, where both are known; the targets' where they differ."""
    both: dict[tuple[str, int, int], list[TaskRow]] = {}
    for r in rows:
        if r.launches is not None and r.peer_launches is not None:
            both.setdefault((r.task, r.sample, r.peer_launches), []).append(r)
    if not both:
        return []
    ours = [max(r.launches or 0 for r in of) for of in both.values()]
    theirs = [peer for _, _, peer in both]
    lines = [f"  {task}{f' [{sample}]' if sample else ''}: {_counts(of)}, torch.compile {peer}"
             for (task, sample, peer), of in both.items()]  # fmt: skip
    least = sum(a <= b for a, b in zip(ours, theirs, strict=True))
    return [f"beside torch.compile: {sum(ours)} launches against {sum(theirs)} kernels and library calls, at most as many in "
            f"{least} of {len(ours)} tasks ({least / len(ours):.0%})", *lines]  # fmt: skip


def _absent(rows: Sequence[TaskRow]) -> list[str]:
    """Peers that were not timed, by cause."""
    causes: dict[tuple[str, str], list[str]] = {}
    for r in rows:
        for peer in (r.time or {}).get("peers", ()):
            if peer.get("error"):
                causes.setdefault((peer["name"], _general(peer["error"])), []).append(r.task)
    return [f"{len(tasks):4} without {peer}: {cause}\n       {_named(tasks)}" for (peer, cause), tasks in causes.items()]


def _named(tasks: Sequence[str]) -> str:
    names = sorted(set(tasks))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _general(message: str) -> str:
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", message)[:200]


def _counts(rows: Sequence[TaskRow]) -> str:
    counts = {r.launches for r in rows}
    return str(*counts) if len(counts) == 1 else ", ".join(f"{r.target} {r.launches}" for r in rows)


def cause_of(row: TaskRow) -> str:
    """The error's message without what differs from task to task."""
    message = (row.error or {}).get("message", "no evidence that it is correct")
    missing = re.findall(r"^  - (.+?)(?: \(.*\))?: (.*)$", message, re.MULTILINE)
    if missing:
        return "; ".join(sorted({f"{what}: {why}" for what, why in missing}))[:300]
    first = [line for line in message.splitlines() if line.strip()]
    return _general(re.sub(r"^\S+:\d+: ", "", first[0] if first else message))  # without the task's own line
