"""``portakern ops``: the operators of the library."""

from __future__ import annotations

import argparse

from portakern.cli import options
from portakern.spec.load import library
from portakern.spec.operator import Operator
from portakern.study.layout import fit, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", metavar="OP", nargs="?", default="all", help="show this operator and its cases")
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    found = library() if args.operator == "all" else options.operators(args)
    if args.json is not None:
        options.print_json({"operators": [describe(op) for op in found]}, args.json)
    elif args.operator == "all":
        rows = [["operator", "arrays", "parameters", "dtypes", "cases"], *map(_line, found)]
        options.show(table(rows))
    else:
        print(_page(found[0]))
    return 0


def describe(op: Operator) -> dict[str, object]:
    return {
        "name": op.name,
        "doc": op.doc,
        "inputs": {name: [str(d) for d in dims] for name, dims in op.declared().items()},
        "params": {n: {"type": p.type.__name__, "default": p.default} for n, p in op.params.items()},
        "dims": list(op.dims),
        "dtypes": list(op.dtypes),
        "cases": {c.name: {**c.dims, **c.params} for c in op.cases},
    }


def _line(op: Operator) -> list[str]:
    arrays = " ".join(f"{n}[{','.join(map(str, d))}]" for n, d in op.declared().items())
    params = " ".join(f"{n}={_shown(p.default)}" for n, p in op.params.items())
    return [op.name, arrays, params, " ".join(op.dtypes), str(len(op.cases))]


def _page(op: Operator) -> str:
    cases = [["case", "sizes"]]
    cases += [[c.name, " ".join(f"{k}={_shown(v)}" for k, v in {**c.dims, **c.params}.items())] for c in op.cases]
    head = [["operator", *_line(op)[:1]], ["arrays", _line(op)[1]], ["parameters", _line(op)[2] or "none"],
            ["dtypes", " ".join(op.dtypes)]]  # fmt: skip
    return f"{table(head, head=False)}\n\n{fit(op.doc)}\n\n{op.source.rstrip()}\n\n{table(cases)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
