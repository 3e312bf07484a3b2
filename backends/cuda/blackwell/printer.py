"""The text of a product whose sums are in tensor memory."""

from __future__ import annotations

from portakern.emit.clike import Printer
from portakern.emit.clike.printer import indented

from ..hopper.printer import for_tiles, outbox, shared_slots, walk_of_tiles
from .plan import TensorPlan

REGISTERS = {8: (40, 232)}
"""Warps of the consumers -> registers a thread of the producer and issuer keeps, and of a consumer."""


def print_tensor_pipeline(printer: Printer, k: TensorPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    acc = k.dot.place.layout.name
    kind = printer.named("TensorPipeline", f"Cluster, {k.slots}, {acc}")
    body = [
        *printer.usings(k), *walk_of_tiles(k), *shared_slots(printer, k),
        f"{kind} pipe(dynamic_shared + {k.barriers_at});  // its barriers; and two sums in tensor memory",
        "",
        f"if (pk::warp() >= {k.warps}) {{",
        *indented([f"pk::give_registers<{REGISTERS[k.warps][0]}>();"] if k.warps in REGISTERS else []),
        *indented(_alone(k.warps, f"The producer keeps the slots full, {k.slots} steps ahead and on into the next tile.",
                         printer.statements(k.producer))),
        *indented(_alone(k.warps + 1, "The issuer starts products of what has arrived, one tile ahead of the consumers.",
                         printer.statements(k.issuer))),
        *_consumers(printer, k),
        "pipe.close();  // all sums have been taken",
    ]  # fmt: skip
    return [*printer.opening(k), *indented(body), "}"]


def _alone(warp: int, note: str, body: list[str]) -> list[str]:
    """What one thread of a warp does."""
    return [f"if (pk::warp() == {warp} && pk::elected()) {{", f"    // {note}", *indented(for_tiles(body)), "}"]


def _consumers(printer: Printer, k: TensorPlan) -> list[str]:
    box, done = outbox(printer, k)
    registers = [f"pk::take_registers<{REGISTERS[k.warps][1]}>();"] if k.warps in REGISTERS else []
    what = "two warpgroups, each with half of the columns" if k.warps == 8 else "one warpgroup"
    body = [*registers, *box, *for_tiles(printer.statements(k.consumers)), *done]
    return ["} else {", f"    // The consumers: {what}.", *indented(body), "}"]
