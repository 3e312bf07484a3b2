"""In which order the statements of a step stand, so that the matrix unit has work while the threads compute.

First come the products that need nothing of the step, then loads, which arrive while these are under way.  Then what other
products need: first those that wait for the fewest of the first ones.  So of a gradient of attention

    scores = k q, products = v d_out           are started
    weights of the scores                      while the second product is under way
    d_v += weights d_out                       is started
    differences of weights and products        while it is under way
    d_k += differences q                       is started
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.emit.clike import plan as p

_ONCE = (p.Scalar, p.Map, p.Fill, p.LoadTile, p.Dot)
"""Statements that make something once, or are products."""


def in_good_order(body: Sequence[p.Statement]) -> list[p.Statement]:
    """``body``, whose statements change their places only if each of them makes a value of its own, or sums into one."""
    dots = [s for s in body if isinstance(s, p.Dot)]
    names = [*(name for s in body for name in p.made(s)), *(f"sum in {s.acc}" for s in dots)]
    if len(set(names)) != len(names) or not all(isinstance(s, _ONCE) and getattr(s, "define", True) for s in body):
        return list(body)
    makers: dict[str, list[p.Statement]] = {}
    for s in body:
        for name in (*p.made(s), *((s.acc,) if isinstance(s, p.Dot) else ())):
            makers.setdefault(name, []).append(s)

    known: dict[int, list[p.Statement]] = {}

    def needs(s: p.Statement) -> list[p.Statement]:
        if id(s) not in known:
            makers_of_s = [x for name in p.reads(s) for x in makers.get(name, ()) if x is not s]
            known[id(s)] = [*{id(y): y for x in makers_of_s for y in (*needs(x), x)}.values()]
        return known[id(s)]

    waits = {id(s): max((n for n, x in enumerate(dots) if x is not s and x in needs(s)), default=-1) for s in dots}
    wanted = [s for s in dots if waits[id(s)] < 0]
    wanted += [s for s in body if isinstance(s, p.LoadTile)]
    wanted += sorted((s for s in dots if waits[id(s)] >= 0), key=lambda s: waits[id(s)])
    made: list[p.Statement] = []
    for s in (*wanted, *body):
        before = needs(s)
        made += [x for x in body if (x is s or x in before) and x not in made]
    return made
