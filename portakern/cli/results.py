"""``portakern results``: what was timed before, here or on other machines: listed, joined, exported, and a gate."""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from portakern.cli import gate, options
from portakern.errors import UsageError
from portakern.study import row_schema
from portakern.study.layout import table
from portakern.study.provenance import environment
from portakern.study.results import read_results, to_csv
from portakern.study.store import ResultStore, Stored
from portakern.study.study import Study, write_text
from portakern.study.table import case_text, evidence_text, peers_text, roofline_text, time_text
from portakern.tools import limits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operator", metavar="OP", help="results of this operator only")
    parser.add_argument("--target", metavar="T", help="of this target, or of a pattern such as 'cuda:*'")
    parser.add_argument("--device", metavar="NAME", help="of devices with this in their name")
    parser.add_argument("--dtype", metavar="D", help="of this dtype")
    parser.add_argument("--since", type=_moment, metavar="DATE", help="taken at or after this date or time (UTC)")
    parser.add_argument("--last", type=options.positive, metavar="N", help="the newest N")
    parser.add_argument("--import", nargs="+", action="extend", default=[], metavar="FILE", dest="imported",
                        help="add rows from JSON files or other stores; those that are here already are left out")
    parser.add_argument("--export", metavar="FILE", help="write what is listed to FILE.json (with raw samples) or FILE.csv")
    parser.add_argument("--name", metavar="NAME", help="keep what is listed as the run of this name, for --gate NAME")
    options.add_store(parser, samples=False)
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of what --json writes, and nothing else")
    parser.add_argument("--prune", action="store_true",
                        help="remove listed results beyond --age, --size or --count; named runs stay")
    parser.add_argument("--age", metavar="T", help="with --prune: remove what is older, as 30d or 8w")
    parser.add_argument("--size", metavar="S", help="with --prune: keep at most this, as 500MB; the oldest go first")
    parser.add_argument("--count", type=options.positive, metavar="N", help="with --prune: keep at most N")
    parser.add_argument("--dry-run", action="store_true", help="with --prune: say what would be removed, and remove nothing")
    options.add_output(parser)
    gate.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.schema:
        print(row_schema.FILE.read_text(encoding="utf-8"), end="")
        return 0
    if args.gate is not None:
        return gate.run(args)
    if args.against:
        raise UsageError("--against holds rows against a baseline", hint="write --gate BASELINE as well")
    store = ResultStore(args.store)
    if args.export and Path(args.export).suffix not in (".json", ".csv"):
        raise UsageError(f"--export {args.export}: neither .json nor .csv", hint="the file's ending says which is written")
    for file in args.imported:
        if not Path(file).exists():
            raise UsageError(f"cannot read the results {file}: no such file")
        rows = read_results(file, samples=True)
        added = store.add(rows, origin=Path(file).name)
        print(f"{file}: {added} of {len(rows)} rows are new", file=sys.stderr)
    found = store.select(args.operator, args.target, args.device, args.dtype, args.since, args.last,
                         samples=args.export is not None)  # fmt: skip
    if args.prune:
        return prune(store, found, args)
    if args.name:
        store.name(args.name, found)
        print(f"{args.name}: {len(found)} result{'' if len(found) == 1 else 's'}", file=sys.stderr)
    if args.export:
        export(found, args.export)
        print(f"{args.export}: {len(found)} result{'' if len(found) == 1 else 's'}", file=sys.stderr)
    if args.json is not None:
        options.print_json(study_of(found).to_dict(), args.json)
    elif not args.export and (found or not args.imported):
        options.show(listing(found) if found else f"no results in {store.file}")
    return 0


def prune(store: ResultStore, found: tuple[Stored, ...], args: argparse.Namespace) -> int:
    if args.age is None and args.size is None and args.count is None:
        raise UsageError("--prune removes what?", hint="give --age 90d, --size 500MB or --count 1000, or several of them")
    before = None
    if args.age is not None:
        before = (datetime.now(UTC) - timedelta(seconds=limits.seconds_of(args.age))).isoformat(timespec="milliseconds")
    gone, left = store.prune(found, before, args.count, None if args.size is None else limits.bytes_of(args.size), args.dry_run)
    options.show(f"{store.file}: {gone} results {'would be' if args.dry_run else 'were'} removed, {left} are left")
    return 0


def export(found: tuple[Stored, ...], file: str) -> None:
    if file.endswith(".csv"):
        write_text(file, to_csv(found))
    else:
        write_text(file, json.dumps(study_of(found).to_dict(samples=True), default=str) + "\n")


def study_of(found: tuple[Stored, ...]) -> Study:
    return Study(tuple(s.row for s in found), environment())


def listing(found: tuple[Stored, ...]) -> str:
    """One line per result, the newest last; columns that are empty throughout are left out."""
    head = ["taken (UTC)", "operator", "target", "device", "case", "dtype", "evidence", "time us", "against", "of peak",
            "commit", "machine"]  # fmt: skip
    lines = [_line(s) for s in found]
    shown = [i for i in range(len(head)) if any(line[i] for line in lines)]
    return table([[line[i] for i in shown] for line in [head, *lines]], keys=3)


def _line(s: Stored) -> list[str]:
    row, here = s.row, s.row.environment or {}
    commit = f"{str(here['commit'])[:9]}{'+' if here.get('dirty') else ''}" if here.get("commit") else ""
    origin = f" from {s.origin}" if s.origin else ""
    return [(s.taken or "")[:19].replace("T", " "), row.operator, row.target, row.device or "", case_text(row), row.dtype or "",
            evidence_text(row), time_text(row), peers_text(row), roofline_text(row), commit,
            f"{here.get('machine_id') or '?'}{origin}"]  # fmt: skip


def _moment(text: str) -> str:
    """A date or time as it is kept, in UTC."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-11-20") from None
    return re.sub(r"\s", "T", text.strip())
