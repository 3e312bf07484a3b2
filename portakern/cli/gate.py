"""``portakern results --gate``: cases of an earlier run measured again or imported, and a verdict on each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from portakern.cli import options
from portakern.errors import UsageError
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from portakern.study.again import gate_again
from portakern.study.baseline import baseline
from portakern.study.gate import FAILING, GateVerdict, common, counts, gate, newest, passes
from portakern.study.layout import table
from portakern.study.provenance import environment
from portakern.study.results import read_results
from portakern.study.row import Row
from portakern.study.store import ResultStore
from portakern.study.study import Study
from portakern.study.table import us_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a gate")
    group.add_argument("--gate", metavar="BASELINE",
                       help="measure the cases of an earlier run again, and exit with 1 if one got slower, fails or is "
                            "wrong now; BASELINE is a store, a JSON file, a run by its --name, or a date")  # fmt: skip
    group.add_argument("--against", nargs="+", action="extend", default=[], metavar="FILE",
                       help="with --gate: rows measured elsewhere; nothing is measured here")
    group.add_argument("--margin", type=options.excess, default=0.03, metavar="R",
                       help="a slowdown up to this is no regression (default 3%%)")
    group.add_argument("--budget", type=options.seconds, metavar="S", help="seconds of timing per case (default: as before)")
    group.add_argument("--tries", type=options.positive, default=2, metavar="N",
                       help="how often a case that seems worse is measured (default 2)")
    group.add_argument("--strict", action="store_true", help="cases that are missing or undecided do not pass either")


def run(args: argparse.Namespace) -> int:
    store = ResultStore(args.store)
    operators, names = named(args.operator)
    before = tuple(r for r in baseline(args.gate, store) if _asked(r, args, names))
    if not newest(before):
        raise UsageError(f"--gate {args.gate}: nothing there was timed or checked that fits",
                         hint="portakern results --store FILE lists a store")
    if args.against:
        rows = tuple(r for file in args.against for r in read_results(file))
        verdicts = gate(before, rows, args.margin)
        left = len(newest(rows).keys() - newest(before).keys())
        if left:
            print(f"portakern: {left} cases of {', '.join(args.against)} are not in the baseline", file=sys.stderr)
    else:
        progress = options.ProgressLine()
        changed = {} if args.budget is None else {"budget_s": args.budget}
        gated = gate_again(before, args.margin, operators, changed, args.tries, options.keeper_of(args), progress)
        progress.close()
        rows, verdicts = gated.rows, gated.verdicts
    if args.json is not None:
        told = {"baseline": args.gate, "margin": args.margin, "passes": passes(verdicts, args.strict),
                "counts": counts(verdicts), "verdicts": [v.to_dict() for v in verdicts]}  # fmt: skip
        options.print_json({**Study(rows, environment()).to_dict(), "gate": told}, args.json)
    if args.json != "-":
        options.show(text(verdicts, args.gate, args.margin))
    return 0 if passes(verdicts, args.strict) else 1


def named(text: str | None) -> tuple[dict[str, Operator], set[str] | None]:
    """The operators that ``--operator`` brings from files, and the names it asks for; ``None`` for all."""
    if text is None:
        return {}, None
    words = [w.strip() for w in text.split(",") if w.strip()]
    brought = {op.name: op for op in (load_operator(w) for w in words if ".py" in w)}
    return brought, {*brought, *(w for w in words if ".py" not in w)}


def _asked(row: Row, args: argparse.Namespace, names: set[str] | None) -> bool:
    from fnmatch import fnmatchcase

    tests = [(names, lambda: names is not None and row.operator in names), (args.dtype, lambda: row.dtype == args.dtype),
             (args.target, lambda: fnmatchcase(row.target, args.target)),
             (args.device, lambda: args.device.lower() in (row.device or "").lower())]  # fmt: skip
    return all(test() for asked, test in tests if asked is not None)


def text(verdicts: Sequence[GateVerdict], name: str, margin: float) -> str:
    """A line per case, what differs between the runs, what failed and why, and the sum."""
    head = ["", "operator", "target", "case", "dtype", "before us", "now us", "now / before"]
    lines = [[v.verdict.upper() if v.verdict in FAILING else v.verdict, v.operator, v.target, v.case, v.dtype or "",
              *("" if us is None else us_text(us) for us in (v.before_us, v.now_us)), _ratio(v)] for v in verdicts]  # fmt: skip
    parts = [table([head, *lines], keys=5)]
    if differs := common(verdicts):
        said = [f"  {what} ({n} of {len(verdicts)} cases)" for what, n in differs.items()]
        parts.append("\n".join(["WARNING: the runs are not alike, and a verdict may be of that and not of the code:", *said]))
    parts += [f"{v.operator} on {v.target}, {v.case} {v.dtype}: {v.verdict}\n  {v.why}"
              for v in verdicts if v.why and v.verdict != "same"]  # fmt: skip
    found = ", ".join(f"{n} {word}" for word, n in counts(verdicts).items())
    parts.append(f"{len(verdicts)} cases against {name}, margin {margin:.0%}: {found}")
    return "\n\n".join(parts)


def _ratio(v: GateVerdict) -> str:
    return "" if v.ratio is None else f"{v.ratio:.3f} [{v.ci_low:.3f}, {v.ci_high:.3f}]"
