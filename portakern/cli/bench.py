"""``portakern bench``: time kernels where their silicon is, interleaved with peers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.cli import options
from portakern.errors import UsageError
from portakern.study.resuming import kept
from portakern.study.row import Row
from portakern.study.steps import Build
from portakern.study.store import ResultStore
from portakern.study.study import Runner, SourceFacts, Study, files_of
from portakern.study.times import times_text
from portakern.study.under_way import CHECK_LIMIT_S
from portakern.study.work import Work


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser)
    options.add_timing(parser)
    parser.add_argument("--check", choices=["auto", "full"], default="auto",
                        help="auto: where the float64 oracle would take minutes, it judges parts of the outputs, and every "
                             "element is compared coarsely; full: it judges all")  # fmt: skip
    options.add_html(parser)
    parser.add_argument("--resume", action="store_true",
                        help="take what the store has of the same text on this machine, and time the rest")
    options.add_store(parser)
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    timing, html = options.timing_of(args), options.html_of(args)
    asked = options.asked(args)
    if args.resume and args.no_store:
        raise UsageError("--resume takes rows from the store", hint="leave out --no-store")
    past = kept(asked.works, ResultStore(args.store), timing) if args.resume else {}
    progress = options.ProgressLine()
    # One worker: what runs beside a kernel takes its cache and its cores.
    runner = Runner("timed", 1, progress, check_limit_s=time_limit(timing), timing=timing, full_check=args.check == "full",
                    sink=options.keeper_of(args), keep_sources=html is not None)  # fmt: skip
    study = joined(runner.run([w for n, w in enumerate(asked.works) if n not in past]), past, asked.works)
    progress.close()
    options.write_html(study, html)
    return options.finish(study, "timed", args.json, args.samples, times_text)


def joined(study: Study, past: Mapping[int, tuple[Row, Build]], works: Sequence[Work]) -> Study:
    """The rows in the order asked for: those that were taken now and those of the store."""
    now = iter(study.rows)
    rows = tuple(past[n][0] if n in past else next(now) for n in range(len(works)))
    emitted = [made for _, made in past.values() if made.source is not None]
    sources = {m.source.digest: m.source.text for m in emitted if m.source is not None}
    facts = {m.source.digest: SourceFacts(m.source.suffix, m.operations) for m in emitted if m.source is not None}
    return replace(study, rows=rows, sources={**sources, **study.sources}, source_facts={**facts, **study.source_facts},
                   files=files_of(works))  # fmt: skip


def time_limit(timing: dict) -> float:
    """Wall time of one row: its budgets, and what compiling peers and checking may take."""
    return CHECK_LIMIT_S + 2 * timing["options"]["budget_s"] * (1 + len(timing["against"])) + 200 * len(timing["against"])
