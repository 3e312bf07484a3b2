"""``portakern bench``: time kernels where their silicon is, in turns with peers."""

from __future__ import annotations

import argparse

from portakern.cli import options
from portakern.study.study import Runner
from portakern.timing.peers import check_names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser)
    parser.add_argument("--against", default="", metavar="PEER,..",
                        help="numpy, torch.eager, torch.compile or FILE.py:FUNCTION; timed in turns with the kernel")
    parser.add_argument("--budget", type=options.seconds, default=2.0, metavar="S",
                        help="seconds of timing per contender, after warming up (default 2s)")
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    against = [p.strip() for p in args.against.split(",") if p.strip()]
    check_names(against)
    asked = options.asked(args)
    torch_functions = {op.name: op.torch for op in options.operators(args.operator)}
    progress = options.ProgressLine()
    # One worker: what runs beside a kernel takes its cache and its cores.
    runner = Runner("timed", 1, progress, timing={"against": against, "budget_s": args.budget},
                    torch_functions=torch_functions)
    study = runner.run(asked.works)
    progress.close()
    return options.finish(study, "timed", args.json)


