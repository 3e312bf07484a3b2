"""Random numbers from a seed, among what is computed."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production
from portakern.fuzz.grammar.views import shape_texts


def _seed(s: FuzzScope) -> str:
    return str(s.scalar("seed", "i64")) if chance(s.draw, 70) else pick(s.draw, ("0", "12345", "2**40 + 7"))


def _shape(x: Var) -> str:
    return f"({', '.join(shape_texts(x))},)"


@production(1.5)
def uniform(s: FuzzScope) -> Var:
    x = s.number((2, 1, 3))
    low, high = pick(s.draw, ((0.0, 1.0), (-2.0, 3.0)))
    more = f", {low}, {high}" if low else ""
    return s.let(f"{x} * pk.uniform({_seed(s)}, {_shape(x)}{more})", x.range * Range(low, high))


@production(1.0)
def normal(s: FuzzScope) -> Var:
    """Noise added, perhaps scaled by a number for each row."""
    x = s.number((2, 1, 3))
    noise = s.let(f"pk.normal({_seed(s)}, {_shape(x)}, std=0.5)", Range(-4.0, 4.0), "noise")
    return s.let(f"{x} + {noise}", x.range + noise.range)


@production(1.0)
def bernoulli(s: FuzzScope) -> Var:
    x = s.number((2, 1, 3))
    return s.let(f"pk.where(pk.bernoulli({_seed(s)}, {_shape(x)}, 0.25), {x}, 1.0)", x.range | UNIT)


@production(1.5)
def dropout(s: FuzzScope) -> Var:
    x = s.number((2, 3, 1, 4))
    return s.let(f"pk.dropout({x}, {_seed(s)}, 0.5)", x.range + x.range)


@production(0.7)
def random_bits(s: FuzzScope) -> Var:
    """A few of the bits; now and then all."""
    x = s.number((2, 1, 3))
    found = f"pk.random_bits({_seed(s)}, {_shape(x)})"
    if chance(s.draw, 25):
        return s.let(found, Range(0.0, 2.0**32 - 1))
    return s.let(f"pk.cast(pk.cast({found}, pk.i64) & 255, pk.i32)", Range(0.0, 255.0))
