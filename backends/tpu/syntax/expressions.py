"""Python expressions under construction: text, how tightly it binds, and the block of the kernel it has at run time."""

from __future__ import annotations

from dataclasses import dataclass

ATOM, POWER, UNARY, PRODUCT, SUM, SHIFT, AND, XOR, OR, COMPARE = range(10)
"""How loosely an expression binds, from names and calls to comparisons (Python's operator precedence)."""

BINDING = {
    "**": POWER, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT, "+": SUM, "-": SUM, "<<": SHIFT, ">>": SHIFT,
    "&": AND, "^": XOR, "|": OR, "==": COMPARE, "!=": COMPARE, "<": COMPARE, "<=": COMPARE, ">": COMPARE, ">=": COMPARE,
}  # fmt: skip

BlockAxes = tuple[str | None, str | None]
"""The axes of the two dims (sublanes, lanes) of a block in a kernel; ``None`` is a dim of one element, ``ALL_LANES`` one
element repeated over all lanes."""

ALL_LANES = "*"
"""In place of the lanes' axis: what a loop carries for every row is kept 128 times, once a lane.  It takes the room of one
element, which is padded to a row of lanes in VMEM, and meets a tile without being spread by the cross-lane unit."""


@dataclass(frozen=True)
class PlacedExpr:
    """``place`` is ``None`` for a scalar (a Python number, a grid index, a value of scalar memory).  ``reference`` names the
    reference that it is all of, of which a part can be read instead."""

    text: str
    place: BlockAxes | None = None
    binding: int = ATOM
    literal: bool = False  # a plain number, which takes the dtype of what it meets
    reference: str = ""

    def at(self, loosest: int) -> str:
        """The text, in parentheses where it binds more loosely than its surroundings allow."""
        return self.text if self.binding <= loosest else f"({self.text})"


def join(*places: BlockAxes | None) -> BlockAxes | None:
    """The place of an elementwise result: a dim of one element gives way to the other's axis."""
    found = [p for p in places if p is not None]
    if not found:
        return None
    sides = [{p[d] for p in found if p[d] is not None} for d in (0, 1)]
    assert len(sides[1]) < 2 or ALL_LANES not in sides[1], places  # a wide column is spread before it meets a tile
    return tuple(next((p[d] for p in found if p[d] is not None), None) for d in (0, 1))  # type: ignore[return-value]


def infix(symbol: str, left: PlacedExpr, right: PlacedExpr) -> PlacedExpr:
    binding = BINDING[symbol]
    if right.text == "0" and symbol in "+-":
        return left
    # The right side of an operator of the same strength needs parentheses, and comparisons never chain.
    text = f"{left.at(binding - (binding == COMPARE))} {symbol} {right.at(binding - 1)}"
    return PlacedExpr(text, join(left.place, right.place), binding)


def call(function: str, *args: PlacedExpr, extra: str = "") -> PlacedExpr:
    inside = ", ".join([*(a.text for a in args), *([extra] if extra else [])])
    return PlacedExpr(f"{function}({inside})", join(*(a.place for a in args)))
