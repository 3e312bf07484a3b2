"""``portakern bench``: time kernels where their silicon is, interleaved with peers."""

from __future__ import annotations

import argparse

from portakern.cli import options
from portakern.study.study import Runner
from portakern.study.times import times_text
from portakern.study.under_way import CHECK_LIMIT_S


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser)
    options.add_timing(parser)
    parser.add_argument("--check", choices=["auto", "full"], default="auto",
                        help="auto: where the float64 oracle would take minutes, it judges parts of the outputs, and every "
                             "element is compared coarsely; full: it judges all")  # fmt: skip
    options.add_html(parser)
    options.add_store(parser)
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    timing, html = options.timing_of(args), options.html_of(args)
    asked = options.asked(args)
    progress = options.ProgressLine()
    # One worker: what runs beside a kernel takes its cache and its cores.
    runner = Runner("timed", 1, progress, check_limit_s=time_limit(timing), timing=timing, full_check=args.check == "full",
                    sink=options.keeper_of(args), keep_sources=html is not None)  # fmt: skip
    study = runner.run(asked.works)
    progress.close()
    options.write_html(study, html)
    return options.finish(study, "timed", args.json, args.samples, times_text)


def time_limit(timing: dict) -> float:
    """Wall time of one row: its budgets, and what compiling peers and checking may take."""
    return CHECK_LIMIT_S + 2 * timing["options"]["budget_s"] * (1 + len(timing["against"])) + 200 * len(timing["against"])
