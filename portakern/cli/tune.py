"""``portakern tune``: search the schedules of a kernel by timing them, and keep the best for ``build`` to use."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from portakern.cli import options
from portakern.errors import PortakernError
from portakern.study.command_schema import stamped
from portakern.study.provenance import environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser, schedule=False)
    parser.add_argument("--budget", type=options.seconds, default=60.0, metavar="S",
                        help="wall time of each search, from the default's first run to the winner's check (default 60s)")
    options.add_jobs(parser)
    parser.add_argument("--resume", action="store_true", help="continue an interrupted search")
    parser.add_argument("--proposer", choices=["auto", "exhaustive", "random", "tpe"], default="auto",
                        help="how the space is searched (default: whole if it is small, else optuna's TPE)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the proposer (default 0)")
    parser.add_argument("--most", type=options.positive, metavar="N", help="candidates to compile at most")
    parser.add_argument("--write", metavar="FILE",
                        help="also add the tuned schedules to a file as backends ship them (backends/x/tuned/DEVICE.json)")
    options.add_store(parser, samples=False)
    options.add_output(parser)
    options.add_schema(parser, "tune")


def run(args: argparse.Namespace) -> int:
    from portakern.tuning.report import lines
    from portakern.tuning.tune import database, tune_work
    from portakern.tuning.tuner import Settings

    database()  # found missing before the work
    works = options.asked(args).works
    settings = Settings(args.budget, args.jobs, args.seed, resume=args.resume, proposer=args.proposer, most=args.most)
    results: list[dict[str, Any]] = []
    status = 0
    out = sys.stderr if args.json == "-" else sys.stdout
    with options.terminated_like_interrupted():
        for work in works:
            try:
                result = tune_work(work, settings, lambda line: print(f"  {line}", file=sys.stderr), options.keeper_of(args),
                                   args.write)  # fmt: skip
            except PortakernError as error:
                if len(works) == 1:
                    raise
                print(f"portakern: {work.row.operator} for {work.target}: {error}", file=sys.stderr)
                results.append({"operator": work.row.operator, "target": work.target, "dtype": work.row.dtype,
                                "error": error.to_dict()})  # fmt: skip
                status = 1
                continue
            options.show("\n".join(lines(result)), file=out, flush=True)
            results.append(result.to_dict())
            if result.interrupted:
                status = 130
                break
    if args.json is not None:
        options.print_json(stamped("tune", {"environment": environment(), "tunings": results}), args.json)
    return status
