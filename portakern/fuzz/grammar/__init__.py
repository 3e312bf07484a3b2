"""Operators by weighted grammar: ``cases`` draws one, ``FEATURES`` names what it may be made of.

Each production is a function on a :class:`~portakern.fuzz.grammar.scope.FuzzScope` in the table
(:mod:`portakern.fuzz.grammar.table`); the modules imported here fill it, the simplest first.
"""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from portakern.fuzz.case import FuzzCase

# The order of the table is that of these imports.
# isort: off
from portakern.fuzz.grammar import (  # noqa: F401
    elementwise, reductions, numbers, views, gathers, pieces, orders, counts, random, segments, products, algebra, spectra,
    steps, windows, normalising, attention, gates, few_bits, rotations, heads, decoding, paged,
)  # fmt: skip
# isort: on
from portakern.fuzz.grammar import program
from portakern.fuzz.grammar.table import TABLE

FEATURES: tuple[str, ...] = (*TABLE, *program.ASPECTS)
"""Names of all productions, and of what a program is tried with (a dim of 0, an open dim, a dtype, ...)."""


def cases(weights: Mapping[str, float] | None = None) -> st.SearchStrategy[FuzzCase]:
    """Operators that trace, with sizes that keep them quick.

    Args:
        weights: factors on the grammar's own weights, by feature; 0 leaves a feature out.  ``large`` is for programs of
            some 40 times the usual work, which no simulator should be given.
    """
    unknown = set(weights or ()) - set(FEATURES)
    assert not unknown, f"no feature is called {sorted(unknown)}"
    return program.cases(dict(weights or {}))
