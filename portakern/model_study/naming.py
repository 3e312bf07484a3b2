"""What pieces are called: by the module whose work most of it is, and its line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from portakern.ir.core import Loc, Op
from portakern.ir.tensor import TensorProgram
from portakern.model_study.pieces import Piece
from portakern.spec.cost import COUNTS


@dataclass(frozen=True)
class Place:
    """Where in the model a piece belongs: ``path`` of the module (empty: the model itself) and ``line``, ``model.py:31``.

    ``feeds`` says that the piece only moves what the module there reads.
    """

    path: str
    line: str
    feeds: bool = False


def places(pieces: Sequence[Piece]) -> list[Place]:
    """The place of each piece; of one that computes nothing of its own, as copies into another layout, that of the first piece
    that reads what it writes."""
    own = [_own(p) for p in pieces]
    reads = [{a.name for a in p.program.by_role("input")} for p in pieces]
    writes = [{a.name for a in p.program.by_role("output")} for p in pieces]

    def of(number: int, seen: int = 0) -> Place:
        if (loc := own[number]) is not None:
            # A line of an installed library is known by its file alone.
            file = Path(loc.file).name if Path(loc.file).is_absolute() else loc.file
            return Place(loc.within, f"{file}:{loc.line}", seen > 0)
        reader = next((n for n in range(number + 1, len(pieces)) if reads[n] & writes[number]), None)
        return Place("", "") if reader is None else of(reader, seen + 1)

    return [of(n) for n in range(len(pieces))]


def _own(piece: Piece) -> Loc | None:
    """The line with most of the piece's arithmetic; of several with as much, the last."""
    best: tuple[float, Loc | None] = (0.0, None)
    for c in piece.computed:
        for op in c.program.body.ops:
            work = _amount(op) * _amount_of(c.times)
            if op.loc is not None and work > 0 and work >= best[0]:
                best = work, op.loc
    return best[1] or _any_line([c.program for c in piece.computed])


def _amount(op: Op) -> float:
    return _amount_of(COUNTS[type(op)](op)) if type(op) in COUNTS else 0.0


def _amount_of(size: object) -> float:
    return float(size) if isinstance(size, int) else 0.0


def _any_line(programs: Sequence[TensorProgram]) -> Loc | None:
    locs = [op.loc for p in programs for op in p.body.ops if op.loc is not None and op.operands]
    return locs[-1] if locs else None


# ---- equal pieces by one name ----------------------------------------------------------------------------------------------


def common(paths: Sequence[str]) -> str:
    """One text for the paths of equal pieces: ``blocks.{0-11}.up`` for twelve blocks; the first, and how many more, where that
    would name others too."""
    parts = [p.split(".") for p in dict.fromkeys(paths)]
    columns = [list(dict.fromkeys(column)) for column in zip(*parts, strict=False)]
    if len({len(p) for p in parts}) != 1 or prod(map(len, columns)) != len(parts):
        return f"{paths[0]} +{len(parts) - 1}"
    return ".".join(column[0] if len(column) == 1 else _several(column) for column in columns)


def _several(names: Sequence[str]) -> str:
    if not all(n.isdigit() for n in names):
        return "{" + ",".join(names) + "}"
    numbers = sorted(map(int, names))
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return "{" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) + "}"


def any_layer(path: str) -> str:
    """``blocks.*.up``: the path with the numbers of layers left out."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def words(piece: Piece) -> str:
    """What the piece is, in a word or two."""
    if piece.program.repeats:
        return "loop"
    families: Mapping[str, None] = dict.fromkeys(k.family for k in piece.program.kernels)
    computes = any(_amount(op) for c in piece.computed for op in c.program.body.ops)
    return "/".join(families) if computes else "copy"
