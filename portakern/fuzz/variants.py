"""How a program is tried beside the plain way: other schedules, layouts of arrays, the same array twice, the text form."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from portakern.check.adversarial import KINDS
from portakern.dtypes import DTYPES
from portakern.ir.program import ArrayFacts
from portakern.ir.size import evaluate
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.launch.facts import row_major

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

STAGES = ("integers", "nonfinite", "steep", "sparse", "cancelling", "large", "constant", "zeros", "tiny", "small")
"""Adversarial stages, those that find most first: shrinking goes to the front."""

WEIGHTS = (5, 3, 2, 1, 1, 1, 2, 1, 1, 1)
"""Ties and exact sums tell what roundings hide, infinities what masks let through."""

SEEDS = 1000
"""Of schedules and layouts."""

ALIGNMENTS = (8, 4, 2, 1)
"""Bytes that divide an address, in place of 16."""


@dataclass(frozen=True)
class Variation:
    """What is drawn per program beside the operator itself; the default is the plain way.

    Args:
        stages: the adversarial stages beside ``values``.
        schedule: seed of a random legal schedule; the backend's default where ``None``.
        chosen: schedules by target as text, one per kernel, in place of all others: how a finding is tried again.
        same: inputs of one type are one array.
        layout: seed of strides and alignment of the inputs; contiguous and aligned where ``None``.
        twin: dims that are open are static and the other way round.
        forms: the text form's round trip, emitting twice, and pickling.
    """

    stages: tuple[str, ...] = ()
    schedule: int | None = None
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    same: bool = False
    layout: int | None = None
    twin: bool = False
    forms: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Only what differs from the plain way."""
        plain = Variation()
        return {k: v for k, v in vars(self).items() if v != getattr(plain, k)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Variation:
        chosen = {t: tuple(texts) for t, texts in data.get("chosen", {}).items()}
        return replace(Variation(**data), stages=tuple(data.get("stages", ())), chosen=chosen)


ALL_STAGES = tuple(KINDS)
"""What ``portakern check`` takes small programs through."""


def variations(schedules: bool = False) -> SearchStrategy[Variation]:
    """Variations, mostly of the schedule alone; with ``schedules`` always with a random one and nothing else."""
    from hypothesis import strategies as st

    from portakern.fuzz.grammar.draws import Draw, chance, pick

    @st.composite
    def drawn(draw: Draw) -> Variation:
        first = pick(draw, STAGES, WEIGHTS)
        second = pick(draw, *zip(*((s, w) for s, w in zip(STAGES, WEIGHTS, strict=True) if s != first), strict=True))
        seed = draw(st.integers(0, SEEDS - 1))
        if schedules:
            return Variation((first, second), schedule=seed)
        return Variation(
            (first, second),
            schedule=seed if chance(draw, 75) else None,
            same=chance(draw, 12.5),
            layout=seed if chance(draw, 16) else None,
            twin=chance(draw, 16),
            forms=chance(draw, 16),
        )

    return drawn()


def layouts(program: TensorProgram, seed: int) -> dict[str, ArrayFacts]:
    """Strides and alignments of some inputs of ``program``, whose dims are all bound: other orders of dims, gaps between
    lines, addresses that fewer than 16 bytes divide."""
    rng = random.Random(seed)
    found: dict[str, ArrayFacts] = {}
    for arg in program.args:
        t = tensor_type(arg)
        shape = tuple(evaluate(n, {}) for n in t.shape)
        if not shape or 0 in shape or rng.random() < 0.3:
            continue
        width = DTYPES[t.dtype].bytes
        strides = _strides(shape, rng) if rng.random() < 0.6 else None
        align = max(width, rng.choice(ALIGNMENTS)) if rng.random() < 0.6 else 16
        if strides is not None or align != 16:
            found[arg.name] = ArrayFacts(strides, align)
    return found


def _strides(shape: tuple[int, ...], rng: random.Random) -> tuple[int, ...] | None:
    """Strides in elements of a view of a larger array; ``None`` where it is contiguous after all."""
    order = list(range(len(shape)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    larger = [n + rng.choice((0, 0, 1, 3)) for n in shape]
    step = rng.choice((1, 1, 1, 2))
    strides = [0] * len(shape)
    for dim in reversed(order):
        strides[dim] = step
        step *= larger[dim]
    contiguous = all(n == 1 or a == b for n, a, b in zip(shape, strides, row_major(shape), strict=True))
    return None if contiguous else tuple(strides)
