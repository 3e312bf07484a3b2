"""The text of a product whose sums are in tensor memory."""

from __future__ import annotations

from portakern.emit.clike import Printer
from portakern.emit.clike.printer import indented

from ..hopper.printer import for_tiles, outbox, shared_slots, walk_of_tiles
from .plan import TensorPlan


def print_tensor_pipeline(printer: Printer, k: TensorPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    acc = k.dot.place.layout.name
    parts = f", {k.parts_of_sum}" if k.parts_of_sum > 1 else ""
    kind = printer.named("TensorPipeline", f"Cluster, {k.slots}, {acc}{parts}")
    body = [
        *printer.usings(k), *walk_of_tiles(k), *shared_slots(printer, k),
        f"{kind} pipe(dynamic_shared + {k.barriers_at});  // its barriers; and two sums in tensor memory",
        "",
        *_alone("if", k.warps, f"The producer: one thread keeps the slots full, {k.slots} steps ahead, on into the next tile.",
                printer.statements(k.producer), "pipe.drain();  // no commit is on its way to a block that has ended"),
        *_alone("} else if", k.warps + 1, "The issuer: one thread starts products, up to a tile ahead of the consumers.",
                printer.statements(k.issuer)),
        *_consumers(printer, k),
        "pipe.close();  // all sums have been taken",
    ]  # fmt: skip
    return [*printer.opening(k), *indented(body), "}"]


def _alone(when: str, warp: int, note: str, body: list[str], *last: str) -> list[str]:
    """What one thread of a warp does for each tile, and at last."""
    alone = ["if (pk::elected()) {", *indented([*for_tiles(body), *last]), "}"]
    return [f"{when} (pk::warp() == {warp}) {{", f"    // {note}", *indented(alone)]


def _consumers(printer: Printer, k: TensorPlan) -> list[str]:
    box, done = outbox(printer, k)
    what = "two warpgroups, each with half of the columns" if k.warps == 8 else "one warpgroup"
    body = [*box, *for_tiles(printer.statements(k.consumers)), *done]
    return ["} else {", f"    // The consumers: {what}.", *indented(body), "}"]
