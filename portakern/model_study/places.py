"""Targets side by side: their kernels differ, the model's places do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.model_study.study import TargetPlan


@dataclass(frozen=True)
class Cell:
    """All kernels of one place on one target: microseconds, on which basis, and the share of the target's whole."""

    us: float | None
    basis: str
    share: float | None

    @staticmethod
    def together(cells: Sequence[Cell]) -> Cell:
        known = [c for c in cells if c.us is not None]
        if not known:
            return Cell(None, cells[0].basis, None)
        return Cell(sum(c.us or 0.0 for c in known), known[0].basis, sum(c.share or 0.0 for c in known))


def side_by_side(plans: Sequence[TargetPlan]) -> list[tuple[str, tuple[Cell, ...]]]:
    """(place, a cell for each plan), those first that take the largest share of any target."""
    names = dict.fromkeys(name for p in plans for r in p.rows for name, _ in r.places)
    found = [(name, tuple(_cell(p, name) for p in plans)) for name in names]
    return sorted(found, key=lambda entry: -max(c.share or 0.0 for c in entry[1]))


def _cell(p: TargetPlan, place: str) -> Cell:
    figures = [us * dict(r.places).get(place, 0) for r in p.rows if (us := r.us(p.basis)) is not None]
    figures = [us for us in figures if us]
    if not figures:
        return Cell(None, p.basis, None)
    total = p.total()
    return Cell(sum(figures), p.basis, sum(figures) / total if total else None)
