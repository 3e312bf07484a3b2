"""Sizes of the dims of a finished program: such that it is allowed, and quick even where it is simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from portakern.fuzz.grammar.draws import Draw, pick
from portakern.ir.core import Op, Yield
from portakern.ir.size import Size, evaluate, names_of
from portakern.ir.tensor import Contract, Convolve, Recur, Scatter, SegmentContract, Sort, TensorType, WindowFold, tensor_type

# Around the tiles of the targets, primes, and what a unit of copying holds; 0 last: where it matters it is the cause.
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 13, 15, 16, 17, 20, 24, 28, 31, 32, 33, 37, 48, 63, 64, 65, 72, 96, 100, 101,
         127, 128, 129, 160, 192, 255, 256, 257, 384, 512, 513, 700, 1000, 1025, 2049, 4099, 0)  # fmt: skip
TILED = (15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)

MOST_ELEMENTS = 20_000
MOST_PRODUCTS = 3_000_000
LARGE = 40
"""How many times as large the few programs are that only compiled targets can take."""


REAL_SIZES = (1, 2, 3, 4, 7, 8, 12, 16, 32, 49, 64, 80, 96, 128, 197, 224, 256, 257, 300, 512, 513, 768, 1000, 1023, 1024, 1365,
              2048, 3072, 4091, 4096, 8192, 11008, 14336, 16384, 32768, 50257, 65536, 128256, 1_000_000)  # fmt: skip
"""Features, heads, tokens, pixels and vocabularies of models, and lengths beside them."""

REAL = 30_000
"""How many times as large programs are that nothing runs."""


@dataclass(frozen=True)
class Need:
    """A size that must be at least ``least`` and a multiple of ``of``."""

    size: Size
    least: int = 0
    of: int = 1

    def holds(self, sizes: Mapping[str, int]) -> bool:
        if not names_of(self.size) <= set(sizes):
            return True
        value = evaluate(self.size, sizes)
        return value >= self.least and value % self.of == 0


def there_are(ops: Iterable[Op]) -> list[Need]:
    """That no array of ``ops`` has a negative size: what is cut or slid over must be there."""
    sizes = dict.fromkeys(s for op in ops if isinstance(op.type, TensorType) for s in op.type.shape if names_of(s))
    return [Need(s) for s in sizes]


@dataclass(frozen=True)
class Budget:
    """The elements and steps (products, comparisons) that a program's operations may have; both as sizes to evaluate."""

    elements: tuple[Size, ...]
    products: tuple[Size, ...]

    @classmethod
    def of(cls, ops: Iterable[Op]) -> Budget:
        elements, products = {}, {}
        for op in ops:
            if steps := _steps(op):
                products[prod(steps, start=1)] = None
            if isinstance(op, Recur):
                inside = cls.of(o for o in op.step.ops if not isinstance(o, Yield))
                products |= dict.fromkeys(op.length * n for n in inside.products)
                elements |= dict.fromkeys(op.length * n for n in inside.elements)
            elif not isinstance(op, Sort):
                elements[prod(tensor_type(op).shape, start=1)] = None
        return cls(tuple(elements), tuple(products))

    def allows(self, sizes: Mapping[str, int], scale: int) -> bool:
        return (all(evaluate(s, sizes) <= MOST_ELEMENTS * scale for s in self.elements)
                and all(evaluate(s, sizes) <= MOST_PRODUCTS * scale for s in self.products))  # fmt: skip


COMPARISONS = 256
"""The comparisons of an element in a sort or scatter cost so many products, which simulators make many at once."""


def _steps(op: Op) -> tuple[Size, ...]:
    """Sizes whose product is how many steps an operation takes that takes more than one for an element."""
    match op:
        case Contract():
            lhs = tensor_type(op.lhs).shape
            return (*tensor_type(op).shape, *(lhs[a] for a in op.lhs_axes))
        case SegmentContract():
            return (*tensor_type(op).shape, tensor_type(op.lhs).shape[1])
        case Convolve():
            return (*tensor_type(op).shape, *tensor_type(op.w).shape[:-1])
        case WindowFold():
            return (*tensor_type(op).shape, *op.window)
        case Sort():
            return (*tensor_type(op.x).shape, COMPARISONS)
        case Scatter():
            return (*tensor_type(op).shape, COMPARISONS)
    return ()


def choose(draw: Draw, names: Sequence[str], budget: Budget, needs: Sequence[Need], scale: int,
           weights: Mapping[str, float]) -> dict[str, int]:  # fmt: skip
    """A size for each of ``names``; the smallest that are allowed where nothing else is."""
    least = {n: _least(n, needs) for n in names}
    sizes = dict(least)
    # The first ones may take all that is allowed: as often as not these are the dims that are last in arrays.
    for name in names if pick(draw, (True, False)) else names[::-1]:
        listed = REAL_SIZES if scale == REAL else SIZES
        allowed = [s for s in listed if s and _fits(sizes | {name: s}, needs) and budget.allows(sizes | {name: s}, scale)]
        allowed = allowed or [least[name]]
        zero = [0] if _fits(sizes | {name: 0}, needs) else []
        usual = [_weight(s, weights) if scale < REAL else min(s, 256) ** 0.5 for s in allowed]
        share = 0.01 * sum(usual) * weights.get("zero_dim", 1.0)
        sizes[name] = pick(draw, [*allowed, *zero], [*usual, *(share for _ in zero)])
    return sizes


def _weight(size: int, weights: Mapping[str, float]) -> float:
    if size == 1:
        return 1.5 * weights.get("unit_dim", 1.0)
    return 4.0 if size in TILED else 2.0 if size > 12 else 1.5


def _fits(sizes: Mapping[str, int], needs: Sequence[Need]) -> bool:
    return all(n.holds(sizes) for n in needs)


def _least(name: str, needs: Sequence[Need]) -> int:
    mine = [n for n in needs if names_of(n.size) == {name}]
    return next((s for s in (*range(1, 1000), *SIZES[:-1]) if _fits({name: s}, mine)), 1)
