"""Steps run one after the other, whose errors are carried on.

Taken step by step at its worst, an error grows by the sum of the magnitudes of a matrix's row at every product with the state:
after twenty steps of an LSTM that says nothing any more, while the state itself is as exact as before.  So the growth is
measured.  Probes run beside the exact values, each moved in every step by as much as that step alone may err: one always up,
one always down, others up and down at random, since the roundings of different steps are not aligned but where the numbers
repeat.

Probes know nothing of what a rounding may decide, a comparison say.  Where that happens the bound is the one at its worst, and
the probes go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import ManyType, Op, yielded
from portakern.ir.tensor import TensorType, tensor_type

from . import together
from .blocks import apply_block, values_of
from .probes import JUMPS, Signs, distance, every_sign, nearer
from .rules import rule
from .value import Val

Values = Sequence[np.ndarray]


@rule(t.Recur)
def _(op: t.Recur, *args: Val) -> tuple[Val, ...]:
    n, m = len(op.init), len(op.init) + len(op.xs)
    carries, lines, captured = args[:n], args[n:m], args[m:]
    probes = [_Probe(signs, carries) for signs in every_sign()]
    shown: dict[int, Sequence[Val]] = {}
    dtypes = [tensor_type(v).dtype for v in yielded(op.step)]
    for i in _order(op):
        rest = (*(_at(v, i) for v in lines), *captured)
        values = values_of(op.step, (*carries, *rest))
        made = tuple(values[v] for v in yielded(op.step))
        if _undecided(op, values):
            probes = [p.around(made[:n]) for p in probes]
        elif not all(v.exact for v in made):
            own = apply_block(op.step, (*(Val(v.x) for v in carries), *rest))
            found = together.apply_block(op.step, [(*p.carries, *(v.x for v in rest)) for p in probes])
            away = [p.moved_to(values, made, own) for p, values in zip(probes, found, strict=True)]
            farthest = map(np.maximum.reduce, zip(*away, strict=True))
            made = [_nearer(*x) for x in zip(made, own, farthest, dtypes, strict=True)]
        carries, shown[i] = tuple(Val(v.x, v.e) for v in made[:n]), made[n:]
    return (*carries, *(_stacked([shown[i][k] for i in sorted(shown)], of) for k, of in enumerate(_types(op))))


class _Probe:
    """Carries that err, with the signs of their errors."""

    def __init__(self, signs: Signs, carries: Sequence[Val]) -> None:
        self._moved = signs.moved
        self.carries = [signs.moved(v.x, v) for v in carries]

    def around(self, carries: Sequence[Val]) -> _Probe:
        """The probe, gone as far from ``carries`` as they may be off."""
        self.carries = [self._moved(v.x, v) for v in carries]
        return self

    def moved_to(self, found: Values, exact: Sequence[Val], own: Sequence[Val]) -> list[np.ndarray]:
        """One step further, where it ``found`` these: how far each result is from the ``exact`` one; ``own`` is what the step
        may err by itself."""
        made = [self._moved(x, by) for x, by in zip(found, own, strict=True)]
        self.carries = made[: len(self.carries)]
        return [distance(a, b.x) for a, b in zip(made, exact, strict=True)]


def _undecided(op: t.Recur, values: Mapping[Op, Any]) -> bool:
    """Whether a comparison, an integer or a function that jumps depends on roundings in this step."""
    jumps = (values[o] for o in op.step.ops if isinstance(o, t.Map) and o.fn in JUMPS)
    every = (v for value in values.values() for v in (value if isinstance(value, tuple) else (value,)))
    whole = (v for v in every if v.x.dtype.kind in "biu")
    return any(not v.exact and bool(v.bound().any()) for v in (*jumps, *whole))


def _nearer(v: Val, own: Val, farthest: np.ndarray, dtype: str) -> Val:
    """As :func:`nearer`; what is open stays so."""
    near = nearer(v, own, farthest, dtype)
    return near if near is v else Val(v.x, np.where(v.open(), v.bound(), near.bound()))


def _order(op: t.Recur) -> Iterator[int]:
    (length,) = oracle.static((op.length,))
    return reversed(range(length)) if op.reverse else iter(range(length))


def _types(op: t.Recur) -> tuple[TensorType, ...]:
    assert isinstance(op.type, ManyType)
    return op.type.types[len(op.init) :]  # type: ignore[return-value]


def _at(v: Val, i: int) -> Val:
    return Val(v.x[i], 0.0 if v.exact else v.bound()[i])


def _stacked(parts: Sequence[Val], of: TensorType) -> Val:
    x = np.empty(oracle.static(of.shape), oracle.working_dtype(of.dtype))
    for i, part in enumerate(parts):
        x[i] = part.x
    return Val(x) if all(p.exact for p in parts) else Val(x, np.stack([p.bound() for p in parts]))
