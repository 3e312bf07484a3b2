"""``portakern check --faults``: how many planted bugs the check catches."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from portakern.cli import options
from portakern.study.faults import MutationSubject, measure, report
from portakern.study.study import write_text
from portakern.study.work import Work


def run_faults(works: Sequence[Work], args: argparse.Namespace) -> int:
    """Prints shares and what was missed, or writes every outcome as JSON; 0 unless nothing could be measured."""
    outcomes = measure([_subject(w) for w in works], progress=_progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if args.json:
        text = json.dumps([asdict(o) for o in outcomes], indent=1)
        print(text) if args.json == "-" else write_text(args.json, text)
    if args.json != "-":
        options.show(report(outcomes))
    return 0 if any(o.result == "caught" for o in outcomes) else 1


def _subject(work: Work) -> MutationSubject:
    row = work.row
    case = ",".join(f"{k}={v}" for k, v in {**(row.shape or {}), **(row.params or {})}.items())
    return MutationSubject(row.operator or "", case, row.dtype or "", work.target, work.program, work.families, work.sizes)


def _progress(done: int, total: int, subject: MutationSubject) -> None:
    text = f"{done}/{total}  {subject.operator} {subject.target} {subject.dtype} {subject.case}"
    sys.stderr.write(f"\r\x1b[K{text[:100]}")
    sys.stderr.flush()
