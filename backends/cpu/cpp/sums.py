"""Sums of products that need no zeros to begin with: the first product sets them."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.emit.clike import plan as p
from portakern.emit.clike.terms import ZERO, is_zero, number


def set_by_products(body: Sequence[p.Statement]) -> frozenset[str]:
    """Tiles of ``body`` that are filled with zeros for a product alone, which surely comes first and adds to them."""
    found: set[str] = set()
    for n, s in enumerate(body):
        if isinstance(s, p.Fill) and s.define and is_zero(s.value) and _first_is_a_product(body[n + 1 :], s.name):
            found.add(s.name)
    return frozenset(found)


def _first_is_a_product(body: Sequence[p.Statement], name: str) -> bool:
    first = next((s for s in body if _mentions(s, name)), None)
    if isinstance(first, p.Loop):
        return first.begin == ZERO and (number(first.end) or 0) > 0 and _first_is_a_product(first.body, name)
    return isinstance(first, p.Dot) and first.acc == name


def _mentions(s: p.Statement, name: str) -> bool:
    return any(name in p.reads(x) or name in p.made(x) for x in p.statements([s]))
