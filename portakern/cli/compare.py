"""``portakern compare``: one table over targets, joined with results taken on other machines."""

from __future__ import annotations

import argparse

from portakern.cli import options
from portakern.errors import UsageError
from portakern.spec.load import load_operator
from portakern.study.results import read_results
from portakern.study.study import Runner, Study, environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser, required=False)
    options.add_size(parser)
    parser.add_argument("--from", nargs="+", action="extend", default=[], metavar="RESULTS.json", dest="results",
                        help="rows from other machines, as --json wrote them")
    parser.add_argument("--html", metavar="FILE", help="also write one self-contained page")
    options.add_output(parser)
    options.add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    if args.targets is None and not args.results:
        raise UsageError("compare what? neither --targets nor --from was given", hint="name targets: --targets T,..")
    joined = [row for file in args.results for row in read_results(file)]
    study = Study((), environment())
    if args.targets is not None:
        asked = options.asked(args)
        progress = options.ProgressLine()
        study = Runner("compared", args.jobs, progress, keep_sources=args.html is not None).run(asked.works)
        progress.close()
    if args.operator != "all":
        name = load_operator(args.operator).name
        joined = [row for row in joined if row.operator == name]
    study = Study((*study.rows, *joined), study.environment, study.sources, study.assemblies)
    if args.html is not None:
        study.to_html(args.html)
    return options.finish(study, "compared", args.json)
