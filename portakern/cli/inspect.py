"""``portakern inspect``: a kernel from elsewhere, without an operator to compare it with."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from portakern.backend import InspectedKernel
from portakern.cli import options
from portakern.emit.mangled import readable
from portakern.errors import UsageError
from portakern.registry import registry
from portakern.study.command_schema import stamped
from portakern.study.inspecting import Inspection, arguments_of, inspect_all
from portakern.study.layout import table
from portakern.study.table import bytes_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE[:NAME]", help="my_kernel.py:fn, my.cu, my.hip or my.hip:kernel")
    options.add_targets(parser)
    parser.add_argument(
        "--args",
        default="",
        metavar="x=bf16[M,N],n=4096,..",
        help="its arguments, in order: arrays by dtype and shape, numbers; BLOCK=128 and num_warps=4 too",
    )
    parser.add_argument("--from", dest="origin", default="", metavar="LANG",
                        help="the language of the file, if not the target's: cuda, for hip")  # fmt: skip
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="in blocks, if the text does not say it")
    parser.add_argument("--block", metavar="X[,Y[,Z]]", help="in threads, if the language launches threads (default 256)")
    parser.add_argument("--shared", type=int, default=0, metavar="B", help="bytes of dynamic shared memory")
    parser.add_argument("--no-run", action="store_true", help="do not execute it in a simulator")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the arrays' numbers")
    parser.add_argument("--asm", metavar="FILE", help="also write the assembly of the first target to FILE")
    options.add_output(parser)
    options.add_schema(parser, "inspect")


def run(args: argparse.Namespace) -> int:
    file, _, entry = args.source.partition(":")
    text = options.read_text(file, "the kernel")
    kernel = InspectedKernel(
        text, entry, arguments_of(args.args), _sizes(args.grid, "--grid"), _sizes(args.block, "--block"), args.shared, file,
        args.origin)  # fmt: skip
    inspections = inspect_all(kernel, registry().match(args.targets), args.seed, not args.no_run)
    if args.asm is not None:
        options.write_text(args.asm, inspections[0].assembly)
    if args.json is not None:
        told = {"file": file, "entry": entry, "findings": [f.to_dict() for f in inspections]}
        options.print_json(stamped("inspect", told), args.json)
    if args.json != "-":
        options.show(report(inspections))
    return 0 if all(f.error is None and f.fault is None for f in inspections) else 1


def _sizes(text: str | None, flag: str) -> tuple[int, int, int] | None:
    if text is None:
        return None
    try:
        x, y, z = (*(int(n) for n in text.split(",")), 1, 1)[:3]
    except ValueError:
        raise UsageError(f"{flag} {text}: not one to three whole numbers") from None
    if min(x, y, z) < 1:
        raise UsageError(f"{flag} {text}: sizes are positive")
    return x, y, z


def report(inspections: list[Inspection]) -> str:
    """Resources of every kernel and target in one table, then what there is to say of each target."""
    rows = [["target", "kernel", "registers", "accumulation", "spills", "scratch", "shared", "occupancy", "limited by"]]
    for f in inspections:
        rows += [_row(f.target, k) for k in f.kernels]
    parts = [table(rows, keys=2)] if len(rows) > 1 else []
    for f in inspections:
        lines = _lines(f)
        if lines:
            text = "\n".join([f"{f.target} ({f.device})", *(f"  {x}" for x in lines)])
            for name in (k["kernel"] for k in f.kernels):
                text = text.replace(name, readable(name))
            parts.append(text)
    return "\n\n".join(parts)


def _row(target: str, k: dict) -> list[str]:
    def said(value: object) -> str:
        return "-" if value is None else str(value)

    shown = [bytes_text(k[n]) if k.get(n) is not None else "-" for n in ("scratch_bytes", "shared_bytes")]
    share = "-" if k.get("occupancy") is None else f"{k['occupancy']:.0%}"
    return [
        target,
        readable(k["kernel"]),
        said(k.get("registers")),
        said(k.get("agprs")),
        said(k.get("spills")),
        *shown,
        share,
        said(k.get("limiter")),
    ]


def mix_text(counts: Mapping[str, int]) -> str:
    return f"{sum(counts.values())} instructions: " + ", ".join(f"{n} {kind}" for kind, n in counts.items())


def _lines(f: Inspection) -> list[str]:
    lines: list[str] = []
    if f.error is not None:
        lines += [f"{f.error['kind']}: {x}" if n == 0 else f"  {x}" for n, x in enumerate(f.error["message"].splitlines())]
        lines += [f"hint: {f.error['hint']}"] if f.error.get("hint") else []
    lines += [f"{name}: {mix_text(counts)}" for name, counts in f.instructions.items()]
    if f.estimate is not None:
        lines += [*f.estimate["report"], f"model: {f.estimate['model']} {f.estimate['version']}; {f.estimate['confidence']}"]
    if f.ran and f.fault is None:
        arrays = "the arrays that it brings" if f.own_arrays else "arrays of random numbers"
        lines.append(f"ran on {arrays}, {f.ran}: nothing wrong was seen (its results were compared with nothing)")
    if f.fault is not None:
        lines.append(f"FAULT, {f.ran}: {f.fault['message']}")
        lines += [f"  {f.fault['line']}"] if f.fault.get("line") else []
        lines += [f"hint: {f.fault['hint']}"] if f.fault.get("hint") else []
    return [*lines, *f.notes, *(x for r in f.remarks for x in _remark_lines(r))]


_KINDS = {"missing": "no counterpart: ", "assumes": "WARNING: "}


def _remark_lines(r: dict) -> list[str]:
    instead = f"; {r['instead']}" if r["instead"] else ""
    return [f"line {r['line']}: {_KINDS.get(r['kind'], '')}{r['text']}{instead}", f"  {r['line']} | {r['source']}"]
