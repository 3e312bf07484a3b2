"""Prints a walk of warpgroups: the kernel's own words, and what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.emit.clike import Printer
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import size_term

from ..hopper.plan import WARPGROUP
from .plan import Ring, WalkPlan
from .tensor_plan import TensorWalkPlan

REGISTERS = {8: (24, 240)}
"""Warps of the consumers -> registers a thread of the producer keeps, and of a consumer: together what the block got."""

TENSOR_REGISTERS = {8: (56, 224)}
"""The same where an issuer, which computes what products read, is beside the producer."""


def print_walk(printer: Printer, k: WalkPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    if isinstance(k, TensorWalkPlan):
        return _tensor_walk(printer, k)
    ready = ["pk::ready();  // all barriers", ""]
    rings = print_rings(printer, k.rings, k.barriers_at, k.warps)
    body = [*printer.usings(k), *_words(printer, k), *rings, *ready, *_producer(printer, k), *_consumers(printer, k)]
    return [*printer.opening(k), *indented(body), "}"]


def _words(printer: Printer, k: WalkPlan) -> list[str]:
    order = "the last rows, which walk farthest, come first" if k.last_first else "the first rows come first"
    kind = printer.named("RowBlocks", f"{k.group}, {str(k.last_first).lower()}")
    return [f"const {kind} blocks({size_term(k.rows)}, {size_term(k.heads)});  // {order}"]


def print_rings(printer: Printer, rings: Sequence[Ring], barriers: int, readers: int) -> list[str]:
    """The rings, whose barriers begin at ``barriers`` and whose slots so many ``readers`` give back."""
    lines, offset = ["extern __shared__ __align__(1024) unsigned char dynamic_shared[];"], 0
    for r in rings:
        place = f"dynamic_shared + {offset}" if offset else "dynamic_shared"
        kind = f"pk::Ring<{printer.shared_type(r.shared)}, {r.slots}, {readers}>"
        lines.append(f"{kind} {r.name}({place}, dynamic_shared + {barriers});")
        offset += r.bytes
        barriers += r.barrier_bytes
    return lines


def _for_blocks(body: Sequence[str]) -> list[str]:
    return ["for (auto block = blocks; block.inside(); block.next()) {", *indented(body), "}"]


def _producer(printer: Printer, k: WalkPlan) -> list[str]:
    registers = [f"pk::give_registers<{REGISTERS[k.warps][0]}>();"] if k.warps in REGISTERS else []
    who, which = ("one warp", f"pk::warp() == {k.warps}") if k.by_pages else ("one thread", f"pk::thread() == {k.threads}")
    return [
        f"if (pk::warp() >= {k.warps}) {{",
        f"    // The producer: {who} fetches what the walk needs as soon as there is room, on into the next block of rows.",
        *indented(registers),
        f"    if ({which}) {{",
        *indented(indented(_for_blocks(printer.statements(k.producer)))),
        "    }",
    ]


def _consumers(printer: Printer, k: WalkPlan) -> list[str]:
    assert k.query is not None and k.keys is not None and k.values is not None
    registers = [f"pk::take_registers<{REGISTERS[k.warps][1]}>();"] if k.warps in REGISTERS else []
    groups = k.threads // WARPGROUP
    kind = printer.dialect.type(k.element)
    box, done = _outbox(printer, k)
    head = [
        f"pk::Tile<float, {k.score_layout}> {k.scores};",
        f"pk::Packed<{kind}, {k.score_layout}> {k.weights};",
        *(["pk::Turns turns;  // on the matrix unit"] if groups == 2 else []),
        *box,
    ]
    what = "two warpgroups, each with half of the rows" if groups == 2 else "one warpgroup"
    return [
        "} else {",
        f"    // The consumers: {what}. They compute the weights of one step while the",
        "    // matrix unit sums what those of the step before weigh.",
        *indented([*registers, *head, *_for_blocks(printer.statements(k.consumers)), *done]),
        "}",
    ]


def _outbox(printer: Printer, k: WalkPlan) -> tuple[list[str], list[str]]:
    """The declaration of what results leave through, and the last word to it."""
    s = k.sent
    if s is None or s.place is None:
        return [], []
    kind = printer.named("Outbox", f"{printer.dialect.type(s.dtype)}, {printer.place(s.place)}, {s.panels}")
    return ([f"{kind} outbox(dynamic_shared + {k.outbox_at});  // for the copy engine to write to memory"],
            ["outbox.finish();  // it has read everything"])  # fmt: skip


# ---- with tensor memory ---------------------------------------------------------------------------------------------------


def _tensor_walk(printer: Printer, k: TensorWalkPlan) -> list[str]:
    parts = f", {k.parts_of_sum}" if k.part else ""
    turned = ", ".join(str(x).lower() for x in (k.key_transposed, k.value_transposed))
    kind = printer.named("TensorWalk", f"{k.score_layout}, {k.sum_layout}, {k.slots}, {turned}{parts}")
    body = [
        *printer.usings(k), *_words(printer, k), *print_rings(printer, k.rings, k.barriers_at, 1),
        f"{kind} walk(dynamic_shared + {k.walk_at});  // its barriers; and tensor memory",
        "",
        *_tensor_producer(printer, k), *_tensor_consumers(printer, k),
        "walk.close();  // everything has been taken",
    ]  # fmt: skip
    return [*printer.opening(k), *indented(body), "}"]


def _tensor_producer(printer: Printer, k: TensorWalkPlan) -> list[str]:
    """And the issuer."""
    rings = ", ".join(r.name for r in k.rings)
    drain = f"walk.drain({rings});  // no commit is on its way to a block that has ended"
    fetch = [*_for_blocks(printer.statements(k.producer)), drain]
    who, alone = ("one warp", fetch) if k.by_pages else ("one thread", ["if (pk::elected()) {", *indented(fetch), "}"])
    issue = [*_for_blocks(printer.statements(k.issuer)), "walk.finish();"]
    issue = ["if (pk::elected()) {", *indented(issue), "}"]
    registers = [f"pk::give_registers<{TENSOR_REGISTERS[k.warps][0]}>();"] if k.warps in TENSOR_REGISTERS else []
    return [
        f"if (pk::warp() >= {k.warps}) {{",
        *indented([
            *registers,
            f"if (pk::warp() == {k.warps}) {{",
            f"    // The producer: {who} fetches what the walk needs as soon as there is room, on into the next block of rows.",
            *indented(alone),
            f"}} else if (pk::warp() == {k.warps + 1}) {{",
            "    // The issuer: one thread starts products as soon as what they read is there.",
            *indented(issue),
            "}",
        ]),
    ]  # fmt: skip


def _tensor_consumers(printer: Printer, k: TensorWalkPlan) -> list[str]:
    registers = [f"pk::take_registers<{TENSOR_REGISTERS[k.warps][1]}>();"] if k.warps in TENSOR_REGISTERS else []
    box, done = _outbox(printer, k)
    what = "two warpgroups, each with half of the rows" if k.groups == 2 else "one warpgroup"
    return [
        "} else {",
        f"    // The consumers: {what}. While they compute weights, the matrix unit",
        "    // multiplies what is weighed and makes other scores.",
        *indented([*registers, *box, *_for_blocks(printer.statements(k.consumers)), *done]),
        "}",
    ]
