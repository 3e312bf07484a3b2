"""``portakern check``: run what can be run here and compare it with the float64 oracle."""

from __future__ import annotations

import argparse

from portakern import api
from portakern.cli import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser)
    options.add_html(parser)
    options.add_output(parser)
    options.add_jobs(parser)
    parser.add_argument("--faults", action="store_true",
                        help="break the kernels on purpose, and print the share of faults that the check catches")


def run(args: argparse.Namespace) -> int:
    if args.faults:
        from portakern.cli.faults import run_faults

        return run_faults(options.asked(args, every_case=True).works, args)
    html, progress = options.html_of(args), options.ProgressLine()
    study = api.check(**options.question(args), jobs=args.jobs, progress=progress)
    progress.close()
    options.write_html(study, html)
    return options.finish(study, "checked", args.json)
