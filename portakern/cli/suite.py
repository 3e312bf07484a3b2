"""``portakern suite``: public task suites, run against every target with one command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from portakern.cli import options
from portakern.errors import UsageError
from portakern.registry import registry
from portakern.study.study import write_text
from portakern.suite import adapter, audit, report, results, running
from portakern.suite.rows import PEERS, Timed

ACTIONS = {
    "list": "the suites, or the tasks of one",
    "run": "import its tasks, and build and check them where targets are given",
    "report": "what an earlier run found",
    "audit": "find tasks that judge nothing",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=list(ACTIONS), help="; ".join(f"{a}: {h}" for a, h in ACTIONS.items()))
    parser.add_argument("suite", nargs="?", metavar="NAME", help="of the suite")
    parser.add_argument("--path", metavar="DIR", help="your checkout of the suite")
    options.add_targets(parser, required=False)
    parser.add_argument("--level", metavar="L,..", help="only tasks of these levels")
    parser.add_argument("--task", action="append", default=[], metavar="T", help="only tasks whose names begin with T")
    parser.add_argument("--every", type=options.positive, default=1, metavar="N", help="every N-th task")
    parser.add_argument("--size", choices=adapter.SIZES, default="reduced",
                        help="small sizes of the same structure (default), or the task's own")
    parser.add_argument("--out", metavar="FILE", help="where rows are kept (default suite-NAME.jsonl)")
    parser.add_argument("--resume", action="store_true", help="continue with the rows of --out")
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="of weights and inputs")
    parser.add_argument("--limit", type=options.seconds, default=300.0, metavar="S",
                        help="seconds for importing, building and checking a task, each (default 300s)")
    parser.add_argument("--against", type=_peers, default=[], metavar="PEER,..",
                        help="torch.compile: count its launches for each task too; with --time: what is timed beside a task "
                             "(default torch.eager,torch.compile)")
    parser.add_argument("--time", action="store_true", help="time each row that is right, if its silicon is here")
    parser.add_argument("--budget", type=options.seconds, default=10.0, metavar="S",
                        help="with --time: seconds of timing for a row, its peers included (default 10s)")
    parser.add_argument("--cache", choices=["cold", "warm"], default="cold",
                        help="with --time: flush the caches before every sample (default), or leave them warm")
    options.add_jobs(parser)
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    if args.suite is None:
        if args.action != "list":
            raise UsageError(f"suite {args.action} needs the name of a suite", hint=f"suites are {', '.join(adapter.suites())}")
        print("\n".join(adapter.suites()))
        return 0
    found = adapter.suite(args.suite)
    file = Path(args.out or f"suite-{found.name}.jsonl")
    if args.action == "report":
        rows = results.read(file)
        if not rows:
            raise UsageError(f"there are no rows in {file}", hint="run the suite, or name its file by --out")
        return _say(args, rows)
    path = Path(args.path).expanduser() if args.path else None
    if path is None and found.needs_path:
        raise UsageError(f"the suite {found.name} is read from a checkout", hint="name its folder by --path DIR")
    tasks = adapter.selected(found.tasks(path), args.level, args.task, args.every)
    if args.action == "list":
        print("\n".join(f"{t.level:12} {t.name}" for t in tasks))
        return 0
    if args.action == "audit":
        return _audit(args, found.name, path, tasks)
    targets = registry().match(args.targets) if args.targets else []
    keep = results.Keeper(file, args.resume)
    timed = Timed(args.against or PEERS, args.budget, args.cache, args.limit + 10 * args.budget) if args.time else None
    for row in running.run(found.name, path, tasks, targets, args.size, jobs=args.jobs, seed=args.seed,
                           build_limit_s=args.limit, check_limit_s=args.limit, import_limit_s=args.limit,
                           done=keep.done(args.time), before=keep.rows, timed=timed,
                           peer="torch.compile" in args.against and not args.time, sink=keep):  # fmt: skip
        if sys.stderr.isatty():
            print(f"\r\x1b[K{len(keep.rows)} rows, {row.task} {row.target}: {row.stage}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    return _say(args, keep.rows)


def _peers(text: str) -> list[str]:
    names = [p.strip() for p in text.split(",") if p.strip()]
    if not names or not set(names) <= set(PEERS):
        raise argparse.ArgumentTypeError(f"{text!r} is not of {', '.join(PEERS)}")
    return [p for p in PEERS if p in names]


def _say(args: argparse.Namespace, rows: list[results.TaskRow]) -> int:
    data = {"summary": report.summary(rows), "rows": [r.to_dict() for r in rows]}
    _written(args.json, data)
    if args.json != "-":
        options.show(report.text(rows))
    return 0 if all(r.error is None for r in rows) else 1


def _audit(args: argparse.Namespace, name: str, path: Path | None, tasks: list[adapter.TaskRef]) -> int:
    found = list(audit.audit(name, path, tasks, args.size, jobs=args.jobs, seed=args.seed, limit_s=args.limit))
    _written(args.json, {"audit": [f.to_dict() for f in found]})
    if args.json != "-":
        suspicious = [f for f in found if f.findings]
        options.show("\n".join(f"{f.task}: {'; '.join(f.findings)}" for f in suspicious) or "nothing suspicious")
        print(f"{len(suspicious)} of {len(found)} tasks judge less than they seem to")
    return 0


def _written(where: str | None, data: object) -> None:
    import json

    if where is None:
        return
    text = json.dumps(data, indent=1, default=str)
    if where == "-":
        print(text)
    else:
        write_text(where, text + "\n")
