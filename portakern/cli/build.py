"""``portakern build``: machine code for every target asked, without the hardware."""

from __future__ import annotations

import argparse

from portakern.cli import options
from portakern.study.study import Runner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser)
    options.add_output(parser)
    options.add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    asked = options.asked(args)
    progress = options.ProgressLine()
    study = Runner("compiled", args.jobs, progress).run(asked.works)
    progress.close()
    return options.finish(study, "compiled", args.json)
