"""``portakern targets``: languages and devices that can be aimed at."""

from __future__ import annotations

import argparse

from portakern.backend import Language, Target
from portakern.cli import options
from portakern.device import Device
from portakern.ir.schedule import LOWERED_OPTIONS
from portakern.registry import registry
from portakern.study.command_schema import stamped
from portakern.study.layout import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", default="all", metavar="T,..", help="targets or patterns (default all)")
    options.add_output(parser)
    options.add_schema(parser, "targets")


def run(args: argparse.Namespace) -> int:
    found = registry().match(args.pattern)
    if args.json is not None:
        options.print_json(stamped("targets", {"targets": [describe(t) for t in found]}), args.json)
        return 0
    rows = [["target", "device", "products", "dtypes", "compiles with"]]
    rows += [_line(t) for t in found]
    options.show(table(rows))
    for fault in registry().broken:
        options.show(f"\nbackend {fault.name} could not be loaded: {fault.reason}")
    return 0


def describe(target: Target) -> dict[str, object]:
    """Everything a device description holds, with the source of every figure."""
    d = target.device
    language = registry().language(target.language)
    return {
        "target": str(target), "language": language.title, "backend": registry().backend_of(target.language).name,
        "isa": d.isa, "product": d.product or d.default_product or None, "vendor": d.vendor, "kind": d.kind, "title": d.title,
        "dtypes": list(d.dtypes), "alternatives": dict(d.alternatives), "features": list(d.features),
        "figures": {n: {"value": f.value, "unit": f.unit, "source": f.source} for n, f in d.figures.items()},
        "matrix": [vars(m) | {} for m in d.matrix],
        "products": products(language, d),
        "options": {**LOWERED_OPTIONS, **language.options}, "extra": language.extra or None,
    }  # fmt: skip


def products(language: Language, device: Device) -> list[str]:
    return [name for name, d in registry().devices(language.name).items() if d.isa == device.isa and d.product]


def _line(target: Target) -> list[str]:
    language = registry().language(target.language)
    tools = f"portakern[{language.extra}]" if language.extra else "portakern itself" if language.toolchain else "-"
    device = target.device
    named = " ".join(products(language, device))
    return [str(target), f"{device.vendor} {device.title}", named, " ".join(device.dtypes), tools]
