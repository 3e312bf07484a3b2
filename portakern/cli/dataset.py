"""``portakern dataset``: kernels that searches found correct, written to a file, and judged again from one."""

from __future__ import annotations

import argparse
import sys

from portakern.cli import options
from portakern.errors import UsageError
from portakern.referee.process import MODES
from portakern.search import dataset
from portakern.search.history import History
from portakern.study.candidate import LEVELS
from portakern.study.judging import LIMIT_S, Limits
from portakern.study.provenance import environment
from portakern.study.study import Study, write_text

ACTIONS = {"export": "write the correct kernels of searches to a file", "verify": "judge every kernel of a file again"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=list(ACTIONS), help="; ".join(f"{a}: {h}" for a, h in ACTIONS.items()))
    parser.add_argument("file", metavar="FILE.jsonl", help="one kernel a line, as JSON")
    parser.add_argument("--store", metavar="FILE",
                        help="the store of the searches (default PORTAKERN_RESULTS, else the user's own)")
    parser.add_argument("--search", metavar="NAME", help="export this search only")
    parser.add_argument("--level", choices=LEVELS[1:], default="full", help="how far kernels are judged again (default full)")
    parser.add_argument("--timeout", type=options.seconds, default=LIMIT_S, metavar="S",
                        help="wall time of a kernel (default 60s)")
    parser.add_argument("--jail", choices=MODES, default="auto",
                        help="require: refuse if a part of the jail is missing; off: no jail (default auto)")
    options.add_jobs(parser)
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    return _export(args) if args.action == "export" else _verify(args)


def _export(args: argparse.Namespace) -> int:
    history = History(args.store)
    names = [name for _, name, _, _ in history.searches()]
    if args.search is not None and args.search not in names:
        raise UsageError(f"no search in {history.file} is called {args.search!r}",
                         hint=f"there are {', '.join(names) or 'none'}")
    lines = [entry.line() for entry in dataset.entries(history, args.search)]
    write_text(args.file, "".join(line + "\n" for line in lines))
    print(f"{args.file}: {len(lines)} kernels", file=sys.stderr)
    return 0


def _verify(args: argparse.Namespace) -> int:
    found = []
    for verified in dataset.verify(dataset.read(args.file), args.level, args.jobs, Limits(args.timeout), args.jail):
        found.append(verified)
        if args.json is None:
            row, error = verified.row, verified.row.error
            why = f"holds: {row.method}" if verified.holds else f"FAILS: {error['message'] if error else row.method}"
            print(f"{verified.entry.candidate.id} {row.operator} {row.target}: {why}")
    holding = sum(v.holds for v in found)
    if args.json is not None:
        options.print_json(Study(tuple(v.row for v in found), environment()).to_dict(), args.json)
    print(f"{holding} of {len(found)} kernels hold", file=sys.stderr)
    return 0 if holding == len(found) else 1
