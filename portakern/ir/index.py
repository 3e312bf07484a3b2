"""The index grammar: how a tile's coordinates become the coordinates of a buffer."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from portakern.errors import IRError
from portakern.ir.core import codec
from portakern.ir.size import Size, parse_size


@dataclass(frozen=True)
class Term:
    """``scale * ((coordinate of axis // div) % mod)``: a coordinate, or a component of a flattened axis."""

    axis: str
    scale: Size = 1
    div: int = 1
    mod: int = 0  # 0: no remainder taken

    def __str__(self) -> str:
        text = self.axis
        if self.div != 1:
            text = f"{text} // {self.div}"
        if self.mod:
            text = f"({text}) % {self.mod}" if self.div != 1 else f"{text} % {self.mod}"
        if self.scale == 1:
            return text
        inner = text if text == self.axis else f"({text})"
        scale = str(self.scale) if isinstance(self.scale, int) else f"({self.scale})"
        return f"{scale}*{inner}"


@dataclass(frozen=True)
class Index:
    """One coordinate of a buffer: a sum of :class:`Term` over axes, plus ``offset``, plus a gathered tile.

    ``gather`` is the position, in the access's ``gathers``, of an integer tile that is added (-1: none).
    """

    terms: tuple[Term, ...] = ()
    offset: Size = 0
    gather: int = -1

    @staticmethod
    def of(axis: str, scale: Size = 1, offset: Size = 0) -> Index:
        return Index((Term(axis, scale),), offset)

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.axis for t in self.terms))

    @property
    def plain(self) -> str | None:
        """The axis whose coordinate this index is, unscaled and without offset."""
        only = self.terms[0] if len(self.terms) == 1 else None
        return only.axis if only and only == Term(only.axis) and self.offset == 0 and self.gather < 0 else None

    def __str__(self) -> str:
        parts = [*map(str, self.terms), *([f"gather{self.gather}"] if self.gather >= 0 else [])]
        if self.offset != 0 or not parts:
            parts.append(f"({self.offset})" if not isinstance(self.offset, int) else str(self.offset))
        return " + ".join(parts)

    @staticmethod
    def parse(text: str) -> Index:
        return _parse_index(text)


def _parse_index(text: str) -> Index:
    terms: list[Term] = []
    offset: Size = 0
    gather = -1

    def summands(node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and node not in wrapped:
            return [*summands(node.left), *summands(node.right)]
        return [node]

    def component(node: ast.expr) -> tuple[str, int, int]:
        match node:
            case ast.Name(id=name):
                return name, 1, 0
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant(value=int() as div)):
                return component(left)[0], div, 0
            case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int() as mod)):
                name, div, _ = component(left)
                return name, div, mod
        raise IRError(f"not an index: {text!r}")

    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise IRError(f"not an index: {text!r}") from None
    # A sum in parentheses is the symbolic offset, never a list of terms.
    wrapped = {n for n in ast.walk(tree) if isinstance(n, ast.expr) and n.col_offset > 0
               and text[n.col_offset - 1] == "(" and text[(n.end_col_offset or 0):][:1] == ")"}
    for node in summands(tree):
        source = ast.get_source_segment(text, node) or ""
        match node:
            case ast.Constant(value=int()) | ast.UnaryOp():
                offset = offset + parse_size(source)
            case ast.Name(id=name) if name.startswith("gather") and name[6:].isdigit():
                gather = int(name[6:])
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if node not in wrapped:
                name, div, mod = component(right)
                terms.append(Term(name, parse_size(ast.get_source_segment(text, left) or ""), div, mod))
            case _ if node in wrapped:
                offset = offset + parse_size(source)
            case _:
                terms.append(Term(*_flip(component(node))))
    return Index(tuple(terms), offset, gather)


def _flip(part: tuple[str, int, int]) -> tuple[str, Size, int, int]:
    name, div, mod = part
    return name, 1, div, mod


codec("Index", str, Index.parse)
