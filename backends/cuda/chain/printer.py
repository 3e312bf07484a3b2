"""Prints products of products as a producer and its consumers."""

from __future__ import annotations

from portakern.emit.clike import Printer
from portakern.emit.clike.printer import indented

from ..attention.printer import REGISTERS, print_rings
from ..hopper.plan import WARPGROUP
from .plan import ChainPlan


def print_chain(printer: Printer, k: ChainPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    give, take = ([f"pk::{word}_registers<{n}>();"] if k.warps in REGISTERS else []
                  for word, n in zip(("give", "take"), REGISTERS.get(k.warps, (0, 0)), strict=True))  # fmt: skip
    what = "two warpgroups, each with half of the rows" if k.threads // WARPGROUP == 2 else "one warpgroup"
    body = [
        *printer.usings(k), *print_rings(printer, k.rings, k.barriers_at, k.warps), "pk::ready();  // all barriers", "",
        f"if (pk::warp() >= {k.warps}) {{",
        "    // The producer: one thread fetches what the walk needs as soon as there is room.",
        *indented(give),
        f"    if (pk::thread() == {k.threads}) {{",
        *indented(indented(printer.statements(k.producer))),
        "    }",
        "} else {",
        f"    // The consumers: {what}. They compute with what one product",
        "    // has made while the matrix unit is at the next.",
        *indented([*take, *printer.statements(k.consumers)]),
        "}",
    ]  # fmt: skip
    return [*printer.opening(k), *indented(body), "}"]
