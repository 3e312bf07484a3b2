"""The text of a product that is a pipeline between warps."""

from __future__ import annotations

from portakern.emit.clike import Printer
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import size_term

from .plan import WARPGROUP, PipelinePlan

REGISTERS = {8: (24, 240)}
"""Warps of the consumers -> registers a thread of the producer keeps, and of a consumer: together what the block got."""


def print_pipeline(printer: Printer, k: PipelinePlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    body = [*printer.usings(k), *walk_of_tiles(k), *_shared(printer, k), "", *_producer(printer, k), *_consumers(printer, k)]
    if k.cluster != (1, 1):
        body.append("pipe.close();  // blocks of a cluster end together: they write to each other's shared memory")
    return [*printer.opening(k), *indented(body), "}"]


def walk_of_tiles(k: PipelinePlan) -> list[str]:
    """The declaration of the tiles that a block computes one after the other."""
    down, across = k.cluster
    tiles = ", ".join(str(size_term(n)) for n in ((k.rows, k.cols, k.batches) if k.batches != 1 else (k.rows, k.cols)))
    notes = {(1, 1): "blocks work alone", (2, 1): "two blocks below each other share the right operand",
             (1, 2): "two blocks side by side share the left operand"}  # fmt: skip
    return [
        f"using Cluster = pk::Cluster<{down}, {across}>;  // "
        + notes.get(k.cluster, "blocks below each other share the right operand, blocks side by side the left one"),
        f"const pk::Tiles<Cluster, {k.band}> tiles({tiles});  // along {k.layouts[0].axes[0]} and {k.layouts[0].axes[1]}",
    ]


def shared_slots(printer: Printer, k: PipelinePlan) -> list[str]:
    """The declarations of the operands in shared memory."""
    lines, offset = ["extern __shared__ __align__(1024) unsigned char dynamic_shared[];"], 0
    for f in k.feeds:
        place = f"dynamic_shared + {offset}" if offset else "dynamic_shared"
        kind = printer.shared_type(f.shared)
        lines.append(f"auto* {f.shared.name} = reinterpret_cast<{kind}*>({place});  // {k.slots} slots")
        offset += f.bytes * k.slots
    return lines


def _shared(printer: Printer, k: PipelinePlan) -> list[str]:
    kind = printer.named("Pipeline", f"Cluster, {k.slots}, {k.warps}")
    return [*shared_slots(printer, k), f"{kind} pipe(dynamic_shared + {k.barriers_at});  // its barriers"]


def for_tiles(body: list[str]) -> list[str]:
    """``body`` for each of the block's tiles."""
    return ["for (auto tile = tiles; tile.inside(); tile.next()) {", *indented(body), "}"]


def _producer(printer: Printer, k: PipelinePlan) -> list[str]:
    registers = [f"pk::give_registers<{REGISTERS[k.warps][0]}>();"] if k.warps in REGISTERS else []
    return [
        f"if (pk::warp() >= {k.warps}) {{",
        f"    // The producer: one thread keeps the slots full, {k.slots} steps ahead and on into the next tile.",
        *indented(registers),
        f"    if (pk::thread() == {k.threads}) {{",
        *indented(indented(for_tiles(printer.statements(k.producer)))),
        "    }",
    ]


def _consumers(printer: Printer, k: PipelinePlan) -> list[str]:
    groups = k.threads // WARPGROUP
    box, done = outbox(printer, k)
    registers = [f"pk::take_registers<{REGISTERS[k.warps][1]}>();"] if k.warps in REGISTERS else []
    what = "two warpgroups multiply, each half of the tile" if groups == 2 else "one warpgroup multiplies"
    body = [*registers, *box, *for_tiles(printer.statements(k.consumers)), *done]
    return ["} else {", f"    // The consumers: {what}.", *indented(body), "}"]


def outbox(printer: Printer, k: PipelinePlan) -> tuple[list[str], list[str]]:
    """The declaration of what results leave through, and the last word to it."""
    if k.written is not None and k.written.place is not None:
        kind = printer.named("RowWriter", f"{printer.dialect.type(k.written.dtype)}, {printer.place(k.written.place)}")
        return [f"const {kind} writer(dynamic_shared + {k.outbox_at});  // for rows that begin anywhere"], []
    s = k.sent
    if s is None or s.place is None:
        return [], []
    kind = printer.named("Outbox", f"{printer.dialect.type(s.dtype)}, {printer.place(s.place)}, {s.panels}")
    return ([f"{kind} outbox(dynamic_shared + {k.outbox_at});  // for the copy engine to write to memory"],
            ["outbox.finish();  // it has read everything"])  # fmt: skip
