"""``portakern compare``: one table over targets, joined with results taken on other machines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from portakern import api
from portakern.cli import options
from portakern.errors import UsageError
from portakern.study.porting import notes_text, porting_notes
from portakern.study.provenance import environment
from portakern.study.results import read_results
from portakern.study.row import Row
from portakern.study.study import Study
from portakern.study.table import text_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser, required=False)
    options.add_size(parser)
    parser.add_argument("--from", nargs="+", action="extend", default=[], metavar="FILE", dest="results",
                        help="rows from other machines: JSON as --json wrote it, or stores")
    options.add_html(parser)
    options.add_timing(parser)
    options.add_store(parser)
    options.add_output(parser)
    options.add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    if args.targets is None and not args.results:
        raise UsageError("compare what? neither --targets nor --from was given", hint="name targets: --targets T,..")
    html = options.html_of(args)
    joined = [(row, Path(file).name) for file in args.results for row in read_results(file)]
    study = Study((), environment())
    if args.targets is not None:
        progress = options.ProgressLine()
        study = api.compare(**options.question(args), **options.timing(args), jobs=args.jobs, store=options.keeper_of(args),
                            progress=progress)  # fmt: skip
        progress.close()
    if args.operator != "all":
        names = {op.name for op in options.operators(args)}
        joined = [(row, file) for row, file in joined if row.operator in names]
    origins = ["here"] * len(study.rows) + [origin(row, file) for row, file in joined] if joined else []
    rows = (*study.rows, *(row for row, _ in joined))
    study = replace(study, rows=rows, porting=porting_notes(rows))
    options.write_html(study, html)

    def shown(rows: Sequence[Row]) -> str:
        return "\n".join([text_table(rows, origins), *([notes_text(study.porting)] if study.porting else [])])

    return options.finish(study, "compared", args.json, args.samples, shown)


def origin(row: Row, file: str) -> str:
    """Where a row comes from: its file, and the machine, commit and time it was taken with."""
    here = row.environment or {}
    taken = ((row.time or {}).get("provenance") or {}).get("taken")
    commit = str(here["commit"])[:9] if here.get("commit") else None
    who = here.get("machine_id") or here.get("processor")
    return " ".join(filter(None, [file, f"({who})" if who else None, f"@{commit}" if commit else None,
                                  taken[:16] if taken else None]))  # fmt: skip
