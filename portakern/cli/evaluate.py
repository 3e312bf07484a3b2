"""``portakern evaluate``: a kernel from elsewhere, compiled, checked and where possible timed against an operator."""

from __future__ import annotations

import argparse

from portakern.cli import options
from portakern.errors import UsageError
from portakern.referee.process import MODES
from portakern.registry import registry
from portakern.study import asking
from portakern.study.judge import CANDIDATE_S, judge
from portakern.study.provenance import environment
from portakern.study.study import Study
from portakern.study.work import works


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    parser.add_argument("--source", required=True, metavar="FILE", help="the kernel's text")
    parser.add_argument("--entry", metavar="NAME", help="the function to call, where the convention needs it")
    parser.add_argument("--timeout", type=options.seconds, default=CANDIDATE_S, metavar="S",
                        help="wall time for compiling, and again for checking and for timing (default 60s)")
    parser.add_argument("--jail", choices=MODES, default="auto",
                        help="require: refuse if a part of the jail is missing; off: no jail (default auto)")
    parser.add_argument("--secret", metavar="HEX", help="judge again with the secret of an earlier row (default: a new one)")
    options.add_size(parser)
    options.add_timing(parser)
    options.add_store(parser)
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    text = options.read_text(args.source, "the kernel")
    ops = options.operators(args)
    if len(ops) != 1:
        raise UsageError("a kernel is judged against one operator", hint="name it instead of all")
    if args.schedule:
        raise UsageError("a kernel from elsewhere has no schedule of ours", hint="leave out --schedule")
    (op,) = ops
    targets = registry().match(args.targets)
    for target in targets:
        if registry().language(target.language).adopt is None:
            raise UsageError(f"{target.language} takes no kernels from elsewhere")
    params = {k: op.read_param(k, v) for k, v in asking.pairs(args.param, "--param").items()}
    (problem,) = asking.problems(op, asking.pairs(args.shape, "--shape"), params, every_case=False)
    dtypes = asking.dtypes_of(args.dtype, op, asking.default_dtype(op))
    timing = options.timing_of(args)
    sink = options.keeper_of(args)
    asked = works(problem, targets, dtypes)
    rows = tuple(judge(work, text, args.entry, args.timeout, timing=timing, sink=sink, jail=args.jail, secret=args.secret)
                 for work in asked)  # fmt: skip
    return options.finish(Study(rows, environment()), "compared", args.json, args.samples)
