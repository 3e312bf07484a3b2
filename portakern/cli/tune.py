"""``portakern tune``: search the schedules of a kernel by timing them, and keep the best for ``build`` to use."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from portakern.cli import options
from portakern.errors import PortakernError, UsageError
from portakern.registry import registry
from portakern.study.provenance import environment
from portakern.study.work import Work
from portakern.version import __version__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser, schedule=False)
    parser.add_argument("--budget", type=options.seconds, default=60.0, metavar="S",
                        help="wall time of each search, from the default's first run to the winner's check (default 60s)")
    options.add_jobs(parser)
    parser.add_argument("--resume", action="store_true", help="take over what an interrupted run found")
    parser.add_argument("--proposer", choices=["auto", "exhaustive", "random", "tpe"], default="auto",
                        help="how the space is searched (default: whole where it is small, else optuna's TPE)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the proposer (default 0)")
    parser.add_argument("--most", type=options.positive, metavar="N", help="candidates to compile at most")
    parser.add_argument("--write", metavar="FILE",
                        help="also add the tuned schedules to a file as backends ship them (backends/x/tuned/DEVICE.json)")
    options.add_store(parser, samples=False)
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    from portakern.tuned.database import Database, default_file

    file = default_file()
    if file is None:
        raise UsageError("tuned schedules are switched off (PORTAKERN_TUNED=off)",
                         hint="unset PORTAKERN_TUNED, or name a file in it")
    works = options.asked(args).works
    database = Database(file)
    results: list[dict[str, Any]] = []
    status = 0
    with options.terminated_like_interrupted():
        for work in works:
            try:
                result, stop = _tune(work, args, database)
            except PortakernError as error:
                if len(works) == 1:
                    raise
                print(f"portakern: {work.row.operator} for {work.target}: {error}", file=sys.stderr)
                results.append({"operator": work.row.operator, "target": work.target, "dtype": work.row.dtype,
                                "error": error.to_dict()})  # fmt: skip
                status = 1
                continue
            results.append(result)
            if stop:
                status = 130
                break
    if args.json is not None:
        options.print_json({"portakern": __version__, "environment": environment(), "tunings": results}, args.json)
    return status


def _tune(work: Work, args: argparse.Namespace, database: Any) -> tuple[dict[str, Any], bool]:
    """(the result as JSON, whether it was interrupted)."""
    from portakern.tuned.database import write_shipped
    from portakern.tuning.lab import DeviceLab
    from portakern.tuning.report import lines
    from portakern.tuning.tuner import Settings, Tuner, mode_of

    by = mode_of(work)
    settings = Settings(args.budget, args.jobs, args.seed, resume=args.resume, proposer=args.proposer, most=args.most)
    target = registry().target(work.target)
    lock = Path(database.file).with_suffix(".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with DeviceLab(target, args.jobs, lock, args.seed) as lab:
        result = Tuner(work, lab, database, settings, lambda line: print(f"  {line}", file=sys.stderr), by).run()
    out = sys.stderr if args.json == "-" else sys.stdout
    print("\n".join(lines(result)), file=out, flush=True)
    keep = options.keeper_of(args)
    if keep is not None and result.row is not None and result.row.time is not None:
        keep(result.row.but(environment=environment()))
    if result.stored and args.write is not None and work.key is not None and (entry := database.find(work.key)) is not None:
        write_shipped(Path(args.write), [entry])
    return result.to_dict(), result.interrupted
