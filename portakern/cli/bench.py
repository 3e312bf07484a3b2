"""``portakern bench``: time kernels where their silicon is, interleaved with peers."""

from __future__ import annotations

import argparse

from portakern import api
from portakern.cli import options
from portakern.study.times import times_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser)
    options.add_timing(parser)
    parser.add_argument("--check", choices=["auto", "full"], default="auto",
                        help="auto: if the float64 oracle would take minutes, it judges parts of the outputs, and every "
                             "element is compared coarsely; full: it judges all")  # fmt: skip
    options.add_html(parser)
    parser.add_argument("--resume", action="store_true",
                        help="take rows of the same text on this machine from the store, and time the rest")
    options.add_store(parser)
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    html, progress = options.html_of(args), options.ProgressLine()
    study = api.bench(**options.question(args), **options.timing(args), check=args.check, resume=args.resume,
                      store=options.keeper_of(args), progress=progress)  # fmt: skip
    progress.close()
    options.write_html(study, html)
    return options.finish(study, "timed", args.json, args.samples, times_text)
